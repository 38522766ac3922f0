"""Reading a day: which tasks there are, and what the driver is told of them."""

from collections.abc import Sequence
from typing import NamedTuple

from compaction.audit.copies.collecting import CollectedIds, collect_ids
from compaction.audit.copies.day_before import DayBefore, look_back
from compaction.audit.shards.objects import (
    CutArgument,
    DistributeObjects,
    HeadArgument,
    OrderArgument,
    ask_heads,
    deal_tasks,
    make_order,
    measure_tasks,
    numbered,
)
from compaction.columns.columns import Columns
from compaction.inventory.day_objects import DayObjects
from compaction.job.context import AuditOptions, JobContext
from compaction.parquet.plan import Task
from compaction.parquet.rows import ZSTD_LEVEL
from compaction.shard_groups.grouping import ShardGrouping
from compaction.shard_groups.port import ShardGroups, driver_values
from compaction.tasks.finished import YOUNG_MS, find_facts
from compaction.tasks.taken import TakenHour
from compaction.tasks.task import Order, TaskResult
from minutebook.format.day import HOURS_A_DAY
from minutebook.store.places import StorePrefix


class Writing(NamedTuple):
    """Where a rewrite writes: keys of its files begin with `folder`, `columns` come beside the envelope.

    `hours` are taken over; an hour keeps the ids under the path `keeps_ids` for the night.
    """

    out: StorePrefix
    folder: str
    zstd_level: int = ZSTD_LEVEL
    columns: Columns | None = None
    hours: tuple[TakenHour, ...] = ()
    keeps_ids: str = ""


class DayRead(NamedTuple):
    """What was seen of a day: by HEAD alone, or by tasks, of which `results` are without facts."""

    seen: ShardGroups
    results: Sequence[TaskResult] = ()
    collected: CollectedIds | None = None


def read_objects(
    context: JobContext, objects: DayObjects, options: AuditOptions, write: Writing | None, before: DayBefore | None
) -> DayRead:
    """See a day's objects: their metadata at level inventory, else every line, of which `write` makes files."""
    grouping, end = objects.grouping, objects.end_minute
    if options.level == "inventory":
        asked = {
            number: HeadArgument(number, context.place.address, objects.storage, end) for number in grouping.numbers
        }
        return DayRead(objects.rows.repartition(ask_heads, asked, grouping.total))
    hours = () if write is None else write.hours
    taken = (
        {} if write is None else {at: part for hour in hours for at, part in hour.parts(write.out.address).items()}
    )
    # An hour is cut as its part of the day: a day of hours has as many files as any other one.
    day_bytes = objects.size * (1 if objects.hour is None else HOURS_A_DAY)
    cuts = {
        number: CutArgument(end, context.sizes, day_bytes, mark, hours=_within(hours, grouping, number))
        for number, mark in ((number, objects.marks.get(number, 0)) for number in grouping.numbers)
    }
    measured = objects.rows.collect(measure_tasks, cuts)
    numbers, count = numbered(measured, context.sizes, day_bytes, len(taken))
    of_hours = {number: argument for number, argument in cuts.items() if argument.hours}
    cuts = of_hours | {number: cuts[number]._replace(first_number=first) for number, first in numbers.items()}
    # Which copies are left out is known when all lines are read: nothing is written before that.
    argument = order_argument(context, None if options.drop_producer_duplicates else write)
    asked_of = {number: argument._replace(number=number, taken=taken.get(number)) for number in range(count)}
    if options.event_id is not None and objects.hour is None:
        before = before or look_back(context, objects.day, options, grouping)
        collected = collect_ids(context, objects, cuts, measured, asked_of, before, options)
        return DayRead(collected.seen, collected.results, collected)
    groups = objects.rows.repartition(deal_tasks, cuts, max(1, count))
    seen = groups.read(make_order, DistributeObjects(grouping), asked_of, grouping.total)
    return DayRead(seen, sorted(driver_values(seen), key=lambda result: result.number))


def _within(hours: Sequence[TakenHour], grouping: ShardGrouping, number: int) -> tuple[TakenHour, ...]:
    """Return what of the hours concerns a group: its argument travels to a task."""
    bounds = (None, *grouping.bounds, None)
    found = (hour.within(bounds[number - 1], bounds[number]) for hour in hours)
    return tuple(hour for hour in found if hour.firsts)


def order_of(context: JobContext, task: Task, write: Writing | None) -> Order:
    """Return the order of a task."""
    if write is None:
        return Order(task, context.place.address)
    out = write.out.address
    return Order(task, context.place.address, out, write.folder, zstd_level=write.zstd_level, columns=write.columns)


def order_argument(context: JobContext, write: Writing | None) -> OrderArgument:
    """Return where tasks read and write, with what earlier runs have left; their numbers are still to be said."""
    argument = OrderArgument(0, context.place.address)
    if write is None:
        return argument
    out = context.open(write.out.address)
    return argument._replace(
        out=write.out.address,
        folder=write.folder,
        left=find_facts(out, write.folder, context.clock.now_ms() - YOUNG_MS),
        zstd_level=write.zstd_level,
        columns=write.columns,
        keeps_ids=write.keeps_ids,
    )
