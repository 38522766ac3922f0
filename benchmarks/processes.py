"""What a process and its descendants use, sampled from /proc: the memory of Spark's workers and of all together."""

import os
import threading
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Final, NamedTuple

from minutebook.clock import SystemClock

_EVERY_SECONDS = 0.2
_TICKS = os.sysconf("SC_CLK_TCK")
_CLOCK: Final = SystemClock()
KINDS: Final = ("driver, Python", "driver, JVM", "executor, JVM", "workers, Python")
"""Of the processes of a nightly job. The workers are those of one executor, and what forks them."""


class Use(NamedTuple):
    """MiB and CPU seconds. `worker` is the peak of the largest Python worker of Spark, `together` that of all."""

    worker: float
    together: float
    cpu_seconds: float


def cpu_seconds(root: int) -> float:
    """Return what a process and its living descendants have used so far."""
    return sum(_cpu(process) for process in descendants(root))


def cpu_by_kind(root: int) -> dict[str, float]:
    """Return the CPU seconds of a `consume` so far: its JVM, its processors with what starts them, and itself."""
    found: dict[str, float] = {}
    for process in descendants(root):
        kind = _kind(process, root)
        found[kind] = found.get(kind, 0.0) + _cpu(process)
    return found


def memory_by_kind(root: int) -> dict[str, float]:
    """Return the MiB of a `consume` now, each page counted in proportion to its users (PSS)."""
    found: dict[str, float] = {}
    for process in descendants(root):
        try:
            pages = Path(f"/proc/{process}/smaps_rollup").read_text()
        except OSError:
            continue  # it has just ended
        kind = _kind(process, root)
        found[kind] = found.get(kind, 0.0) + mib_of(pages, "Pss:")
    return found


def _kind(process: int, root: int) -> str:
    if process == root:
        return "supervisor"
    try:
        return "java" if Path(f"/proc/{process}/comm").read_text().strip() == "java" else "processors"
    except OSError:
        return "processors"  # it has just ended


class Sampler(ABC):
    """Calls `sample` every so many seconds, from a thread of its own, until `finish`."""

    def __init__(self, root: int, every_seconds: float) -> None:
        self.root = root
        self._every = every_seconds
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @abstractmethod
    def sample(self) -> None:
        """Look at the process and its descendants once."""

    def finish(self) -> None:
        """Return when nothing is sampled any more."""
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._done.wait(self._every):
            self.sample()


class Watch(Sampler):
    """Samples the descendants of a process until `stop`."""

    def __init__(self, root: int) -> None:
        self._worker = self._together = 0.0
        self._cpu: dict[int, float] = {}
        super().__init__(root, _EVERY_SECONDS)

    def stop(self) -> Use:
        """Return what was seen."""
        self.finish()
        return Use(self._worker, self._together, sum(self._cpu.values()))

    def sample(self) -> None:
        """Take the memory of all together, and of the largest worker."""
        together = 0.0
        for process in descendants(self.root):
            folder = Path(f"/proc/{process}")
            try:
                status, command = (folder / "status").read_text(), (folder / "cmdline").read_bytes()
            except OSError:
                continue  # it has just ended
            self._cpu[process] = max(_cpu(process), self._cpu.get(process, 0.0))
            together += mib_of(status, "RssAnon:")
            if b"pyspark.daemon" in command:
                self._worker = max(self._worker, mib_of(status, "VmHWM:"))
        self._together = max(self._together, together)


class Curve(Sampler):
    """Samples what Spark's processes hold, by kind, every second until `stop`; with the CPU time of each."""

    def __init__(self, root: int, every_seconds: float = 1.0) -> None:
        self._begin = _CLOCK.monotonic()
        self._samples: list[dict[str, float]] = []
        self._peaks: dict[str, float] = {}
        self._cpu: dict[int, tuple[str, float]] = {}
        super().__init__(root, every_seconds)

    def stop(self) -> dict[str, Any]:
        """Return the samples, the peak of the largest process of each kind and of all together, and CPU seconds."""
        self.finish()
        cpu: dict[str, float] = {}
        for kind, seconds in self._cpu.values():
            cpu[kind] = cpu.get(kind, 0.0) + seconds
        together = max((sum(sample[kind] for kind in KINDS if kind in sample) for sample in self._samples), default=0)
        return {"samples": self._samples, "peaks": self._peaks, "together": together, "cpu": cpu}

    def sample(self) -> None:
        """Take the memory of each kind, and what each process has used."""
        sample: dict[str, float] = {"seconds": round(_CLOCK.monotonic() - self._begin, 1)}
        for process in descendants(self.root):
            try:
                status = Path(f"/proc/{process}/status").read_text()
            except OSError:
                continue  # it has just ended
            kind = _spark_kind(process, self.root)
            sample[kind] = sample.get(kind, 0.0) + mib_of(status, "VmRSS:")
            self._peaks[kind] = max(mib_of(status, "VmHWM:"), self._peaks.get(kind, 0.0))
            former = self._cpu.get(process, (kind, 0.0))
            self._cpu[process] = (kind if former[1] == 0 else former[0], max(_cpu(process), former[1]))
        self._samples.append(sample)


def _spark_kind(process: int, root: int) -> str:
    if process == root:
        return "driver, Python"
    try:
        command = Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return "other"  # it has just ended
    if b"pyspark.daemon" in command:
        return "workers, Python"
    if b"CoarseGrainedExecutorBackend" in command:
        return "executor, JVM"
    return "driver, JVM" if b"org.apache.spark" in command else "other"


def descendants(root: int) -> list[int]:
    """Return a process and all that it started, as far as they live."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has just ended
        children.setdefault(parent, []).append(int(stat.parent.name))
    found = [root]
    for process in found:
        found += children.get(process, [])
    return found


def _cpu(process: int) -> float:
    try:
        return used_of(Path(f"/proc/{process}/stat"))[1]
    except OSError:
        return 0.0  # it has just ended


def used_of(stat: Path) -> tuple[str, float]:
    """Return the name and the CPU seconds of a process or thread; raises OSError when it has ended."""
    head, _, rest = stat.read_text().rpartition(")")
    fields = rest.split()
    return head.partition("(")[2], (int(fields[11]) + int(fields[12])) / _TICKS


def mib_of(status: str, name: str) -> float:
    """Return a row of `status`, or of `smaps_rollup`, in MiB; 0 where there is none."""
    _, _, rest = status.partition(name)
    return int(rest.split()[0]) / 1024 if rest else 0.0
