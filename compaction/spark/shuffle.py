r"""Find and drop producer copies with two shuffles: rows by id, then copies by the task that writes.

    reading tasks --rows of 32 bytes, by id--> partitions --copies, by object--> tasks that drop them
                  \--results--> the driver                    \--tallies, by shard--> the driver

The driver gets only results and a tally of each shard. Spark stores shuffles on the executors' disks and recomputes
lost ones.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from compaction.event_ids.copies import Layout, ShardTally, Tallies
from compaction.event_ids.dropping import packed_copies
from compaction.spark.failures import Alarm, TryAgain, guarded, unwrapped
from compaction.tasks.failures import Failure, configure_task_logging
from compaction.tasks.progress import FINDING, WRITING
from compaction.tasks.task import Order, TaskResult, leaving_out, run, run_collecting

_TALLIES: Final = 16
"""Partitions in which the tallies of shards are summed."""


class Jobs(NamedTuple):
    """What a session offers: Spark's context, new alarms, and running work on some partitions of an RDD."""

    context: Any
    alarm: Callable[[], Alarm]
    partitions: Callable[[str, Any, Sequence[int], Callable[[Iterable[Any]], list[Any]], Alarm], list[Any]]


class ShuffledIds(NamedTuple):
    """Ids in shuffle files, from partition `first` on; implements `compaction.job.context.Shuffled`."""

    jobs: Jobs
    rdd: Any
    results: list[TaskResult]
    first: int = 1

    def find(self, layout: Layout, orders: Mapping[int, Order]) -> "SparkFoundCopies":
        """Find the copies, and send them to `orders`, which the driver holds."""
        waiting = self.jobs.context.parallelize(list(orders.items()), len(orders)) if orders else None
        return self.find_for(layout, waiting, 1 + max(orders, default=-1))

    def find_for(self, layout: Layout, waiting: Any, count: int) -> "SparkFoundCopies":  # noqa: ANN401 - pyspark is untyped here
        """Find the copies, one task a partition, and send them to `waiting`, an RDD of (group, order) pairs.

        There are `count` groups with at most one order each; None: no line is dropped.
        """
        copies = self.rdd.mapPartitionsWithIndex(functools.partial(_copies, layout, self.first))
        count = 0 if waiting is None else count
        if waiting is not None:
            copies = copies.union(waiting.map(_behind_tallies))
        partitioned = copies.partitionBy(_TALLIES + count, int)
        with self.jobs.alarm() as alarm:
            tallies = self.jobs.partitions(FINDING, partitioned, range(_TALLIES), _added, alarm)
        return SparkFoundCopies(self.jobs, partitioned, count, dict(tallies))


class SparkFoundCopies(NamedTuple):
    """Copies beside the orders that drop them, in `groups`; implements `compaction.job.context.FoundCopies`."""

    jobs: Jobs
    rdd: Any
    groups: int
    shards: Mapping[int, ShardTally]

    def write(self) -> list[TaskResult]:
        """Run the tasks that drop copies."""
        if not self.groups:
            return []
        numbers = range(_TALLIES, _TALLIES + self.groups)
        with self.jobs.alarm() as alarm:
            work = functools.partial(_write, alarm.tell)
            return unwrapped(self.jobs.partitions(WRITING, self.rdd, numbers, work, alarm))


def collected(
    tell: Callable[[list[Failure]], None], count: int, order: Order
) -> Iterator[tuple[int, TaskResult | Failure | bytes]]:
    """Run a task; yield its result for partition 0, and its ids for the others.

    A failure goes to every partition: when Spark recomputes a lost shuffle, partition 0 is not read again.
    """
    configure_task_logging()
    done = guarded(functools.partial(run_collecting, order), tell)
    if isinstance(done, Failure):
        yield from ((number, done) for number in range(count))
        return
    result, ids = done
    yield 0, result
    for partition, rows in () if ids is None else ids.rows():
        yield partition + 1, rows


def values(rows: Iterable[tuple[int, Any]]) -> list[Any]:
    """Return the values of a partition."""
    return [value for _, value in rows]


def _sound(rows: Iterable[tuple[int, Any]]) -> Iterator[Any]:
    """Yield the values of a partition; raise if a task that made one has failed."""
    for _, value in rows:
        if isinstance(value, Failure):
            raise TryAgain(value)
        yield value


def _behind_tallies(pair: tuple[int, Any]) -> tuple[int, Any]:
    return _TALLIES + pair[0], pair[1]


def _copies(layout: Layout, first: int, index: int, rows: Iterable[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
    """Yield the copies in a partition of ids, for the tasks that write their objects, and finally the tallies.

    Other partitions are read to their end, because Spark kills a worker that leaves input unread.
    """
    if index < first:
        for _ in rows:
            pass
        return
    tallies = Tallies(layout)
    for writer, packed in packed_copies(_sound(rows), layout, tallies):
        yield _TALLIES + writer, packed
    for shard, tally in tallies.shards():
        yield shard % _TALLIES, (shard, tally)


def _added(rows: Iterable[tuple[int, Any]]) -> list[tuple[int, ShardTally]]:
    total: dict[int, ShardTally] = {}
    for shard, tally in _sound(rows):
        total[shard] = total.get(shard, ShardTally()).plus(tally)
    return list(total.items())


def _write(tell: Callable[[list[Failure]], None], rows: Iterable[tuple[int, Any]]) -> list[TaskResult | Failure]:
    """Run the order of a partition, dropping the copies in it."""
    configure_task_logging()
    order: Order | None = None
    chunks: list[bytes] = []
    for value in _sound(rows):
        if isinstance(value, Order):
            order = value
        else:
            chunks.append(value)
    if order is None:
        return []
    done = guarded(functools.partial(run, leaving_out(order, chunks)), tell)
    return [done if isinstance(done, Failure) else done._replace(facts=())]
