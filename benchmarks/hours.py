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
from compaction.job.context import AuditOptions
from compaction.tasks.task import Order, TaskResult, run
from tests.corpus.auditing import InProcess, shuffle_in_process
from tests.corpus.desk import DAY, Desk
from tests.corpus.model import Corpus, Shape

_MINUTES_A_DAY: Final = 1440


class Measured(NamedTuple):
    """One run: its CPU seconds, the segments whose lines it read, the files that it published.

    With event ids a night reads those of the day before, too.
    """

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
    parser.add_argument("--event-id", help="look for repeated events by this path: n is the payloads'")
    asked = parser.parse_args(arguments)
    minutes = (-700, *range(0, _MINUTES_A_DAY, asked.every), _MINUTES_A_DAY + 1)
    shape = Shape(asked.shards, minutes, asked.records, asked.payload)
    with tempfile.TemporaryDirectory(prefix="hours-") as folder:
        desk = Desk(Path(folder, "hours"), Corpus(DAY, shape=shape))
        night = Desk(Path(folder, "night"), desk.corpus)
        whole = _measured(night, None, asked.event_id)
        hours = [_measured(desk, hour, asked.event_id) for hour in range(HOURS_A_DAY)]
        taken = _measured(desk, None, asked.event_id)
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


def _measured(desk: Desk, hour: int | None, event_id: str | None) -> Measured:
    read = 0

    def engine(orders: Sequence[Order]) -> list[TaskResult]:
        nonlocal read
        results = [run(order) for order in orders]
        read += sum(result.read for result in results)
        return results

    def shuffle(orders: Sequence[Order]) -> InProcess:
        nonlocal read
        shuffled = shuffle_in_process(orders)
        read += sum(result.read for result in shuffled.results)
        return shuffled

    begin = time.process_time()
    done = desk.compact(hour=hour, engine=engine, shuffle=shuffle, audit=AuditOptions(event_id=event_id))
    if done.manifest is None:
        raise SystemExit(f"{hour}: {done.reason}")
    return Measured(time.process_time() - begin, read, len(done.manifest.files))
