"""Event ids of made-up days through Spark's shuffles: what grows with a day, and what does not.

Tasks make payloads instead of reading them; then everything is the product's: collecting, both shuffles, tallies, and
copies beside the tasks that would write. Each day runs in a process of its own on `local[2]`.

    python -m benchmarks event_ids [--records 1 4 16] [--shapes none some one]

`none`: no event twice. `some`: one record in a hundred repeats one. `one`: all records have the same id.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from benchmarks.processes import Watch
from compaction.event_ids.copies import Layout
from compaction.event_ids.rows import IdCollector, IdOrder
from compaction.parquet.plan import Task
from compaction.spark.engine import SparkEngine
from compaction.spark.shuffle import Jobs, ShuffledIds, SparkFoundCopies
from compaction.tasks.task import Order
from demo.bootstrap import ensure_java
from minutebook.store.storage import Address

OBJECTS: Final = 40
"""Objects of a task."""
LINES: Final = 12_500
"""Lines of an object: 500,000 of a task."""
_SHARDS: Final = 10
_HUNDRED: Final = 100


class Day(NamedTuple):
    """A day: how many tasks read it, what its ids are like, and in how many partitions they are compared."""

    tasks: int
    shape: str
    partitions: int


def main(arguments: list[str]) -> int:
    """Run the days, or one of them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks event_ids", description=__doc__)
    parser.add_argument("--records", type=int, nargs="*", default=[1, 4, 16], help="millions")
    parser.add_argument("--shapes", nargs="*", default=["none", "some", "one"])
    parser.add_argument("--partitions", type=int, default=8, help="for each million records")
    parser.add_argument("--day", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.day is not None:
        sys.stdout.write(f"{json.dumps(_measure(Day(*options.day)))}\n")
        return 0
    sys.stdout.write("| records | ids | seconds | copies found | driver MiB | largest worker MiB | all MiB |\n")
    sys.stdout.write("|---|---|---|---|---|---|---|\n")
    for shape in options.shapes:
        for millions in options.records:
            day = Day(2 * millions, shape, options.partitions * millions)
            _show(day)
    return 0


def _show(day: Day) -> None:
    command = [sys.executable, "-m", "benchmarks", "event_ids", "--day", json.dumps(day)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own command line
    watch = Watch(process.pid)
    said, _ = process.communicate()
    use = watch.stop()
    found = json.loads(said.splitlines()[-1])
    sys.stdout.write(
        f"| {day.tasks * OBJECTS * LINES:,} | {day.shape} | {found['seconds']:.1f} | {found['copies']:,} "
        f"| {found['driver']:.0f} | {use.worker:.0f} | {use.together:.0f} |\n"
    )
    sys.stdout.flush()


def _measure(day: Day) -> dict[str, float]:
    os.environ["JAVA_HOME"] = str(ensure_java().parents[1])
    with SparkEngine("local[2]") as engine:
        begin = time.perf_counter()
        count = day.partitions + 1
        context = engine.jobs.context
        rdd = context.parallelize(range(day.tasks), day.tasks).flatMap(lambda task: _rows(day, task))
        shuffled = ShuffledIds(engine.jobs, rdd.partitionBy(count, int), [])
        objects = day.tasks * OBJECTS
        starts = tuple(range(0, objects, -(-objects // _SHARDS)))
        orders = {number: Order(Task(number, ()), Address(None)) for number in range(day.tasks)}
        found = shuffled.find(
            Layout(0, starts, frozenset(), tuple(range(0, objects, OBJECTS)), tuple(orders)), orders
        )
        delivered = _delivered(engine.jobs, found)
        if bool(delivered) != any(tally.copies.records for tally in found.shards.values()):
            raise SystemExit("the copies did not come to the tasks that write")
        seconds = time.perf_counter() - begin
        copies = sum(tally.copies.records for tally in found.shards.values())
        driver = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return {"seconds": seconds, "copies": copies, "driver": driver}


def _rows(day: Day, task: int) -> Iterator[tuple[int, bytes]]:
    """Collect the ids of a task's lines, as a task does."""
    keys = [f"{task}-{number}" for number in range(OBJECTS)]
    collector = IdCollector(IdOrder("id", task * OBJECTS, day.partitions), keys)
    for number, key in enumerate(keys):
        begin = (task * OBJECTS + number) * LINES
        ids: Iterable[int] = range(begin, begin + LINES)
        if day.shape == "some":
            ids = [event - event % _HUNDRED + 1 if event % _HUNDRED == 0 else event for event in ids]
        elif day.shape == "one":
            ids = [7] * LINES
        collector.add([b'{"id":%d}' % event for event in ids], [0] * LINES, key)
    yield from ((partition + 1, rows) for partition, rows in collector.rows())


def _delivered(jobs: Jobs, found: SparkFoundCopies) -> int:
    """Return how many bytes of copies the tasks that write would get."""

    def count(rows: Iterable[tuple[int, Any]]) -> list[int]:
        return [sum(len(value) for _, value in rows if isinstance(value, bytes))]

    with jobs.alarm() as alarm:
        return sum(jobs.partitions("count", found.rdd, found.numbers, count, alarm))
