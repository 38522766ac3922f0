"""A day's objects in the groups of their shards, with what HEAD says of them, or what every line shows.

    rows of a group -> its tasks -> each task's lines -> facts of its objects, back to the groups of the shards

Tasks are cut inside a group, in the order of shard and position; the last one may be shared with the next group.
All functions but `number_tasks` and `number_objects` are the work of a task.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple, Self

from compaction.inventory.day_objects import check_mark
from compaction.inventory.segments import Known, ListedSegment, SegmentFacts, UserMetadata, head_rows
from compaction.parquet import plan
from compaction.shard_groups.grouping import ShardGrouping
from compaction.shard_groups.opened import open_in_task
from compaction.shard_groups.port import DRIVER_GROUP, GroupValue, Values
from compaction.tasks.finished import fingerprint
from compaction.tasks.task import Order, TaskResult
from minutebook.compression import compression_of
from minutebook.format.keys import SegmentKey
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import Address

NO_TASK = -1


class ObjectFacts(NamedTuple):
    """An object, its user metadata (None: it is gone), and what task `task` read in it; None: it was not read.

    With event ids, `number` is the object's among all that were read, and `without_id` counts its lines that have
    none.
    """

    row: ListedSegment
    fields: UserMetadata
    read: SegmentFacts | None = None
    task: int = NO_TASK
    number: int = NO_TASK
    without_id: int = 0


class HeadArgument(NamedTuple):
    """What a group is asked: HEADs of its rows before minute `end`. `storage` is given in this process."""

    group: int
    address: Address
    storage: RetryingStorage | None
    end: int | None


class CutArgument(NamedTuple):
    """How a group's rows before minute `end` are cut into tasks, of a day of so many bytes.

    `mark` is that of the rows which were listed first. `first_object` is the number of the group's first object.
    """

    end: int | None
    sizes: plan.TaskSizes
    day_bytes: int
    mark: int
    first_number: int = 0
    first_object: int = 0


class TaskSize(NamedTuple):
    """How much one task reads."""

    size: int
    objects: int


class CutGroups(NamedTuple):
    """What a group gives to a task: groups of one object each, and the number of the first one."""

    groups: Sequence[plan.MergeGroup]
    first_object: int


class OrderArgument(NamedTuple):
    """The order of a task that has a number and no objects yet, and the facts that earlier runs have left, if any."""

    order: Order
    left: Mapping[str, tuple[str, ...]] | None = None

    def numbered(self, number: int) -> Self:
        """Return the order of a task."""
        return self._replace(order=self.order._replace(task=plan.Task(number, ())))


def ask_heads(values: Values, argument: HeadArgument) -> Iterator[GroupValue]:
    """Ask for the metadata of a group's objects, unless all their lines are known, and count those for the driver.

    Lines are judged by the group, so one object that is not known takes the others along.
    """
    rows = rows_before(values, argument.end)
    read = [facts for row in rows if row.known is not None and (facts := row.known.facts) is not None]
    if len(read) == len(rows):
        yield argument.group, [ObjectFacts(row, facts.metadata, facts) for row, facts in zip(rows, read, strict=True)]
        return
    metadata = head_rows(argument.storage or open_in_task(argument.address), rows)
    yield argument.group, [ObjectFacts(row, metadata[row.key]) for row in rows]
    yield DRIVER_GROUP, len(rows)


def measure_tasks(values: Values, argument: CutArgument) -> list[TaskSize]:
    """Return how large a group's tasks are."""
    return [TaskSize(task.size, len(task.groups)) for task in _cut_tasks(values, argument)]


def distribute_tasks(values: Values, argument: CutArgument) -> Iterator[GroupValue]:
    """Give each task's groups to the group of its number."""
    first_object = argument.first_object
    for task in _cut_tasks(values, argument):
        yield task.number, CutGroups(task.groups, first_object)
        first_object += len(task.groups)


def _cut_tasks(values: Values, argument: CutArgument) -> list[plan.Task]:
    """Return the tasks of a group.

    Objects are numbered by where they come among these: of other rows than were listed, ids would name others.
    """
    rows = rows_before(values, argument.end)
    check_mark(rows, argument.mark)
    groups = plan.single_groups(plan.raw_objects(rows))
    return plan.plan_tasks(
        groups, sizes=argument.sizes, first_number=argument.first_number, day_bytes=argument.day_bytes
    )


