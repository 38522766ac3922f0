"""A backlog on many shards at once, and how much heap the daemon needs for it: does it finish, stall or die?

One real `minutebook consume` per bound of the heap, on the stream that answers from memory (`kinesis.cjs`), with the
product's own presets. It is done when every shard's last record is checkpointed, and given up after the patience. The
supervisor's log tells how often the daemon ran out of memory; what the collector's threads took is read from /proc.

    python -m benchmarks heap [--heaps 256m 384m 512m 768m] [--shards 64] [--megabytes 10] [--max-records 10000 1000]
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from benchmarks.figures import Column, publish
from benchmarks.processes import Sampler, descendants, mib_of, used_of
from benchmarks.whole_path import consume, stream
from demo.bootstrap import ensure_java
from demo.embedded import EmbeddedAws
from minutebook.clock import SystemClock
from tests.e2e.worker import Worker, is_running

_CLOCK: Final = SystemClock()
_LETTERS: Final = 62
_COLLECTORS: Final = ("GC Thread", "G1 ", "VM Thread")
"""Threads of the JVM that collect garbage: G1's own; the serial collector works in the VM's thread."""
_COLUMNS: Final = (
    Column("heap", "heap"),
    Column("maxRecords", "max_records", ",d"),
    Column("outcome", "outcome"),
    Column("seconds", "seconds", ".0f"),
    Column("daemons", "daemons"),
    Column("of these out of memory", "exhausted"),
    Column("why they ended", "ends"),
    Column("peak RSS of the JVM, MiB", "peak_mib", ".0f"),
    Column("CPU s of the JVM", "cpu", ".0f"),
    Column("share of the collector", "share", ".0%"),
    Column("CPU s of the JVM per GB", "cpu_per_gb", ".0f"),
)


class JvmWatch(Sampler):
    """Samples the daemons below a process until `stop`: the highest memory, and CPU time by kind of thread."""

    def __init__(self, root: int) -> None:
        self._peak = 0.0
        self._cpu: dict[int, tuple[float, float]] = {}
        super().__init__(root, every_seconds=1.0)

    def stop(self) -> dict[str, float]:
        """Return MiB, CPU seconds of all daemons, and those of their collectors."""
        self.finish()
        cpu, collector = (sum(each) for each in zip(*self._cpu.values(), strict=True)) if self._cpu else (0.0, 0.0)
        return {"peak_mib": self._peak, "cpu": cpu, "collector": collector}

    def sample(self) -> None:
        """Take memory and CPU time of what lives."""
        for process in descendants(self.root):
            try:
                if Path(f"/proc/{process}/comm").read_text().strip() == "java":
                    self._cpu[process] = max(cpu_of_jvm(process), self._cpu.get(process, (0.0, 0.0)))
                    self._peak = max(self._peak, mib_of(Path(f"/proc/{process}/status").read_text(), "VmHWM:"))
            except OSError:
                continue  # it has just ended


def cpu_of_jvm(process: int) -> tuple[float, float]:
    """Return the CPU seconds of a JVM, and of those of its threads that collect garbage: they live as long as it."""
    collector = 0.0
    for stat in Path(f"/proc/{process}/task").glob("*/stat"):
        name, seconds = used_of(stat)
        collector += seconds if name.startswith(_COLLECTORS) else 0.0
    return used_of(Path(f"/proc/{process}/stat"))[1], collector


def run(aws: EmbeddedAws, folder: Path, heap: str, max_records: int, options: argparse.Namespace) -> dict[str, Any]:
    """Let one daemon catch up within a heap."""
    java = " ".join(filter(None, [f"-Xmx{heap}" if heap else "", options.java]))
    with (
        stream(options.shards, options.megabytes, options.payload) as (kinesis, last),
        consume(aws, folder, kinesis, java=java, maxRecords=str(max_records)) as worker,
    ):
        begin, watch = _CLOCK.monotonic(), JvmWatch(worker.pid)
        outcome = _wait(worker, last, begin + options.patience, options.deaths)
        seconds, seen = _CLOCK.monotonic() - begin, watch.stop()
        events = worker.events
        exhausted, daemons = len(events.all("daemon_out_of_memory")), len(events.all("daemon_started"))
        ends = [event.get("error", "")[:_LETTERS] for event in events.all("daemon_restarting")]
        open_shards = len(last) - len(_caught_up(worker, last))
    cpu = max(seen["cpu"], 0.01)
    row = {"heap": heap or "default", "max_records": max_records, "outcome": outcome, "seconds": seconds}
    row |= {
        "daemons": daemons,
        "exhausted": exhausted,
        "behind": open_shards,
        "ends": "; ".join(ends),
        **seen,
        "share": seen["collector"] / cpu,
    }
    return {**row, "cpu_per_gb": cpu / options.shards / options.megabytes * 1000, "load": os.getloadavg()[0]}


def _caught_up(worker: Worker, last: list[str]) -> set[str]:
    ends = {f"shardId-{number:012d}": f"{sequence}:0" for number, sequence in enumerate(last)}
    written = worker.events.all("checkpoint_written")
    return {event["shard"] for event in written if ends.get(event["shard"]) == event["position"]}


def _wait(worker: Worker, last: list[str], deadline: float, deaths: int) -> str:
    while _CLOCK.monotonic() < deadline:
        if len(_caught_up(worker, last)) == len(last):
            return "caught up"
        if len(worker.events.all("daemon_out_of_memory")) >= deaths:
            return f"out of memory, {deaths} times"
        if not is_running(worker.pid):
            return "gave up"
        _CLOCK.sleep(1)
    return f"{len(_caught_up(worker, last))} of {len(last)} shards in time"


def main(arguments: list[str]) -> int:
    """Print a row for each bound of the heap and of a batch."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks heap", description=__doc__)
    parser.add_argument("--heaps", nargs="+", default=["256m", "384m", "512m", "768m"], help="'' is Java's own")
    parser.add_argument("--max-records", type=int, nargs="+", default=[10_000])
    parser.add_argument("--shards", type=int, default=64)
    parser.add_argument("--megabytes", type=float, default=10, help="backlog of each shard (default 10)")
    parser.add_argument("--payload", type=int, default=1000, help="bytes of a record (default 1000)")
    parser.add_argument("--patience", type=float, default=600, help="seconds (default 600)")
    parser.add_argument("--deaths", type=int, default=3, help="give up when memory ran out so often (default 3)")
    parser.add_argument("--java", default="", help="more options for the JVM, such as -XX:+UseSerialGC")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    os.environ["PATH"] = f"{ensure_java().parent}:{os.environ['PATH']}"
    rows = []
    with tempfile.TemporaryDirectory() as folder, EmbeddedAws(Path(folder) / "aws") as aws:
        for max_records in options.max_records:
            for heap in options.heaps:
                rows.append(run(aws, Path(folder), heap, max_records, options))
                sys.stderr.write(f"{rows[-1]}\n")
    title = f"A catch-up of {options.megabytes:g} MB on each of {options.shards} shards at once"
    publish(title, _COLUMNS, rows, rows, options.json)
    return 0
