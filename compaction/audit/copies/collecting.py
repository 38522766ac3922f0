"""A day and the day before, read for their ids: an object's number says where it is, and nobody lists the numbers.

    number = first number of the group of its shard + place        the place among the group's objects

Objects of the day before come first, groups in the order of shards, and a group's objects in that of shard and
position: so numbers are in the order of day, shard and position, as the rules of copies want them, whichever task
reads an object. The driver holds the first number of each run of them that a task reads.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from compaction.audit.copies.day_before import DayBefore
from compaction.audit.shards.objects import (
    CutArgument,
    DistributeObjects,
    MeasuredTasks,
    OrderArgument,
    deal_tasks,
    first_objects,
    make_order,
    measure_tasks,
    numbered,
)
from compaction.event_ids.rows import NUMBERS, IdOrder
from compaction.inventory.day_objects import DayObjects
from compaction.job.context import AuditOptions, JobContext, partitions_for
from compaction.shard_groups.port import ReadWithIds, ShardGroups, driver_values
from compaction.tasks.taken import CachedTask
from compaction.tasks.task import TaskResult
from minutebook.errors import SafetyRefusal, SettingsError


class NumberedShards(NamedTuple):
    """The shards of some objects, and the number of the first one of each, ascending."""

    names: tuple[str, ...] = ()
    starts: tuple[int, ...] = ()

    @classmethod
    def of(cls, results: Iterable[TaskResult]) -> "NumberedShards":
        """Return those that tasks have read."""
        starts: dict[str, int] = {}
        for result in results:
            for shard, number in result.starts:
                starts[shard] = min(number, starts.get(shard, number))
        ordered = sorted(starts.items(), key=lambda one: one[1])
        return cls(tuple(shard for shard, _ in ordered), tuple(number for _, number in ordered))

    def of_number(self, number: int) -> str | None:
        """Return the shard of an object; None where none is known."""
        at = bisect_right(self.starts, number) - 1
        return None if at < 0 else self.names[at]


class CollectedIds(NamedTuple):
    """A day and the day before, read for their ids.

    `objects` are the day's; those of the day before are seen in as many groups behind them, and have the numbers
    below `first_of_day`. `results` are the day's, without facts; `runs` says which task reads
    the numbers from one on, and `taken` what hours have left of tasks.
    """

    collected: ReadWithIds
    objects: DayObjects
    before: DayBefore
    expression: str
    first_of_day: int
    results: list[TaskResult]
    runs: Mapping[int, int]
    taken: Mapping[int, CachedTask]
    shards: NumberedShards
    shards_before: NumberedShards

    @property
    def seen(self) -> ShardGroups:
        """Return what was seen of both days."""
        return self.collected.seen

    @property
    def behind(self) -> int:
        """Return how many groups lie before those of the day before."""
        return self.objects.grouping.total


class _Before(NamedTuple):
    """The tasks of the day before: how its rows are cut, or the files that are read instead, each by a task.

    `objects` counts what has a number: objects, or files.
    """

    cuts: Mapping[int, CutArgument]
    tasks: int
    objects: int
    files: tuple[str, ...] = ()


def collect_ids(
    context: JobContext,
    objects: DayObjects,
    cuts: Mapping[int, CutArgument],
    measured: Mapping[int, MeasuredTasks],
    orders: Mapping[int, OrderArgument],
    before: DayBefore,
    options: AuditOptions,
) -> CollectedIds:
    """Run the day's tasks, as `orders` ask them, and those of the day before; their ids are dealt out by digest.

    `measured` says how many objects each group has.

    Raises:
        SafetyRefusal: there are more objects than numbers.
        SettingsError: ids cannot be compared here.
        StoreError: what a task could not read.
    """
    if context.shuffle is None or options.event_id is None:
        raise SettingsError("event ids cannot be compared here", next_step="leave --event-id out")
    earlier, behind = _cut_before(context, before, len(orders)), objects.grouping.total
    count = len(orders) + earlier.tasks
    firsts, end = first_objects(measured, earlier.objects)
    check_room(end)
    cuts = {number: argument._replace(first_object=firsts[number]) for number, argument in cuts.items()}
    groups = objects.rows.repartition(deal_tasks, cuts, max(1, count))
    if before.inventory is not None and earlier.tasks:
        groups = groups.union(
            before.inventory.rows.repartition(deal_tasks, earlier.cuts, max(1, count)), max(1, count)
        )
    partitions = partitions_for(before.size + objects.size)
    ids = IdOrder(options.event_id, 0, partitions)
    asked = {number: argument._replace(ids=ids) for number, argument in orders.items()}
    asked |= {argument.number: argument for argument in _orders_before(context, earlier, options, ids, len(orders))}
    collected = groups.read_with_ids(
        make_order, DistributeObjects(objects.grouping, len(orders)), asked, 2 * behind, partitions
    )
    results = sorted(driver_values(collected.seen), key=lambda result: result.number)
    of_day, of_before = results[: len(orders)], results[len(orders) :]
    return CollectedIds(
        collected,
        objects,
        before,
        options.event_id,
        earlier.objects,
        of_day,
        dict(sorted((number, result.number) for result in of_day for _, number in result.starts)),
        {number: argument.taken for number, argument in orders.items() if argument.taken is not None},
        NumberedShards.of(of_day),
        NumberedShards.of(of_before),
    )


def check_room(objects: int) -> None:
    """Raise SafetyRefusal where there are more objects than numbers."""
    if objects > NUMBERS:
        raise SafetyRefusal(
            f"the day and the day before hold {objects:,} objects, and event ids are compared of {NUMBERS:,}",
            next_step="run the command without --event-id: nothing of the day was read",
        )


def _cut_before(context: JobContext, before: DayBefore, first_task: int) -> _Before:
    if before.inventory is None:
        return _Before({}, len(before.published), len(before.published), before.published)
    objects = before.inventory
    cuts = {
        number: CutArgument(None, context.sizes, objects.size, objects.marks.get(number, 0))
        for number in objects.grouping.numbers
    }
    measured = objects.rows.collect(measure_tasks, cuts)
    numbers, behind = numbered(measured, context.sizes, objects.size, first_task)
    firsts, count = first_objects(measured)
    numbered_cuts = {
        number: cuts[number]._replace(first_number=first, first_object=firsts[number])
        for number, first in numbers.items()
    }
    return _Before(numbered_cuts, behind - first_task, count)


def _orders_before(
    context: JobContext, earlier: _Before, options: AuditOptions, ids: IdOrder, first_number: int
) -> list[OrderArgument]:
    if earlier.files and options.published is not None:
        address = options.published.address
        return [
            OrderArgument(first_number + number, address, published=(key,), ids=ids.of([number]))
            for number, key in enumerate(earlier.files)
        ]
    return [OrderArgument(first_number + number, context.place.address, ids=ids) for number in range(earlier.tasks)]
