"""Producer duplicates of a day: its ids and those of the day before are brought together, and copies are told.

Two steps, because only whole, ordered objects take part, and which those are is known when all tasks are done.
"""

from array import array
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from archive.errors import SettingsError
from compaction.inventory.heads import head_rows, sort_out
from compaction.job.context import AuditOptions, JobContext, NothingShuffled, Shuffled, partitions_for
from compaction.producers.day_before import DayBefore
from compaction.tasks.event_ids import Copy, IdOrder, Layout, unpack_copies
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

_SAMPLES: Final = 20
_MANY: Final = 2_000


class CollectedIds(NamedTuple):
    """A day and the day before, read for their ids.

    `objects` are in the order of their numbers, those of the day before first (None: a Parquet file of it).
    """

    shuffled: Shuffled
    objects: tuple[RawObject | None, ...]
    first_of_day: int
    before: DayBefore
    results: list[TaskResult]
    earlier: list[TaskResult]


class ShardCopies(NamedTuple):
    """The copies in one shard: how many, the first few, and the objects that hold one."""

    records: int
    samples: tuple[Copy, ...]
    numbers: tuple[int, ...]


class Copies(NamedTuple):
    """The copies of a day.

    `dropped` maps the key of an object to the numbers of its lines that repeat an event, ascending. `doubt` says why
    copies of events of the day before may be among what is not reported. `lines` took part, `without_id` of them had
    no id.
    """

    objects: tuple[RawObject | None, ...]
    shards: Mapping[str, ShardCopies]
    dropped: Mapping[str, Sequence[int]]
    doubt: str
    lines: int
    without_id: int

    @property
    def total(self) -> int:
        """All copies."""
        return sum(shard.records for shard in self.shards.values())


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
        first_of_day,
        before,
        results=[by_number[order.task.number] for order in orders],
        earlier=[by_number[order.task.number] for order in earlier],
    )


def resolve(context: JobContext, collected: CollectedIds, groups: Sequence[MergeGroup]) -> Copies:
    """Tell the copies. Only objects that are alone in one of `groups`, whole and in order, take part.

    Lines of the others are in doubt, and kept: a finding of their own says what is wrong with them.
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
    packed = collected.shuffled.copies(Layout(collected.first_of_day, tuple(starts.values()), excluded))
    without_id = sum(count for result in collected.results for key, count in result.without_id.items() if key in good)
    return Copies(
        collected.objects,
        _by_shard(packed, starts),
        dropped=_lines(packed, collected.objects),
        doubt=doubt,
        lines=sum(read.lines for result in collected.results for read in result.facts if read.key in good),
        without_id=without_id,
    )


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


def _by_shard(packed: Sequence[bytes], starts: Mapping[str, int]) -> dict[str, ShardCopies]:
    """Count the copies of each shard, and keep the first few: memory is that of the numbers of objects."""
    shards, firsts = list(starts), list(starts.values())
    counts: dict[str, int] = {}
    samples: dict[str, list[Copy]] = {}
    numbers: dict[str, set[int]] = {}
    for part in packed:
        for copy in unpack_copies(part):
            shard = shards[bisect_right(firsts, copy.ref.number) - 1]
            counts[shard] = counts.get(shard, 0) + 1
            numbers.setdefault(shard, set()).add(copy.ref.number)
            first_copies = samples.setdefault(shard, [])
            first_copies.append(copy)
            if len(first_copies) >= _MANY:
                first_copies[:] = sorted(first_copies)[:_SAMPLES]
    return {
        shard: ShardCopies(counts[shard], tuple(sorted(samples[shard])[:_SAMPLES]), tuple(sorted(numbers[shard])))
        for shard in sorted(counts)
    }


def _lines(packed: Sequence[bytes], objects: Sequence[RawObject | None]) -> dict[str, Sequence[int]]:
    lines: dict[int, array[int]] = {}
    for part in packed:
        for copy in unpack_copies(part):
            lines.setdefault(copy.ref.number, array("I")).append(copy.ref.line)
    found: dict[str, Sequence[int]] = {}
    for number, unsorted in lines.items():
        raw_object = objects[number]
        if raw_object is not None:
            found[raw_object.key] = array("I", sorted(unsorted))
    return found
