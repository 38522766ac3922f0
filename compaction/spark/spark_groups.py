"""Buckets as partitions of Spark: values wait in its shuffle files, and works go to them.

    deal     mapPartitionsWithIndex, partitionBy: partition n of what comes out is group n
    each     runJob on the groups that are asked; what it returns is all that the driver gets
    collect  one shuffle for what tasks show and for their ids: groups first, then partitions of ids. From there on
             groups have a shuffle of their own: whoever deals them on does not pass over the ids each time

Spark takes one attempt of each task into a shuffle. A shuffle file that is lost with its machine is made again: a
part of the day is then listed again, and an object that came meanwhile would be judged, and not be named by the
generation, and the objects behind it would have other numbers than those that wait elsewhere. So each group that is
cut into tasks or judged is compared with what was listed first (`inventory.day_objects.check_mark`).
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from compaction.event_ids.copies import Layout
from compaction.shard_groups.port import Distribute, GroupValue, Values
from compaction.spark.failures import Alarm, Failure, configure_task_logging, guarded
from compaction.spark.phases import phase_of_work
from compaction.spark.shuffle import Jobs, ShuffledIds, SparkFoundCopies
from compaction.tasks.task import run, run_collecting

T = TypeVar("T")
Tell = Callable[[list[Failure]], None]


def scatter(jobs: Jobs, items: Sequence[Any]) -> "SparkShardGroups":
    """Return groups of one item each."""
    count = max(1, len(items))
    rows = jobs.context.parallelize(list(enumerate(items)), count).partitionBy(count, int)
    return SparkShardGroups(jobs, jobs.alarm(), rows)


class SparkShardGroups:
    """Implements `compaction.shard_groups.port.Dealt`. One alarm is for all that is dealt on: where one fails, all do."""

    def __init__(self, jobs: Jobs, alarm: Alarm, rows: Any, what: str = "deal") -> None:  # noqa: ANN401 - the same
        self._jobs = jobs
        self._context = jobs.context
        self._alarm = alarm
        self._rows = rows
        self._what = what

    def repartition(
        self, work: Callable[[Values, Any], Iterable[GroupValue]], arguments: Mapping[int, Any], count: int
    ) -> "SparkShardGroups":
        """Give values to other groups; done when somebody asks for them."""
        dealing = _Dealing(work, self._context.broadcast(dict(arguments)), count, self._alarm.tell)
        rows = self._rows.mapPartitionsWithIndex(dealing).partitionBy(count, int)
        return SparkShardGroups(self._jobs, self._alarm, rows, phase_of_work(work))

    def collect(self, work: Callable[[Values, Any], T], arguments: Mapping[int, Any]) -> dict[int, T]:
        """Visit groups.

        Raises:
            MinutebookError: what a work raised, here or on the way to the groups, as the same kind of error.
            SparkFailed: Spark itself failed.
        """
        groups = sorted(arguments)
        if not groups:
            return {}
        asked = self._context.broadcast({group: arguments[group] for group in groups})
        visited = self._rows.mapPartitionsWithIndex(_Visiting(work, asked, self._alarm.tell))
        with self._alarm:
            found = self._jobs.partitions(phase_of_work(work, self._what), visited, groups, list, self._alarm)
        for outcome in found:
            if isinstance(outcome, Failure):
                raise outcome.error()
        return dict(zip(groups, found, strict=True))

    def read(
        self,
        order: Callable[[Values, Any], Any],
        show: Distribute,
        arguments: Mapping[int, Any],
        count: int,
    ) -> "SparkShardGroups":
        """Run an order of each group, in its task."""
        return self.repartition(_Reading(order, show), arguments, count)

    def union(self, other: "SparkShardGroups", count: int) -> "SparkShardGroups":
        """Return the values of both, in a shuffle of their own."""
        rows = self._rows.union(other._rows).partitionBy(count, int)  # noqa: SLF001 - of this class
        return SparkShardGroups(self._jobs, self._alarm, rows, self._what)

    def read_with_ids(
        self,
        order: Callable[[Values, Any], Any],
        show: Distribute,
        arguments: Mapping[int, Any],
        count: int,
        partitions: int,
    ) -> "SparkReadWithIds":
        """Run an order of each group, in its task; what it shows and its ids go into one shuffle."""
        collecting = _Collecting(
            order, show, self._context.broadcast(dict(arguments)), (count, count + partitions), self._alarm.tell
        )
        rows = self._rows.mapPartitionsWithIndex(collecting).partitionBy(count + partitions, int)
        seen = rows.mapPartitionsWithIndex(functools.partial(_below, count)).partitionBy(count, int)
        return SparkReadWithIds(
            SparkShardGroups(self._jobs, self._alarm, seen, "read the day with event ids"),
            ShuffledIds(self._jobs, rows, [], count),
        )

    def waiting(self) -> Any:  # noqa: ANN401 - pyspark is untyped here
        """Return what waits in the groups, as pairs."""
        return self._rows


class SparkReadWithIds(NamedTuple):
    """Implements `compaction.shard_groups.port.Collected`."""

    seen: SparkShardGroups
    shuffled: ShuffledIds

    def find(self, layout: Layout, again: SparkShardGroups | None, count: int) -> SparkFoundCopies:
        """Find the copies; they come to the orders by a shuffle of their own."""
        return self.shuffled.find_for(layout, None if again is None else again.waiting(), count)


class _Dealing(NamedTuple):
    """A work on one partition, whose values go on to others. A failure goes to all `groups`.

    Where a shuffle was lost and is made again nobody asks the driver's group, and another one would lack values.
    """

    work: Callable[[Values, Any], Iterable[GroupValue]]
    arguments: Any
    groups: int
    tell: Tell

    def __call__(self, group: int, rows: Iterable[GroupValue]) -> Iterable[GroupValue]:
        if group not in self.arguments.value:
            return ()
        configure_task_logging()
        values, failure = _values(rows)
        if failure is None:
            work = functools.partial(self.work, values, self.arguments.value[group])
            found = guarded(lambda: [self._checked(one) for one in work()], self.tell)
            if not isinstance(found, Failure):
                return found
            failure = found
        return [(number, failure) for number in range(self.groups)]

    def _checked(self, given: GroupValue) -> GroupValue:
        """Return what has a group; Spark would give the rest to any: it divides."""
        if not 0 <= given[0] < self.groups:
            raise ValueError(f"nobody has bucket {given[0]} of {self.groups}")
        return given


class _Visiting(NamedTuple):
    """A work on one partition, whose answer goes to the driver."""

    work: Callable[[Values, Any], Any]
    arguments: Any
    tell: Tell

    def __call__(self, group: int, rows: Iterable[GroupValue]) -> list[Any]:
        if group not in self.arguments.value:
            return []
        configure_task_logging()
        values, failure = _values(rows)
        if failure is not None:
            return [failure]
        return [guarded(lambda: self.work(values, self.arguments.value[group]), self.tell)]


class _Collecting(NamedTuple):
    """The work of a task that reads lines and their ids. `counts`: of groups, and of them with partitions of ids.

    A failure goes into all of them: Spark makes a shuffle again that was lost, and then nobody asks the driver's.
    """

    order: Callable[[Values, Any], Any]
    show: Distribute
    arguments: Any
    counts: tuple[int, int]
    tell: Tell

    def __call__(self, group: int, rows: Iterable[GroupValue]) -> Iterator[GroupValue]:
        if group not in self.arguments.value:
            return
        configure_task_logging()
        count, total = self.counts
        values, failure = _values(rows)
        if failure is None:
            made = self.order(values, self.arguments.value[group])
            done = guarded(functools.partial(run_collecting, made), self.tell)
            if not isinstance(done, Failure):
                result, ids = done
                yield from self.show(made, result)
                yield from ((count + part, chunk) for part, chunk in (() if ids is None else ids.rows()))
                return
            failure = done
        yield from ((number, failure) for number in range(total))


def _below(count: int, index: int, rows: Iterable[GroupValue]) -> Iterator[GroupValue]:
    """Pass groups on, and read ids to their end: Spark ends a worker that leaves some of its input unread."""
    for given in rows:
        if index < count:
            yield given


class _Reading:
    """The work of a task that reads: its order is made, run and shown."""

    def __init__(self, order: Callable[[Values, Any], Any], show: Distribute) -> None:
        self._order = order
        self._show = show

    def __call__(self, values: Values, argument: object) -> Iterator[GroupValue]:
        order = self._order(values, argument)
        yield from self._show(order, run(order))


def _values(rows: Iterable[GroupValue]) -> tuple[list[Any], Failure | None]:
    values = [value for _, value in rows]
    return values, next((value for value in values if isinstance(value, Failure)), None)
