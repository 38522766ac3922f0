"""Shard groups as partitions of Spark: values stay in its shuffle files, and work is sent to them.

    repartition     mapPartitionsWithIndex, partitionBy: partition n is group n
    collect         runJob on some groups; only the results come to the driver
    read_with_ids   one shuffle for the values and the ids: groups first, then partitions of ids. The groups get a
                    second shuffle, so that later steps do not read past the ids

Spark uses one attempt of each task for a shuffle, and recomputes a shuffle file that is lost with its machine. Then a
part of the day is listed again: a new object would be judged but not named by the generation, and would change the
numbers of later objects. So each group that is cut into tasks or judged is compared with its first listing
(`inventory.day_objects.check_mark`).
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from compaction.event_ids.copies import Layout
from compaction.shard_groups.port import Distribute, GroupValue, Values
from compaction.spark.failures import Alarm, guarded, unwrapped
from compaction.spark.shuffle import Jobs, ShuffledIds, SparkFoundCopies
from compaction.tasks.failures import Failure, configure_task_logging
from compaction.tasks.task import run, run_collecting

T = TypeVar("T")
Tell = Callable[[list[Failure]], None]


def scatter(jobs: Jobs, items: Sequence[Any]) -> "SparkShardGroups":
    """Return groups of one item each."""
    count = max(1, len(items))
    rows = jobs.context.parallelize(list(enumerate(items)), count).partitionBy(count, int)
    return SparkShardGroups(jobs, jobs.alarm(), rows)


class SparkShardGroups:
    """Implements `port.ShardGroups`. Derived groups share one alarm: if one fails, all do."""

    def __init__(self, jobs: Jobs, alarm: Alarm, rows: Any, what: str = "repartition") -> None:  # noqa: ANN401 - pyspark is untyped here
        self._jobs = jobs
        self._context = jobs.context
        self._alarm = alarm
        self._rows = rows
        self._what = what

    def repartition(
        self, work: Callable[[Values, Any], Iterable[GroupValue]], arguments: Mapping[int, Any], count: int
    ) -> "SparkShardGroups":
        """Move values to other groups, lazily."""
        repartitioning = _Repartitioning(work, self._context.broadcast(dict(arguments)), count, self._alarm.tell)
        rows = self._rows.mapPartitionsWithIndex(repartitioning).partitionBy(count, int)
        return SparkShardGroups(self._jobs, self._alarm, rows, phase_of_work(work))

    def collect(self, work: Callable[[Values, Any], T], arguments: Mapping[int, Any]) -> dict[int, T]:
        """Run work on groups. Raises SparkFailed, or what work raised, here or in a step before, as the same kind."""
        groups = sorted(arguments)
        if not groups:
            return {}
        visiting = _Visiting(work, self._context.broadcast(dict(arguments)), self._alarm.tell)
        visited = self._rows.mapPartitionsWithIndex(visiting)
        with self._alarm:
            results = self._jobs.partitions(phase_of_work(work, self._what), visited, groups, list, self._alarm)
        return dict(zip(groups, unwrapped(results), strict=True))

    def read(
        self, order: Callable[[Values, Any], Any], show: Distribute, arguments: Mapping[int, Any], count: int
    ) -> "SparkShardGroups":
        """Run the order of each group, in its task."""
        return self.repartition(_Reading(order, show), arguments, count)

    def union(self, other: "SparkShardGroups", count: int) -> "SparkShardGroups":
        """Return the values of both, in a new shuffle."""
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
        """Run the order of each group, in its task; its values and ids go into one shuffle."""
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
        """Return the groups as (group, value) pairs."""
        return self._rows


class SparkReadWithIds(NamedTuple):
    """Implements `port.ReadWithIds`."""

    seen: SparkShardGroups
    shuffled: ShuffledIds

    def find(self, layout: Layout, again: SparkShardGroups | None, count: int) -> SparkFoundCopies:
        """Find the copies; another shuffle sends them to the orders."""
        return self.shuffled.find_for(layout, None if again is None else again.waiting(), count)


class _Repartitioning(NamedTuple):
    """Work on one partition, whose values go to other groups. A failure goes to all `groups`.

    Otherwise, when Spark recomputes a lost shuffle, groups would silently lack values.
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
            moved = guarded(lambda: [self._checked(pair) for pair in work()], self.tell)
            if not isinstance(moved, Failure):
                return moved
            failure = moved
        return [(number, failure) for number in range(self.groups)]

    def _checked(self, pair: GroupValue) -> GroupValue:
        """Return a pair with a valid group; Spark would use the number modulo the number of groups."""
        if not 0 <= pair[0] < self.groups:
            raise ValueError(f"no group {pair[0]} of {self.groups}")
        return pair


class _Visiting(NamedTuple):
    """Work on one partition, whose result goes to the driver."""

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
    """The work of a task that reads lines and their ids. `counts`: groups, and groups plus partitions of ids.

    A failure goes to all of them, as in `_Repartitioning`.
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
    """Pass groups on, and read ids to their end, because Spark kills a worker that leaves input unread."""
    for pair in rows:
        if index < count:
            yield pair


class _Reading:
    """The work of a task that reads: make an order, run it, and distribute its result."""

    def __init__(self, order: Callable[[Values, Any], Any], show: Distribute) -> None:
        self._order = order
        self._show = show

    def __call__(self, values: Values, argument: object) -> Iterator[GroupValue]:
        order = self._order(values, argument)
        yield from self._show(order, run(order))


PHASES: Final = {
    "list_piece": "list the day",
    "ask_heads": "ask for metadata",
    "distribute_tasks": "cut tasks",
    "mark_writers": "look for copies",
    "measure_tasks": "measure tasks",
    "repeated_writers": "look for copies",
    "suspects": "look for copies",
    "neighbour_queries": "look for neighbours",
    "judge_group": "judge shards",
    "groups_to_redo": "choose what is written again",
}
"""Labels of jobs in Spark's UI, the progress bar and the log, by the name of the function."""


def phase_of_work(work: Callable[..., Any], otherwise: str = "read the day") -> str:
    """Return the label of work on groups of shards."""
    return PHASES.get(getattr(work, "__name__", ""), otherwise)


def _values(rows: Iterable[GroupValue]) -> tuple[list[Any], Failure | None]:
    values = [value for _, value in rows]
    return values, next((value for value in values if isinstance(value, Failure)), None)