def rows_before(values: Values, end: int | None) -> list[ListedSegment]:
    """Return a group's rows before a minute."""
    return [
        row for rows in values for row in rows if end is None or (row.parsed is not None and row.parsed.minute < end)
    ]


def number_tasks(
    measured: Mapping[int, Sequence[TaskSize]], limit: plan.TaskSizes, day_bytes: int, first: int = 0
) -> tuple[dict[int, int], int]:
    """Return the number of each group's first task, counted from `first`, and the number behind the last one.

    A group that makes one small task shares the one before it while there is room: many small shards, one file.
    """
    most, numbers, following, room = limit.bytes_for(day_bytes), dict[int, int](), first, TaskSize(0, 0)
    for group, tasks in sorted(measured.items()):
        if not tasks:
            continue
        shared = TaskSize(room.size + tasks[0].size, room.objects + tasks[0].objects)
        if following > first and len(tasks) == 1 and shared.size <= most and shared.objects <= limit.segments:
            numbers[group], room = following - 1, shared
            continue
        numbers[group], room = following, tasks[-1]
        following += len(tasks)
    return numbers, following


def number_objects(measured: Mapping[int, Sequence[TaskSize]], first: int = 0) -> tuple[dict[int, int], int]:
    """Return the number of each group's first object, counted from `first`, and the number behind the last one.

    Groups lie in the order of shards, and so do the numbers.
    """
    numbers, following = dict[int, int](), first
    for group, tasks in sorted(measured.items()):
        numbers[group] = following
        following += sum(task.objects for task in tasks)
    return numbers, following


def make_order(values: Values, argument: OrderArgument) -> Order:
    """Return the order of one task, which one group or several have given groups to."""
    groups: list[plan.MergeGroup] = [group for cut in values for group in cut.groups]
    task = plan.Task(argument.order.task.number, tuple(plan.sorted_groups(groups)))
    order = argument.order._replace(task=task)
    if order.ids is not None and groups:
        # A task's objects follow each other in the order of shard and position, and so do their numbers.
        order = order._replace(ids=order.ids.of(min(cut.first_object for cut in values), len(groups)))
    if argument.left is None:
        return order
    return order._replace(keeps=True, earlier=argument.left.get(fingerprint(task), ()))


class DistributeObjects(NamedTuple):
    """Gives what tasks have read back to the groups of the shards, and what is small to the driver.

    What tasks from number `before` on have read is of the day before, and goes to as many groups behind the others.
    """

    grouping: ShardGrouping
    before: int | None = None

    def __call__(self, order: Order, result: TaskResult) -> Iterator[GroupValue]:
        """Yield one result."""
        ids = order.ids
        places = {raw_object.key: (place, raw_object) for place, raw_object in enumerate(order.task.objects)}
        behind = 0 if self.before is None or order.task.number < self.before else self.grouping.total
        objects: dict[int, list[ObjectFacts]] = defaultdict(list)
        for read in result.facts:
            place, raw_object = places[read.key]
            number = NO_TASK if ids is None else ids.first_number + place
            without_id = result.without_id.get(read.key, 0)
            facts = ObjectFacts(_row(raw_object), read.metadata, read, order.task.number, number, without_id)
            objects[behind + self.grouping.of(raw_object.shard_id)].append(facts)
        yield from objects.items()
        yield DRIVER_GROUP, result._replace(facts=(), without_id={}, starts=tuple(_starts(order)))


def _starts(order: Order) -> Iterator[tuple[str, int]]:
    """Yield each shard of a task that collects ids, and the number of its first object in the task."""
    if order.ids is None:
        return
    objects = enumerate(order.task.objects, start=order.ids.first_number)
    for shard_id, of_shard in groupby(objects, key=lambda numbered: numbered[1].shard_id):
        yield shard_id, next(of_shard)[0]


def _row(raw_object: plan.RawObject) -> ListedSegment:
    key = SegmentKey(raw_object.minute, raw_object.shard_id, raw_object.first, compression_of(raw_object.key))
    known = None if raw_object.history is None else Known(None, raw_object.history)
    return ListedSegment(raw_object.key, raw_object.size, raw_object.etag, raw_object.modified_ms, key, known)


def all_objects(values: Values) -> list[ObjectFacts]:
    """Return a group's objects."""
    return [facts for objects in values for facts in objects]
