"""What a process and its descendants use, sampled from /proc: the memory of Spark's workers and of all together."""

import os
import threading
from pathlib import Path
from typing import NamedTuple

_EVERY_SECONDS = 0.2
_TICKS = os.sysconf("SC_CLK_TCK")


class Use(NamedTuple):
    """MiB and CPU seconds. `worker` is the peak of the largest Python worker of Spark, `together` that of all."""

    worker: float
    together: float
    cpu_seconds: float


def cpu_seconds(root: int) -> float:
    """Return what a process and its living descendants have used so far."""
    return sum(_cpu(process) for process in _descendants(root))


def cpu_by_kind(root: int) -> dict[str, float]:
    """Return the CPU seconds of a `consume` so far: its JVM, its processors with what starts them, and itself."""
    found: dict[str, float] = {}
    for process in _descendants(root):
        kind = _kind(process, root)
        found[kind] = found.get(kind, 0.0) + _cpu(process)
    return found


def memory_by_kind(root: int) -> dict[str, float]:
    """Return the MiB of a `consume` now, each page counted in proportion to its users (PSS)."""
    found: dict[str, float] = {}
    for process in _descendants(root):
        try:
            pages = Path(f"/proc/{process}/smaps_rollup").read_text()
        except OSError:
            continue  # it has just ended
        kind = _kind(process, root)
        found[kind] = found.get(kind, 0.0) + _mib(pages, "Pss:")
    return found


def _kind(process: int, root: int) -> str:
    if process == root:
        return "supervisor"
    try:
        return "java" if Path(f"/proc/{process}/comm").read_text().strip() == "java" else "processors"
    except OSError:
        return "processors"  # it has just ended


class Watch:
    """Samples the descendants of a process until `stop`."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._worker = self._together = 0.0
        self._cpu: dict[int, float] = {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> Use:
        """Return what was seen."""
        self._done.set()
        self._thread.join()
        return Use(self._worker, self._together, sum(self._cpu.values()))

    def _watch(self) -> None:
        while not self._done.wait(_EVERY_SECONDS):
            together = 0.0
            for process in _descendants(self._root):
                folder = Path(f"/proc/{process}")
                try:
                    status, command = (folder / "status").read_text(), (folder / "cmdline").read_bytes()
                except OSError:
                    continue  # it has just ended
                self._cpu[process] = max(_cpu(process), self._cpu.get(process, 0.0))
                together += _mib(status, "RssAnon:")
                if b"pyspark.daemon" in command:
                    self._worker = max(self._worker, _mib(status, "VmHWM:"))
            self._together = max(self._together, together)


def _descendants(root: int) -> list[int]:
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
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0  # it has just ended
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _mib(status: str, name: str) -> float:
    _, _, rest = status.partition(name)
    return int(rest.split()[0]) / 1024 if rest else 0.0
