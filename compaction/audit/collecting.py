"""A day and the day before, read for their ids: an object's number says where it is, and no list of them is held.

    number = first number of the group of its shard + place        the place among the group's objects

Objects of the day before come first, groups in the order of shards, and a group's objects in that of shard and
position: so numbers are in the order of day, shard and position, as the rules of copies need them, whichever task
reads an object. The driver holds the first number of each run of them that a task reads.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from compaction.audit.day_view import list_into_groups
from compaction.audit.shards.objects import (
    CutArgument,
    DistributeObjects,
    OrderArgument,
    TaskSize,
    distribute_tasks,
    make_order,
    measure_tasks,
    number_objects,
    number_tasks,
)
from compaction.event_ids.rows import NUMBERS, IdOrder
from compaction.inventory.day_objects import DayObjects
from compaction.job.context import JobContext, partitions_for
from compaction.parquet.plan import Task
from compaction.shard_groups.grouping import ShardGrouping
from compaction.shard_groups.port import ReadWithIds, ShardGroups, driver_values
from compaction.tasks.task import Order, TaskResult
from compaction.verdict.basis import FolderBasis, folder_basis
from minutebook.errors import FormatError, SafetyRefusal, SettingsError
from minutebook.format.day import Day
from minutebook.published.generation import DayFolder
from minutebook.published.reading import PublishedReader
from minutebook.store.objects import ListedObject
from minutebook.store.places import StorePrefix
from minutebook.store.tombstones import is_expired


class DayBefore(NamedTuple):
    """Where the ids of the day before are read, so that a copy that crossed midnight is recognised.

    `inventory` are its raw objects, in groups; None when they are expired, then `published` are the keys of its
    Parquet files, at `place`. `doubt` says why some of its ids are not known; empty when all are. `digest` changes
    with what is read, `size` is in bytes.
    """

    inventory: DayObjects | None
    place: StorePrefix | None = None
    published: tuple[str, ...] = ()
    doubt: str = ""
    digest: str = ""
    size: int = 0

    @property
    def folders(self) -> tuple[FolderBasis, ...]:
        """What a verdict rests on: its objects, or its published files."""
        if self.inventory is not None:
            return self.inventory.folders
        return (folder_basis("published", [ListedObject(key, 0, "", 0) for key in self.published]),)


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
        ordered = sorted(starts.items(), key=lambda start: start[1])
        return cls(tuple(shard for shard, _ in ordered), tuple(number for _, number in ordered))

    def of_number(self, number: int) -> str | None:
        """Return the shard of an object; None where none is known."""
        at = bisect_right(self.starts, number) - 1
        return None if at < 0 else self.names[at]


class CollectedIds(NamedTuple):
    """A day and the day before, read for their ids.

    `inventory` is the day's; objects of the day before are in as many groups behind the day's, and have the numbers
    below `first_of_day`. `results` are the day's, without facts; `runs` says which task reads the numbers from one
    on.
    """

    read: ReadWithIds
    inventory: DayObjects
    before: DayBefore
    expression: str
    first_of_day: int
    results: list[TaskResult]
    runs: Mapping[int, int]
    shards: NumberedShards
    shards_before: NumberedShards

    @property
    def objects(self) -> ShardGroups:
        """The objects of both days."""
        return self.read.seen

    @property
    def behind(self) -> int:
        """How many groups lie before those of the day before."""
        return self.inventory.grouping.total


class _TasksBefore(NamedTuple):
    """The tasks of the day before: how its rows are cut, or the files that are read instead, each by a task.

    `objects` counts what has a number: objects, or files.
    """

    cuts: Mapping[int, CutArgument]
    tasks: int
    objects: int


def look_back(
    context: JobContext, day: Day, grouping: ShardGrouping, place: StorePrefix | None, shard: str | None = None
) -> DayBefore:
    """Return the day before `day`, listed into the same groups; `place` is where days are published.

    A day without an object holds no id; an expired one is read as it was published.
    """
    before = day.shift(-1)
    if not is_expired(context.archive, context.place.prefix, before):
        inventory = list_into_groups(context, before, None, shard, grouping)
        return DayBefore(inventory, digest=inventory.digest(), size=inventory.size)
    if place is None:
        doubt = f"{before} is expired, and it was not said where it is published"
        return DayBefore(None, doubt=doubt, digest="unknown")
    storage = context.open(place.address)
    try:
        _, manifest = PublishedReader(storage, DayFolder(place.prefix, before)).published()
    except FormatError as exc:
        return DayBefore(
            None, doubt=f"{before} is expired, and what is published of it is damaged: {exc}", digest="unknown"
        )
    if manifest is None:
        doubt = f"{before} is expired, and not published at {storage.uri(place.prefix)}"
        return DayBefore(None, doubt=doubt, digest="unknown")
    doubt = ""
    if manifest.removed:
        doubt = f"{before} is expired, and its Parquet files lack {manifest.removed} producer duplicates"
    # The manifest's inventory is that of the raw objects: expiring the day changes nothing for the day after it.
    files = tuple(file.key for file in manifest.files)
    return DayBefore(None, place, files, doubt, manifest.inventory, sum(file.bytes for file in manifest.files))


def collect_ids(
    context: JobContext,
    inventory: DayObjects,
    cuts: Mapping[int, CutArgument],
    measured: Mapping[int, Sequence[TaskSize]],
    orders: Mapping[int, OrderArgument],
    before: DayBefore,
    event_id: str,
) -> CollectedIds:
    """Run the day's tasks by `orders`, and those of the day before; their ids are distributed by digest.

    `measured` are each group's tasks.

    Raises:
        SafetyRefusal: there are more objects than numbers.
        SettingsError: ids cannot be compared here.
    """
    if context.shuffle is None:
        raise SettingsError("event ids cannot be compared here", next_step="leave --event-id out")
    of_day, behind = len(orders), inventory.grouping.total
    earlier = _tasks_before(context, before, of_day)
    count = of_day + earlier.tasks
    firsts, end = number_objects(measured, earlier.objects)
    check_room(end)
    cuts = {number: argument._replace(first_object=firsts[number]) for number, argument in cuts.items()}
    groups = inventory.rows.repartition(distribute_tasks, cuts, max(1, count))
    if before.inventory is not None and earlier.tasks:
        rows_before = before.inventory.rows.repartition(distribute_tasks, earlier.cuts, max(1, count))
        groups = groups.union(rows_before, max(1, count))
    partitions = partitions_for(before.size + inventory.size)
    ids = IdOrder(event_id, 0, partitions)
    arguments = {
        number: argument._replace(order=argument.order._replace(ids=ids)) for number, argument in orders.items()
    }
    arguments |= {
        order.task.number: OrderArgument(order) for order in _orders_before(context, before, earlier, ids, of_day)
    }
    read = groups.read_with_ids(
        make_order, DistributeObjects(inventory.grouping, of_day), arguments, 2 * behind, partitions
    )
    results = sorted(driver_values(read.seen), key=lambda result: result.number)
    return CollectedIds(
        read,
        inventory,
        before,
        event_id,
        earlier.objects,
        results[:of_day],
        dict(sorted((number, result.number) for result in results[:of_day] for _, number in result.starts)),
        NumberedShards.of(results[:of_day]),
        NumberedShards.of(results[of_day:]),
    )


def check_room(objects: int) -> None:
    """Raise SafetyRefusal where there are more objects than numbers."""
    if objects > NUMBERS:
        raise SafetyRefusal(
            f"the day and the day before hold {objects:,} objects, and event ids are compared of {NUMBERS:,}",
            next_step="run the command without --event-id: nothing of the day was read",
        )


def _tasks_before(context: JobContext, before: DayBefore, first_task: int) -> _TasksBefore:
    inventory = before.inventory
    if inventory is None:
        return _TasksBefore({}, len(before.published), len(before.published))
    cuts = {
        number: CutArgument(None, context.sizes, inventory.size, inventory.marks.get(number, 0))
        for number in inventory.grouping.numbers
    }
    measured = inventory.rows.collect(measure_tasks, cuts)
    numbers, end = number_tasks(measured, context.sizes, inventory.size, first_task)
    firsts, count = number_objects(measured)
    numbered = {
        number: cuts[number]._replace(first_number=first, first_object=firsts[number])
        for number, first in numbers.items()
    }
    return _TasksBefore(numbered, end - first_task, count)


def _orders_before(
    context: JobContext, before: DayBefore, earlier: _TasksBefore, ids: IdOrder, first_number: int
) -> list[Order]:
    if before.place is not None:
        return [
            Order(Task(first_number + number, ()), before.place.address, published=(key,), ids=ids.of(number, 1))
            for number, key in enumerate(before.published)
        ]
    return [Order(Task(first_number + number, ()), context.place.address, ids=ids) for number in range(earlier.tasks)]
