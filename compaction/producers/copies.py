"""Producer duplicates of a day: its ids and those of the day before are brought together, and copies are told.

Two steps, because only whole, ordered objects take part, and which those are is known when all tasks are done.
"""

from array import array
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from archive.errors import SafetyRefusal, SettingsError
from compaction.inventory.heads import head_rows, sort_out
from compaction.job.context import AuditOptions, Found, JobContext, NothingShuffled, Shuffled, partitions_for
from compaction.producers.day_before import DayBefore
from compaction.tasks.ids.copies import Layout, ShardTally
from compaction.tasks.ids.dropping import Dropped
from compaction.tasks.ids.rows import IdOrder
from compaction.tasks.plan import (
    MergeGroup,
    RawObject,
    Task,
    group_overlaps,
    plan_tasks,
    raw_objects,
    single_groups,
    spans_of,
)
from compaction.tasks.task import Order, TaskResult


class CollectedIds(NamedTuple):
    """A day and the day before, read for their ids.

    `objects` are in the order of their numbers, those of the day before first (None: a Parquet file of it).
    """

    shuffled: Shuffled
    objects: tuple[RawObject | None, ...]
    expression: str
    first_of_day: int
    before: DayBefore
    results: list[TaskResult]
    earlier: list[TaskResult]


class Copies(NamedTuple):
    """The copies of a day.

    `found` can run the tasks that leave them out. `doubt` says why copies of events of the day before may be among
    what is not reported. `lines` took part, `without_id` of them had no id.
    """

    objects: tuple[RawObject | None, ...]
    shards: Mapping[str, ShardTally]
    found: Found
    doubt: str
    lines: int
    without_id: int

    @property
    def total(self) -> int:
        """All copies."""
        return sum(shard.records for shard in self.shards.values())

    @property
    def share(self) -> float:
        """Copies among the lines that have an id."""
        return self.total / max(1, self.lines - self.without_id)


def collect_ids(
    context: JobContext, orders: Sequence[Order], before: DayBefore, options: AuditOptions
) -> CollectedIds:
    """Run the day's tasks and those of the day before; the ids of their lines are dealt out by digest.

    Raises:
        StoreError: what a task could not read.
    """
    if context.shuffle is None or options.event_id is None:
        raise SettingsError("event ids cannot be compared here", next_step="leave --event-id out")
    earlier = _orders_before(context, before, options, first_number=len(orders))
    partitions = partitions_for(before.size + sum(order.task.size for order in orders))
    objects: list[RawObject | None] = []
    asked: list[Order] = []
    for order in [*earlier, *orders]:
        asked.append(order._replace(ids=IdOrder(options.event_id, len(objects), partitions)))
        objects += order.task.objects or [None] * len(order.published)
    first_of_day = len(objects) - sum(len(order.task.objects) for order in orders)
    shuffled = context.shuffle(asked) if asked else NothingShuffled()
    by_number = {result.number: result for result in shuffled.results}
    return CollectedIds(
        shuffled,
        tuple(objects),
        options.event_id,
        first_of_day,
        before,
        results=[by_number[order.task.number] for order in orders],
        earlier=[by_number[order.task.number] for order in earlier],
    )


def resolve(
    context: JobContext, collected: CollectedIds, groups: Sequence[MergeGroup], orders: Sequence[Order] = ()
) -> Copies:
    """Tell the copies. Only objects that are alone in one of `groups`, whole and in order, take part.

    Lines of the others are in doubt, and kept: a finding of their own says what is wrong with them. `orders` are
    those that leave copies out, once they are asked to.
    """
    good = _alone(groups)
    good_before, doubt = _judge_before(context, collected)
    excluded = frozenset(
        number
        for number, raw_object in enumerate(collected.objects)
        if raw_object is not None
        and raw_object.key not in (good if number >= collected.first_of_day else good_before)
    )
    starts = _shard_starts(collected)
    numbered, writers = _numbered(collected, orders)
    layout = Layout(collected.first_of_day, tuple(starts.values()), excluded, writers)
    found = collected.shuffled.find(layout, numbered)
    names = list(starts)
    without_id = sum(count for result in collected.results for key, count in result.without_id.items() if key in good)
    return Copies(
        collected.objects,
        {names[number]: tally for number, tally in sorted(found.shards.items())},
        found,
        doubt=doubt,
        lines=sum(read.lines for result in collected.results for read in result.facts if read.key in good),
        without_id=without_id,
    )


def check_share(copies: Copies, options: AuditOptions) -> None:
    """Raise SafetyRefusal where so many records repeat an event that the path is none of an event's id."""
    if copies.share > options.max_repeats:
        raise SafetyRefusal(
            f"{copies.total:,} of {copies.lines - copies.without_id:,} records with an id under "
            f"{options.event_id!r} repeat an event ({copies.share:.0%}; --max-repeats is {options.max_repeats:g}): "
            "nothing is left out, and nothing was written",
            next_step=f"look at them with `{options.command} --event-id ...`; then correct the path, or name a "
            "greater share if that many are copies",
        )


def _numbered(collected: CollectedIds, orders: Sequence[Order]) -> tuple[list[Order], Sequence[int]]:
    """Return orders that know the numbers of their objects, and by number the order that reads an object."""
    if not orders:
        return [], array("i")
    numbers = {
        raw_object.key: number
        for number, raw_object in enumerate(collected.objects)
        if raw_object is not None and number >= collected.first_of_day
    }
    writers = array("i", [-1]) * len(collected.objects)
    numbered = []
    for index, order in enumerate(orders):
        held = tuple(numbers[raw_object.key] for raw_object in order.task.objects)
        for number in held:
            writers[number] = index
        numbered.append(order._replace(numbers=held, dropped=Dropped(collected.expression)))
    return numbered, writers


def _orders_before(context: JobContext, before: DayBefore, options: AuditOptions, first_number: int) -> list[Order]:
    if before.inventory is not None:
        tasks = plan_tasks(
            single_groups(raw_objects(before.inventory.rows)), sizes=context.sizes, first_number=first_number
        )
        return [Order(task, context.place.address) for task in tasks]
    if options.published is None:
        return []
    address = options.published.address
    return [
        Order(Task(number, ()), address, published=(key,))
        for number, key in enumerate(before.published, start=first_number)
    ]


def _alone(groups: Sequence[MergeGroup]) -> frozenset[str]:
    return frozenset(group.objects[0].key for group in groups if not group.merge)


def _judge_before(context: JobContext, collected: CollectedIds) -> tuple[frozenset[str], str]:
    """Return the keys of the day before that take part, and what is in doubt about the others."""
    inventory = collected.before.inventory
    if inventory is None:
        return frozenset(), collected.before.doubt
    facts = {read.key: read for result in collected.earlier for read in result.facts}
    metadata = head_rows(context.archive, inventory.foreign)
    metadata |= {key: read.metadata for key, read in facts.items()}
    described = sort_out(context.archive, inventory, metadata)
    good = _alone(group_overlaps(spans_of(inventory.rows, described, facts)))
    others = [
        key
        for key, read in facts.items()
        if (read.lines or read.problem) and key not in good and key not in described.copies
    ]
    return good, f"{len(others)} object(s) of {inventory.day} are not whole and in order" if others else ""


def _shard_starts(collected: CollectedIds) -> dict[str, int]:
    """Return the number of each shard's first raw_object of the day, ascending."""
    starts: dict[str, int] = {}
    for number, raw_object in enumerate(collected.objects):
        if number >= collected.first_of_day and raw_object is not None:
            starts.setdefault(raw_object.shard_id, number)
    return starts
