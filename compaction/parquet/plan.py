"""The plan: which task reads which segments. Pure and deterministic: the same inventory gives the same plan.

Segments of one shard lie in position order in consecutive tasks, so the payload is never sorted or shuffled: each
task writes one sorted file. Tasks are cut by compressed bytes (docs/decisions/0032-a-large-day.md).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from compaction.inventory.facts import SegmentFacts
from compaction.inventory.inventory import ListedSegment
from compaction.inventory.segments import ClassifiedObjects
from minutebook.format.position import Position


class TaskSizes(NamedTuple):
    """How large tasks are, and so their Parquet files: they grow with the day.

    `least_bytes`: compressed bytes of a task of a small day, about 256 MB of lines. `files`: about so many a large
    day is cut into, so that a reader opens thousands and not tens of thousands; `most_bytes`: but no task is larger,
    so a day of more than 2 TB (compressed) has more files, and not larger ones. `segments` bounds the requests of a
    task on a stream of tiny segments. `shards` are judged together: of a busy day 11,520 segments, some 60 MB.
    """

    least_bytes: int = 64 << 20
    most_bytes: int = 512 << 20
    files: int = 3_800
    segments: int = 4_000
    shards: int = 8

    def bytes_for(self, size: int) -> int:
        """Return the compressed bytes of one task of a day of `size` compressed bytes."""
        return min(max(self.least_bytes, -(-size // self.files)), self.most_bytes)


SIZES: Final = TaskSizes()


class RawObject(NamedTuple):
    """One object to read. `modified_ms` is when it was written, by its listing; 0: not known."""

    key: str
    etag: str
    size: int
    shard_id: str
    minute: int
    first: Position
    modified_ms: int = 0


class RestoredLines(NamedTuple):
    """Lines that come back from an object of `_duplicates`, by their positions."""

    key: str
    positions: tuple[Position, ...]


class MergeGroup(NamedTuple):
    """Raw objects that are written together. `merge`: their lines are sorted and each position is kept once.

    `unsorted` are the keys of those whose own lines are out of order. `restored` are lines that are sorted in
    between; none of the objects holds them.
    """

    objects: tuple[RawObject, ...]
    merge: bool = False
    restored: tuple[RestoredLines, ...] = ()
    unsorted: frozenset[str] = frozenset()

    @property
    def size(self) -> int:
        """Compressed bytes."""
        return sum(raw_object.size for raw_object in self.objects)


class Task(NamedTuple):
    """What one Spark task reads and writes, in this order."""

    number: int
    groups: tuple[MergeGroup, ...]

    @property
    def objects(self) -> list[RawObject]:
        """All objects of the task."""
        return [raw_object for group in self.groups for raw_object in group.objects]

    @property
    def size(self) -> int:
        """Compressed bytes."""
        return sum(group.size for group in self.groups)


def plan_tasks(
    groups: Iterable[MergeGroup], *, sizes: TaskSizes = SIZES, first_number: int = 0, day_bytes: int | None = None
) -> list[Task]:
    """Cut groups into tasks, in the order of shard and position. A group is never divided.

    A large shard takes many tasks, and many small ones share one. `day_bytes` is the size of the day that the groups
    are a part of; None: they are all of it.
    """
    groups = sorted_groups(groups)
    task_bytes = sizes.bytes_for(sum(group.size for group in groups) if day_bytes is None else day_bytes)
    tasks: list[Task] = []
    batch: list[MergeGroup] = []
    size = count = 0
    for group in groups:
        if batch and (size + group.size > task_bytes or count + len(group.objects) > sizes.segments):
            tasks.append(Task(first_number + len(tasks), tuple(batch)))
            batch, size, count = [], 0, 0
        batch.append(group)
        size += group.size
        count += len(group.objects)
    if batch:
        tasks.append(Task(first_number + len(tasks), tuple(batch)))
    return tasks


def raw_objects(rows: Iterable[ListedSegment]) -> list[RawObject]:
    """Return what can be read of a day: every object whose key is a segment's."""
    return [
        RawObject(
            row.key,
            row.etag,
            row.size,
            row.parsed.shard_id,
            row.parsed.minute,
            row.parsed.first,
            row.last_modified_ms,
        )
        for row in rows
        if row.parsed is not None
    ]


