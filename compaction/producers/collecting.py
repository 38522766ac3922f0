"""A day and the day before, read for their ids: an object's number says where it is, and nobody lists the numbers.

    number = bucket x stride + place        the bucket's task reads the object, as that place among its objects

Buckets of the day before come first, and tasks are cut in the order of shard and position: so numbers are in the
order of day, shard and position, as the rules of copies want them. The driver holds the first number of each shard.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from archive.errors import SafetyRefusal, SettingsError
from compaction.dealing.port import Collected, Dealt, of_the_driver
from compaction.inventory.day_objects import DayObjects
from compaction.job.context import AuditOptions, JobContext, partitions_for
from compaction.producers.day_before import DayBefore
from compaction.shards.seen import CutArgument, OrderArgument, Show, deal_tasks, make_order, measure, numbered
from compaction.tasks.ids.rows import NUMBERS, IdOrder
from compaction.tasks.task import TaskResult


class Shards(NamedTuple):
    """The shards of some objects, and the number of the first one of each, ascending."""

    names: tuple[str, ...] = ()
    starts: tuple[int, ...] = ()

    @classmethod
    def of(cls, results: Iterable[TaskResult]) -> "Shards":
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

    `objects` are the day's; those of the day before are seen in as many buckets behind them. Each task has `stride`
    numbers, and the first `tasks_before` are of the day before. `results` are the day's, without facts.
    """

    collected: Collected
    objects: DayObjects
    before: DayBefore
    expression: str
    stride: int
    tasks_before: int
    results: list[TaskResult]
    shards: Shards
    shards_before: Shards

    @property
    def seen(self) -> Dealt:
        """Return what was seen of both days."""
        return self.collected.seen

    @property
    def behind(self) -> int:
        """Return how many buckets lie before those of the day before."""
        return self.objects.buckets.total

    @property
    def first_of_day(self) -> int:
        """Return the day's first number."""
        return self.tasks_before * self.stride


class _Before(NamedTuple):
    """The tasks of the day before: how its rows are cut, or the files that are read instead, each by a task."""

    cuts: Mapping[int, CutArgument]
    tasks: int
    files: tuple[str, ...] = ()


def collect_ids(
    context: JobContext,
    objects: DayObjects,
    cuts: Mapping[int, CutArgument],
    orders: Mapping[int, OrderArgument],
    before: DayBefore,
    options: AuditOptions,
) -> CollectedIds:
    """Run the day's tasks, as `orders` ask them, and those of the day before; their ids are dealt out by digest.

    Raises:
        SafetyRefusal: there are more tasks than numbers.
        SettingsError: ids cannot be compared here, or not of what an hour's run has left.
        StoreError: what a task could not read.
    """
    if context.shuffle is None or options.event_id is None:
        raise SettingsError("event ids cannot be compared here", next_step="leave --event-id out")
    if any(order.taken for order in orders.values()):
        # Their tasks come first, whatever their shards: numbers would not be in the order of shard and position.
        raise SettingsError("ids come from lines, and published hours are not read again", next_step="report this")
    earlier, stride = _cut_before(context, before), context.sizes.segments
    count, behind = earlier.tasks + len(orders), objects.buckets.total
    _check_room(count, stride)
    shifted = {
        number: argument._replace(first_number=argument.first_number + earlier.tasks)
        for number, argument in cuts.items()
    }
    dealt = objects.rows.deal(deal_tasks, shifted, max(1, count))
    if before.inventory is not None and earlier.tasks:
        dealt = dealt.plus(before.inventory.rows.deal(deal_tasks, earlier.cuts, max(1, count)), max(1, count))
    partitions = partitions_for(before.size + objects.size)
    asked = {
        bucket: argument._replace(ids=IdOrder(options.event_id, bucket * stride, partitions, stride))
        for bucket, argument in enumerate([*_orders_before(context, earlier, options, len(orders)), *orders.values()])
    }
    collected = dealt.collect(make_order, Show(objects.buckets, len(orders)), asked, 2 * behind, partitions)
    results = sorted(of_the_driver(collected.seen), key=lambda result: result.number)
    of_day, of_before = results[: len(orders)], results[len(orders) :]
    return CollectedIds(
        collected,
        objects,
        before,
        options.event_id,
        stride,
        earlier.tasks,
        of_day,
        Shards.of(of_day),
        Shards.of(of_before),
    )


def _check_room(tasks: int, stride: int) -> None:
    if tasks * stride > NUMBERS:
        raise SafetyRefusal(
            f"the day and the day before take {tasks:,} tasks, and event ids are compared of {NUMBERS // stride:,}",
            next_step="run the command without --event-id: nothing of the day was read",
        )


def _cut_before(context: JobContext, before: DayBefore) -> _Before:
    if before.inventory is None:
        return _Before({}, len(before.published), before.published)
    objects = before.inventory
    cuts = {
        number: CutArgument(None, context.sizes, objects.size, objects.marks.get(number, 0))
        for number in objects.buckets.numbers
    }
    numbers, count = numbered(objects.rows.each(measure, cuts), context.sizes, objects.size)
    return _Before({number: cuts[number]._replace(first_number=first) for number, first in numbers.items()}, count)


def _orders_before(
    context: JobContext, earlier: _Before, options: AuditOptions, first_number: int
) -> list[OrderArgument]:
    if earlier.files and options.published is not None:
        address = options.published.address
        return [
            OrderArgument(number, address, published=(key,))
            for number, key in enumerate(earlier.files, start=first_number)
        ]
    return [OrderArgument(first_number + number, context.place.address) for number in range(earlier.tasks)]
