"""A day that is published hour by hour: what do the hours cost, and what does the night that takes them over?

One process and no Spark: the job's own tasks, on an archive in a local folder. CPU seconds of this process (user and
system), so that a busy machine counts for little; each run is done once.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from archive.format.day import HOURS_A_DAY
from compaction.tasks.task import Order, TaskResult, run
from tests.corpus.desk import DAY, Desk
from tests.corpus.model import Corpus, Shape

_MINUTES_A_DAY: Final = 1440


class Measured(NamedTuple):
    """One run: its CPU seconds, the segments whose lines it read, the files that it published."""

    seconds: float
    segments: int
    files: int


def main(arguments: Sequence[str]) -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks hours", description=__doc__)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--every", type=int, default=5, help="minutes between two segments of a shard")
    parser.add_argument("--records", type=int, default=400, help="of a segment")
    parser.add_argument("--payload", type=int, default=500, help="bytes")
    asked = parser.parse_args(arguments)
    minutes = (-700, *range(0, _MINUTES_A_DAY, asked.every), _MINUTES_A_DAY + 1)
    shape = Shape(asked.shards, minutes, asked.records, asked.payload)
    with tempfile.TemporaryDirectory(prefix="hours-") as folder:
        desk = Desk(Path(folder, "hours"), Corpus(DAY, shape=shape))
        night = Desk(Path(folder, "night"), desk.corpus)
        whole = _measured(night, None)
        hours = [_measured(desk, hour) for hour in range(HOURS_A_DAY)]
        taken = _measured(desk, None)
        is_same = sorted(desk.published_rows()) == sorted(night.published_rows())
    lines = [
        ("the night without hours", whole),
        ("24 hours", Measured(*(sum(numbers) for numbers in zip(*hours, strict=True)))),
        ("the dearest of them", max(hours)),
        ("the night that takes them over", taken),
    ]
    sys.stdout.write(f"{desk.corpus.records:,} records of {asked.payload} B, {asked.shards} shards\n")
    for name, one in lines:
        sys.stdout.write(f"{name:32} {one.seconds:8.2f} CPU s  {one.segments:7,} segments  {one.files:4} files\n")
    sys.stdout.write(f"the same rows: {'yes' if is_same else 'NO'}\n")
    return 0 if is_same else 1


def _measured(desk: Desk, hour: int | None) -> Measured:
    read = 0

    def engine(orders: Sequence[Order]) -> list[TaskResult]:
        nonlocal read
        results = [run(order) for order in orders]
        pairs = zip(orders, results, strict=True)
        read += sum(len(order.task.objects) for order, result in pairs if not result.is_taken)
        return results

    begin = time.process_time()
    done = desk.compact(hour=hour, engine=engine)
    if done.manifest is None:
        raise SystemExit(f"{hour}: {done.reason}")
    return Measured(time.process_time() - begin, read, len(done.manifest.files))