def single_groups(objects: Iterable[RawObject]) -> list[MergeGroup]:
    """Return a group for each object."""
    return [MergeGroup((raw_object,)) for raw_object in objects]


class LineSpan(NamedTuple):
    """What the lines of an object really cover, within what its metadata says; `is_sorted` False: out of order."""

    raw_object: RawObject
    low: Position
    high: Position
    is_sorted: bool


def spans_of(
    rows: Iterable[ListedSegment], described: ClassifiedObjects, facts: Mapping[str, SegmentFacts]
) -> list[LineSpan]:
    """Return what goes into the Parquet files: members that were read to their end and hold at least one line.

    A line outside the span of its object's metadata is a defect of that object alone: one low position would else
    touch every segment before it, and draw a whole day into one group.
    """
    members = {segment.key: segment.metadata.span for segment in described.segments}
    spans = []
    for raw_object in raw_objects(rows):
        read = facts.get(raw_object.key)
        said = members.get(raw_object.key)
        if said is not None and read is not None and not read.problem and read.low and read.high:
            low, high = (min(max(end, said.first), said.last) for end in (read.low, read.high))
            spans.append(LineSpan(raw_object, low, high, read.is_sorted))
    return spans


def group_overlaps(spans: Sequence[LineSpan]) -> list[MergeGroup]:
    """Join objects of a shard whose spans touch each other into groups to merge; the others stay single.

    The groups are the connected parts: sorted by `low`, an object that begins at or before the greatest `high` so far
    belongs to the group.
    """
    by_shard: dict[str, list[LineSpan]] = defaultdict(list)
    for span in spans:
        by_shard[span.raw_object.shard_id].append(span)
    groups: list[MergeGroup] = []
    for _, shard in sorted(by_shard.items()):
        touching: list[LineSpan] = []
        reached = None
        for span in sorted(shard, key=lambda span: (span.low, span.high, span.raw_object.key)):
            if reached is None or span.low > reached:
                if touching:
                    groups.append(_group(touching))
                touching, reached = [], span.high
            touching.append(span)
            reached = max(reached, span.high)
        groups.append(_group(touching))
    return groups


def with_restored(
    groups: Iterable[MergeGroup], objects: Iterable[RawObject], restored: Mapping[str, RestoredLines]
) -> list[MergeGroup]:
    """Return groups into which lines come back; `restored` holds them by the object that they were dropped from.

    An object whose lines were all dropped is in no group: it gets one.
    """
    found = []
    placed: set[str] = set()
    for group in groups:
        keys = [raw_object.key for raw_object in group.objects]
        placed.update(keys)
        lines = tuple(restored[key] for key in keys if key in restored)
        found.append(group._replace(merge=True, restored=lines) if lines else group)
    empty = [raw_object for raw_object in objects if raw_object.key in restored and raw_object.key not in placed]
    return [*found, *(MergeGroup((each,), merge=True, restored=(restored[each.key],)) for each in empty)]


def _group(spans: Sequence[LineSpan]) -> MergeGroup:
    unsorted = frozenset(span.raw_object.key for span in spans if not span.is_sorted)
    objects = tuple(sorted((span.raw_object for span in spans), key=order_of_objects))
    return MergeGroup(objects, merge=len(spans) > 1 or bool(unsorted), unsorted=unsorted)


def sorted_groups(groups: Iterable[MergeGroup]) -> list[MergeGroup]:
    """Return groups in the order of shard and position."""
    return sorted(groups, key=lambda group: order_of_objects(group.objects[0]))


def order_of_objects(raw_object: RawObject) -> tuple[str, Position, int, str]:
    """Return what objects are sorted by: shard and position."""
    return raw_object.shard_id, raw_object.first, raw_object.minute, raw_object.key
