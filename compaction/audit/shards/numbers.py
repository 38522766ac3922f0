"""Objects by their numbers, where event ids were asked for: what tasks do with them in their shards' groups."""

from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from compaction.audit.shards.group_view import GroupContext, GroupView, all_seen
from compaction.audit.shards.objects import OrderArgument, fresh_order
from compaction.event_ids.dropping import DroppedLines
from compaction.parquet.plan import MergeGroup, RawObject, RestoredLines, Task, order_of_objects, raw_objects
from compaction.shard_groups.port import GroupValue, Values
from compaction.tasks.finished import fingerprint


class TakingPart(NamedTuple):
    """The lines of a group that count, those without an id, and the numbers of objects in doubt.

    `doubtful` counts these, but for whole copies of others.
    """

    lines: int
    without_id: int
    excluded: "array[int]"
    doubtful: int


class WrittenAgain(NamedTuple):
    """What is written without copies: a group's groups, with lines that come back."""

    group: GroupContext
    restored: Mapping[str, RestoredLines]


class Numbered(NamedTuple):
    """A group, and the numbers of its objects."""

    group: MergeGroup
    numbers: tuple[int, ...]


def taking_part(values: Values, group: GroupContext) -> TakingPart:
    """Tell which objects take part: those that are whole, in order, and overlap no other. The work of a task."""
    look = GroupView(values, group)
    alone = {group.objects[0].key for group in look.groups({}) if not group.merge}
    lines = without_id = doubtful = 0
    excluded = array("Q")
    for one in all_seen(values):
        if one.read is None:
            continue
        if one.row.key in alone:
            lines += one.read.lines
            without_id += one.without_id
        elif one.read.lines or one.read.problem:
            excluded.append(one.number)
            doubtful += one.row.key not in look.described.copies
    return TakingPart(lines, without_id, excluded, doubtful)


def named(values: Values, numbers: frozenset[int]) -> dict[int, RawObject]:
    """Return the objects of some numbers. The work of a task."""
    found = [one for one in all_seen(values) if one.number in numbers]
    return {one.number: raw_object for one in found for raw_object in raw_objects([one.row])}


def deal_groups(values: Values, argument: WrittenAgain) -> Iterator[GroupValue]:
    """Give groups to the tasks that have read their first objects. The work of a task."""
    look = GroupView(values, argument.group)
    numbers = {one.row.key: one.number for one in all_seen(values)}
    by_task: dict[int, list[Numbered]] = defaultdict(list)
    for group in look.groups(argument.restored):
        held = tuple(numbers[raw_object.key] for raw_object in group.objects)
        by_task[look.tasks[group.objects[0].key]].append(Numbered(group, held))
    yield from by_task.items()


class AgainArgument(NamedTuple):
    """The order of a task that leaves copies out, of ids under a path; its group has its number."""

    order: OrderArgument
    expression: str


def order_again(values: Values, argument: AgainArgument) -> Iterator[GroupValue]:
    """Give a task that leaves copies out its order; none where nothing is to be written. The work of a task.

    One that merges keeps no facts: it holds what is in doubt.
    """
    found = sorted((one for given in values for one in given), key=lambda one: order_of_objects(one.group.objects[0]))
    if not found:
        return
    task = Task(argument.order.number, tuple(one.group for one in found))
    order = fresh_order(task, argument.order)._replace(
        numbers=tuple(number for one in found for number in one.numbers),
        dropped=DroppedLines(argument.expression),
        is_again=True,
    )
    if argument.order.left is not None and not any(group.merge for group in task.groups):
        order = order._replace(
            keeps=True, earlier=argument.order.left.get(fingerprint(task), ()), taken=argument.order.taken
        )
    yield task.number, order
