"""Reading a day: which tasks there are, and what the driver is told of them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from archive.format.day import HOURS_A_DAY
from archive.store.places import StorePrefix
from compaction.dealing.buckets import Buckets
from compaction.dealing.port import Dealt, of_the_driver
from compaction.inventory.day_objects import DayObjects
from compaction.job.context import AuditOptions, JobContext
from compaction.producers.copies import CollectedIds, collect_ids
from compaction.producers.day_before import DayBefore, look_back
from compaction.shards.seen import (
    CutArgument,
    HeadArgument,
    OrderArgument,
    Show,
    ask_heads,
    cut,
    deal_tasks,
    make_order,
    measure,
    numbered,
    show_results,
)
from compaction.tasks.finished import YOUNG_MS, find_facts, fingerprint
from compaction.tasks.parquet import ZSTD_LEVEL
from compaction.tasks.plan import MergeGroup, Task, sorted_groups
from compaction.tasks.taken import TakenHour
from compaction.tasks.task import Order, TaskResult
from compaction.typed.columns import Columns


class Writing(NamedTuple):
    """Where a rewrite writes: keys of its files begin with `folder`, `columns` come beside the envelope.

    `hours` are taken over where no event ids are asked for: these come from lines.
    """

    out: StorePrefix
    folder: str
    zstd_level: int = ZSTD_LEVEL
    columns: Columns | None = None
    hours: tuple[TakenHour, ...] = ()


class DayRead(NamedTuple):
    """What was seen of a day: by HEAD alone, or by tasks, of which `results` are without facts."""

    seen: Dealt
    results: Sequence[TaskResult] = ()
    collected: CollectedIds | None = None


def read_day(
    context: JobContext, objects: DayObjects, options: AuditOptions, write: Writing | None, before: DayBefore | None
) -> DayRead:
    """See a day's objects: their metadata at level inventory, else every line, of which `write` makes files."""
    buckets, end = objects.buckets, objects.end_minute
    if options.level == "inventory":
        asked = {
            number: HeadArgument(number, context.place.address, objects.storage, end) for number in buckets.numbers
        }
        return DayRead(objects.rows.deal(ask_heads, asked, buckets.total))
    hours = () if write is None else write.hours
    # An hour is cut as its part of the day: a day of hours has as many files as any other one.
    day_bytes = objects.size * (1 if objects.hour is None else HOURS_A_DAY)
    taken = {number: part for hour in hours for number, part in hour.parts().items()}
    cuts = {
        number: CutArgument(end, context.sizes, day_bytes, hours=_within(hours, buckets, number))
        for number in buckets.numbers
    }
    numbers, count = numbered(objects.rows.each(measure, cuts), context.sizes, day_bytes, len(taken))
    to_deal = {number: argument for number, argument in cuts.items() if argument.hours}
    cuts = {number: cuts[number]._replace(first_number=first) for number, first in numbers.items()}
    if options.event_id is not None:
        return _with_ids(context, objects, cuts, options, write, before)
    argument = OrderArgument(0, context.place.address)
    if write is not None:
        left = _left(context, write)
        argument = argument._replace(
            out=write.out.address, folder=write.folder, left=left, zstd_level=write.zstd_level, columns=write.columns
        )
    asked_of = {number: argument._replace(number=number, taken=taken.get(number)) for number in range(count)}
    dealt = objects.rows.deal(deal_tasks, {**to_deal, **cuts}, max(1, count))
    seen = dealt.read(make_order, Show(buckets), asked_of, buckets.total)
    return DayRead(seen, sorted(of_the_driver(seen), key=lambda result: result.number))


def _within(hours: Sequence[TakenHour], buckets: Buckets, number: int) -> tuple[TakenHour, ...]:
    """Return what of the hours concerns a bucket: its argument travels to a task."""
    bounds = (None, *buckets.bounds, None)
    found = (hour.within(bounds[number - 1], bounds[number]) for hour in hours)
    return tuple(hour for hour in found if hour.firsts)


def _with_ids(
    context: JobContext,
    objects: DayObjects,
    cuts: Mapping[int, CutArgument],
    options: AuditOptions,
    write: Writing | None,
    before: DayBefore | None,
) -> DayRead:
    """Read a day for its event ids, too: the driver tells which lines are copies, and holds all objects for that."""
    groups: dict[int, list[MergeGroup]] = defaultdict(list)
    for tasks in objects.rows.each(cut, cuts).values():
        for task in tasks:
            groups[task.number] += task.groups
    tasks = [Task(number, tuple(sorted_groups(found))) for number, found in sorted(groups.items())]
    # Which lines are left out is known when all are read: nothing is written before that.
    writes = None if options.drop_producer_duplicates else write
    orders = going_on(context, [order_of(context, task, writes) for task in tasks], writes)
    collected = collect_ids(context, orders, before or look_back(context, objects.day, options), options)
    pairs = list(zip(orders, collected.results, strict=True))
    dealer = context.dealer(objects.buckets.total)
    asked = dict.fromkeys(range(len(pairs)), Show(objects.buckets))
    return DayRead(
        dealer.spread(pairs).deal(show_results, asked, objects.buckets.total), collected.results, collected
    )


def order_of(context: JobContext, task: Task, write: Writing | None) -> Order:
    """Return the order of a task."""
    if write is None:
        return Order(task, context.place.address)
    out = write.out.address
    return Order(task, context.place.address, out, write.folder, zstd_level=write.zstd_level, columns=write.columns)


def going_on(context: JobContext, orders: Sequence[Order], write: Writing | None) -> list[Order]:
    """Return orders that leave facts beside their parts, and know those that earlier runs have left.

    Not those that merge: they are few, and hold what is in doubt.
    """
    if write is None:
        return list(orders)
    left = _left(context, write)
    return [
        order
        if any(group.merge for group in order.task.groups)
        else order._replace(keeps=True, earlier=left.get(fingerprint(order.task), ()))
        for order in orders
    ]


def _left(context: JobContext, write: Writing) -> dict[str, tuple[str, ...]]:
    return find_facts(context.open(write.out.address), write.folder, context.clock.now_ms() - YOUNG_MS)
