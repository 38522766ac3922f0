"""Reading a day: which tasks there are, and what the driver learns from them."""

from collections.abc import Sequence
from typing import NamedTuple

from compaction.audit.collecting import CollectedIds, DayBefore, collect_ids, look_back
from compaction.audit.day_view import DayView
from compaction.audit.shards.known import ReadArgument, read_unknown
from compaction.audit.shards.objects import (
    CutArgument,
    DistributeObjects,
    HeadArgument,
    OrderArgument,
    ask_heads,
    distribute_tasks,
    make_order,
    measure_tasks,
    number_tasks,
)
from compaction.columns.columns import Columns
from compaction.inventory.day_objects import DayObjects
from compaction.job.context import AuditOptions, JobContext
from compaction.parquet.plan import MergeGroup, Task, plan_tasks
from compaction.parquet.rows import ZSTD_LEVEL
from compaction.shard_groups.port import ShardGroups, driver_values
from compaction.tasks.finished import YOUNG_MS, find_facts
from compaction.tasks.task import Order, TaskResult
from minutebook.store.places import StorePrefix


class Writing(NamedTuple):
    """Where a rewrite writes: keys of its files begin with `folder`, `columns` come beside the envelope.

    `published_folder` is that of the generation that readers see; empty: there is none.
    """

    out: StorePrefix
    folder: str
    zstd_level: int = ZSTD_LEVEL
    columns: Columns | None = None
    published_folder: str = ""


class DayRead(NamedTuple):
    """A day's objects in the groups of their shards: by HEAD alone, or by tasks; `results` are without facts."""

    objects: ShardGroups
    results: Sequence[TaskResult] = ()
    collected: CollectedIds | None = None


def read_objects(
    context: JobContext, inventory: DayObjects, options: AuditOptions, write: Writing | None, before: DayBefore | None
) -> DayRead:
    """Read the metadata of a day's objects at level inventory, else every line, of which `write` makes files."""
    grouping, end = inventory.grouping, inventory.end_minute
    if options.level == "inventory":
        heads = {
            number: HeadArgument(number, context.place.address, inventory.storage, end) for number in grouping.numbers
        }
        return DayRead(inventory.rows.repartition(ask_heads, heads, grouping.total))
    cuts = {
        number: CutArgument(end, context.sizes, inventory.size, inventory.marks.get(number, 0))
        for number in grouping.numbers
    }
    measured = inventory.rows.collect(measure_tasks, cuts)
    numbers, count = number_tasks(measured, context.sizes, inventory.size)
    cuts = {number: cuts[number]._replace(first_number=first) for number, first in numbers.items()}
    argument = order_argument(context, write)
    if options.drop_producer_duplicates:
        # Which copies are left out is known when all lines are read: only facts are stored before that.
        argument = OrderArgument(argument.order._replace(writes=False), None if write is None else {})
    orders = {number: argument.numbered(number) for number in range(count)}
    if options.event_id is not None:
        before = before or look_back(context, inventory.day, grouping, options.published, inventory.shard)
        collected = collect_ids(context, inventory, cuts, measured, orders, before, options.event_id)
        return DayRead(collected.objects, collected.results, collected)
    groups = inventory.rows.repartition(distribute_tasks, cuts, max(1, count))
    objects = groups.read(make_order, DistributeObjects(grouping), orders, grouping.total)
    return DayRead(objects, sorted(driver_values(objects), key=lambda result: result.number))


def read_known(context: JobContext, view: DayView) -> DayRead:
    """Return a day's objects with what is known of them; those that are not known are read."""
    inventory, places = view.inventory, view.known
    if places is None:
        raise ValueError("nothing is known of a view before `with_known`")
    arguments = {
        number: ReadArgument(
            number,
            context.place.address,
            inventory.storage,
            inventory.end_minute,
            inventory.marks.get(number, 0),
            places.out.address,
            places.stored,
        )
        for number in inventory.grouping.numbers
    }
    return DayRead(inventory.rows.repartition(read_unknown, arguments, inventory.grouping.total))


def order_argument(context: JobContext, write: Writing | None) -> OrderArgument:
    """Return where tasks read and write, with what earlier runs have left."""
    order = _order(context, write)
    if write is None:
        return OrderArgument(order)
    left = find_facts(context.open(write.out.address), write.folder, context.clock.now_ms() - YOUNG_MS)
    return OrderArgument(order, left)


def orders_again(
    context: JobContext, groups: Sequence[MergeGroup], results: Sequence[TaskResult], write: Writing | None
) -> list[Order]:
    """Return the orders of what the tasks of `results` have not written right: merges, and lines that come back."""
    first_number = max((result.number for result in results), default=-1) + 1
    order = _order(context, write)._replace(is_again=True)
    tasks = plan_tasks(groups, sizes=context.sizes, first_number=first_number)
    return [order._replace(task=task) for task in tasks]


def _order(context: JobContext, write: Writing | None) -> Order:
    """Return the order of a task that is still to be filled in."""
    order = Order(Task(0, ()), context.place.address)
    if write is None:
        return order
    return order._replace(
        out=write.out.address,
        folder=write.folder,
        zstd_level=write.zstd_level,
        columns=write.columns,
        published_folder=write.published_folder,
        schemas=None if context.schemas is None else context.schemas(write.out),
    )
