r"""Event ids through Spark's shuffle, twice: to those of the same digest, and the copies to the tasks that write.

    reading tasks --rows of 32 bytes, by digest--> partitions --copies, by object--> tasks that leave them out
                  \--results--> the driver                    \--tallies, by shard--> the driver

Blocks are as many as tasks times partitions, and both have a bound; nothing but results and a tally of each shard
comes to the driver. Spark keeps shuffles on the executors' disks and makes a lost one again.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from compaction.event_ids.copies import Layout, ShardTally, Tallies, find_copies
from compaction.event_ids.dropping import pack_drops
from compaction.spark.failures import Alarm, Failure, TryAgain, configure_task_logging, guarded, unwrapped
from compaction.tasks.task import Order, TaskResult, leaving_out, run, run_collecting

_FINDING: Final = "find repeated events"
_WRITING: Final = "write without repeated events"
_TALLIES: Final = 16
"""Partitions that tallies are added up in, shard by shard."""
_CHUNK_BYTES: Final = 64 << 10
_MOST_CHUNKS_BYTES: Final = 16 << 20


class Jobs(NamedTuple):
    """What a session offers: Spark's context, what tells of failures, and work on some partitions of an RDD."""

    context: Any
    alarm: Callable[[], Alarm]
    partitions: Callable[[str, Any, Sequence[int], Callable[[Iterable[Any]], list[Any]], Alarm], list[Any]]


class ShuffledIds(NamedTuple):
    """Ids in the files of a shuffle, from partition `first` on; implements `compaction.job.context.Shuffled`."""

    jobs: Jobs
    rdd: Any
    results: list[TaskResult]
    first: int = 1

    def find(self, layout: Layout, orders: Mapping[int, Order]) -> "SparkFoundCopies":
        """Find the copies, and bring them to the tasks of `orders`, which the driver holds."""
        waiting = self.jobs.context.parallelize(list(orders.items()), len(orders)) if orders else None
        return self.find_for(layout, waiting, 1 + max(orders, default=-1))

    def find_for(self, layout: Layout, waiting: Any, count: int) -> "SparkFoundCopies":  # noqa: ANN401 - pyspark is untyped here
        """Find the copies, each partition in a task, and bring them to orders that wait: pairs of group and order.

        There are `count` groups, and one order in each at most; None: nothing is left out.
        """
        found = self.rdd.mapPartitionsWithIndex(functools.partial(_found, layout, self.first))
        count = 0 if waiting is None else count
        if waiting is not None:
            found = found.union(waiting.map(_behind_tallies))
        dealt = found.partitionBy(_TALLIES + count, int)
        with self.jobs.alarm() as alarm:
            tallies = self.jobs.partitions(_FINDING, dealt, range(_TALLIES), _added, alarm)
        return SparkFoundCopies(self.jobs, dealt, count, dict(tallies))


class SparkFoundCopies(NamedTuple):
    """Copies beside the tasks that leave them out, in `groups`; implements `compaction.job.context.Found`."""

    jobs: Jobs
    rdd: Any
    groups: int
    shards: Mapping[int, ShardTally]

    @property
    def numbers(self) -> range:
        """Return the partitions in which the orders lie."""
        return range(_TALLIES, _TALLIES + self.groups)

    def write(self) -> list[TaskResult]:
        """Run the tasks that leave copies out."""
        if not self.groups:
            return []
        with self.jobs.alarm() as alarm:
            work = functools.partial(_write, alarm.tell)
            return unwrapped(self.jobs.partitions(_WRITING, self.rdd, self.numbers, work, alarm))


def collected(
    tell: Callable[[list[Failure]], None], count: int, order: Order
) -> Iterator[tuple[int, TaskResult | Failure | bytes]]:
    """Run a task; yield its result for partition 0, and its ids for the others.

    A failure goes into each of them: Spark makes a shuffle again that was lost, and then nobody reads partition 0.
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
    """Return what lies in a partition."""
    return [value for _, value in rows]


def _sound(rows: Iterable[tuple[int, Any]]) -> Iterator[Any]:
    """Yield what lies in a partition; raises where a task that made it has failed."""
    for _, value in rows:
        if isinstance(value, Failure):
            raise TryAgain(value)
        yield value


def _behind_tallies(pair: tuple[int, Any]) -> tuple[int, Any]:
    return _TALLIES + pair[0], pair[1]


def _found(layout: Layout, first: int, index: int, rows: Iterable[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
    """Yield the copies of a partition of ids, for the tasks that write their objects, and at last tallies.

    What lies before the ids is read to its end: Spark ends a worker that leaves some of its input unread.
    """
    if index < first:
        for _ in rows:
            pass
        return
    tallies = Tallies(layout)
    drops: dict[int, bytearray] = {}
    held = 0
    for copies in find_copies(_sound(rows), layout):
        tallies.add(copies)
        writer = layout.writer(copies.first.number)
        if writer is None:
            continue
        packed = pack_drops(copies)
        chunk = drops.setdefault(writer, bytearray())
        chunk += packed
        held += len(packed)
        if len(chunk) >= _CHUNK_BYTES or held >= _MOST_CHUNKS_BYTES:
            yield from ((_TALLIES + to, bytes(waiting)) for to, waiting in drops.items())
            drops.clear()
            held = 0
    yield from ((_TALLIES + to, bytes(waiting)) for to, waiting in drops.items())
    for shard, tally in tallies.shards():
        yield shard % _TALLIES, (shard, tally)


def _added(rows: Iterable[tuple[int, Any]]) -> list[tuple[int, ShardTally]]:
    total: dict[int, ShardTally] = {}
    for shard, tally in _sound(rows):
        total[shard] = total.get(shard, ShardTally()).plus(tally)
    return list(total.items())


def _write(tell: Callable[[list[Failure]], None], rows: Iterable[tuple[int, Any]]) -> list[TaskResult | Failure]:
    """Run the order of a partition without the copies that lie there."""
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
