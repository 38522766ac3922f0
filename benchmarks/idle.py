"""What shards cost on which nothing arrives, and how much heap the daemon needs for many of them.

One `minutebook consume` holds all shards of a stream that answers from memory (`kinesis.cjs`), with the product's own
presets. Counted are CPU seconds an hour and shard once all are open, by kind of process, and the memory of each kind.
With `--megabytes` each shard has a backlog, all are caught up at once, and the daemon must live through it.

    python -m benchmarks idle [--shards 1 64] [--seconds 120] [--megabytes 0.01] [--heap 512m]
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from benchmarks.figures import Column, publish
from benchmarks.processes import cpu_by_kind, memory_by_kind
from benchmarks.whole_path import Peak, consume, stream
from demo.bootstrap import ensure_java
from demo.embedded import EmbeddedAws
from minutebook.clock import SystemClock

_CLOCK: Final = SystemClock()
_SETTLE_SECONDS: Final = 45
_KINDS: Final = ("java", "processors", "supervisor")
_COLUMNS: Final = (
    Column("shards", "shards"),
    Column("backlog a shard, MB", "megabytes", "g"),
    Column("heap", "java"),
    *(Column(f"CPU s an hour and shard, {kind}", f"{kind}_cpu", ".1f") for kind in _KINDS),
    *(Column(f"MiB, {kind}", f"{kind}_mib", ".0f") for kind in _KINDS),
    Column("peak MiB, java", "java_peak", ".0f"),
    Column("daemons", "daemons"),
)


def run(
    aws: EmbeddedAws, folder: Path, *, shards: int, seconds: float, megabytes: float, java: str
) -> dict[str, Any]:
    """Hold the shards for a while."""
    with stream(shards, megabytes, 1000) as (kinesis, last), consume(aws, folder, kinesis, java=java) as worker:
        peak = Peak(worker.pid)
        for number, sequence in enumerate(last):
            worker.events.wait("checkpoint_written", shard=f"shardId-{number:012d}", position=f"{sequence}:0")
        _CLOCK.sleep(_SETTLE_SECONDS)
        before = cpu_by_kind(worker.pid)
        _CLOCK.sleep(seconds)
        after, memory = cpu_by_kind(worker.pid), memory_by_kind(worker.pid)
        most = peak.stop()
        daemons = len(worker.events.all("daemon_started"))
    hours = seconds / 3600 * shards
    row: dict[str, Any] = {f"{kind}_cpu": (after.get(kind, 0) - before.get(kind, 0)) / hours for kind in _KINDS}
    row |= {f"{kind}_mib": memory.get(kind, 0.0) for kind in _KINDS}
    return {
        "shards": shards,
        "megabytes": megabytes,
        "java": java,
        "java_peak": most["java"],
        "daemons": daemons,
        **row,
    }


def main(arguments: list[str]) -> int:
    """Print a row for each number of shards and each heap."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks idle", description=__doc__)
    parser.add_argument("--shards", type=int, nargs="+", default=[1, 64])
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--megabytes", type=float, default=0.01, help="backlog of each shard")
    parser.add_argument("--heap", nargs="*", default=[""], help="bounds of the daemon's heap, each measured")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    os.environ["PATH"] = f"{ensure_java().parent}:{os.environ['PATH']}"
    rows = []
    with tempfile.TemporaryDirectory() as folder, EmbeddedAws(Path(folder) / "aws") as aws:
        for heap in options.heap:
            for shards in options.shards:
                rows.append(
                    run(
                        aws, Path(folder), shards=shards, seconds=options.seconds, megabytes=options.megabytes,
                        java=f"-Xmx{heap}" if heap else "",
                    )
                )  # fmt: skip
                sys.stderr.write(f"{rows[-1]}\n")
    publish("Idle shards, and the daemon's heap", _COLUMNS, rows, rows, options.json)
    return 0
