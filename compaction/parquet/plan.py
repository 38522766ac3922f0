"""Plan which task reads which segments. Pure and deterministic: the same inventory gives the same plan.

Consecutive tasks hold the segments of a shard in position order, and each task writes one sorted file, so payloads
are never sorted or shuffled. Tasks are cut by compressed bytes (docs/decisions/0031-a-large-day.md).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from compaction.inventory.segments import ClassifiedObjects, History, ListedSegment, SegmentFacts
from minutebook.format.position import Position


class TaskSizes(NamedTuple):
    """The sizes of tasks, and so of their Parquet files, which grow with the day.

    `least_bytes`: compressed bytes of a task of a small day, about 256 MB of lines. `files`: target number of files
    of a large day, so that a reader opens thousands, not tens of thousands. `most_bytes`: upper limit of a task; days
    above 2 TB (compressed) get more files, not larger ones. `segments` bounds the requests of a task on a stream of
    tiny segments. `shards`: shards that are judged together, on a busy day 11,520 segments or some 60 MB.
    """

    least_bytes: int = 64 << 20
    most_bytes: int = 512 << 20
    files: int = 3_800
    segments: int = 4_000
    shards: int = 8

    def bytes_for(self, size: int) -> int:
        """Return the compressed bytes of one task, for a day of `size` compressed bytes."""
        return min(max(self.least_bytes, -(-size // self.files)), self.most_bytes)


SIZES: Final = TaskSizes()


class RawObject(NamedTuple):
    """One object to read. `modified_ms` is LastModified of its listing; 0: unknown. `history`: what its key held."""

    key: str
    etag: str
    size: int
    shard_id: str
    minute: int
    first: Position
    modified_ms: int = 0
    history: History | None = None


class RestoredLines(NamedTuple):
    """Lines, by position, that are restored from an object of `_duplicates`."""

    key: str
    positions: tuple[Position, ...]


class MergeGroup(NamedTuple):
    """Raw objects that are written together. With `merge` their lines are sorted and each position is kept once.

    `unsorted`: keys of objects whose own lines are out of order. `restored`: lines that none of the objects holds,
    to be merged in.
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
    """The groups that one Spark task reads and writes, in order."""

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
    """Cut groups into tasks, in the order of shard and position. A group is never split.

    A large shard takes many tasks, many small shards share one. `day_bytes`: compressed bytes of the whole day; None:
    the groups are the whole day.
    """
    groups = sorted_groups(groups)
    task_bytes = sizes.bytes_for(sum(group.size for group in groups) if day_bytes is None else day_bytes)
    batches: list[list[MergeGroup]] = []
    size = count = 0
    for group in groups:
        if not batches or size + group.size > task_bytes or count + len(group.objects) > sizes.segments:
            batches.append([])
            size = count = 0
        batches[-1].append(group)
        size += group.size
        count += len(group.objects)
    return [Task(number, tuple(batch)) for number, batch in enumerate(batches, start=first_number)]


def raw_objects(rows: Iterable[ListedSegment]) -> list[RawObject]:
    """Return every object of a day whose key is that of a segment."""
    return [
        RawObject(
            row.key,
            row.etag,
            row.size,
            row.parsed.shard_id,
            row.parsed.minute,
            row.parsed.first,
            row.last_modified_ms,
            None if row.known is None else row.known.history,
        )
        for row in rows
        if row.parsed is not None
    ]


def single_groups(objects: Iterable[RawObject]) -> list[MergeGroup]:
    """Return a group for each object."""
    return [MergeGroup((raw_object,)) for raw_object in objects]


class LineSpan(NamedTuple):
    """Position range of an object's lines, clipped to the range in its metadata; `is_sorted`: the lines ascend."""

    raw_object: RawObject
    low: Position
    high: Position
    is_sorted: bool


def spans_of(
    rows: Iterable[ListedSegment], described: ClassifiedObjects, facts: Mapping[str, SegmentFacts]
) -> list[LineSpan]:
    """Return the spans of objects to write: segments that were read to their end and hold at least one line.

    A line outside its object's metadata range is a defect of that object alone: unclipped, one low position would
    overlap every earlier segment and merge the whole day into one group.
    """
    stated = {segment.key: segment.metadata.span for segment in described.segments}
    spans = []
    for raw_object in raw_objects(rows):
        read = facts.get(raw_object.key)
        span = stated.get(raw_object.key)
        if span is not None and read is not None and not read.problem and read.low and read.high:
            low, high = (min(max(end, span.first), span.last) for end in (read.low, read.high))
            spans.append(LineSpan(raw_object, low, high, read.is_sorted))
    return spans


def group_overlaps(spans: Sequence[LineSpan]) -> list[MergeGroup]:
    """Join objects of a shard whose spans overlap into groups to merge; other objects get a group each.

    Sorted by `low`, an object that begins at or before the greatest `high` so far belongs to the group.
    """
    by_shard: dict[str, list[LineSpan]] = defaultdict(list)
    for span in spans:
        by_shard[span.raw_object.shard_id].append(span)
    groups: list[MergeGroup] = []
    for _, shard in sorted(by_shard.items()):
        overlapping: list[LineSpan] = []
        highest = None
        for span in sorted(shard, key=lambda span: (span.low, span.high, span.raw_object.key)):
            if highest is None or span.low > highest:
                if overlapping:
                    groups.append(_group(overlapping))
                overlapping, highest = [], span.high
            overlapping.append(span)
            highest = max(highest, span.high)
        groups.append(_group(overlapping))
    return groups


def with_restored(
    groups: Iterable[MergeGroup], objects: Iterable[RawObject], restored: Mapping[str, RestoredLines]
) -> list[MergeGroup]:
    """Return groups with restored lines added; `restored` maps an object's key to the lines dropped from it.

    An object whose lines were all dropped is in no group yet and gets its own.
    """
    changed = []
    grouped: set[str] = set()
    for group in groups:
        keys = [raw_object.key for raw_object in group.objects]
        grouped.update(keys)
        lines = tuple(restored[key] for key in keys if key in restored)
        changed.append(group._replace(merge=True, restored=lines) if lines else group)
    empty = [raw_object for raw_object in objects if raw_object.key in restored and raw_object.key not in grouped]
    return [*changed, *(MergeGroup((each,), merge=True, restored=(restored[each.key],)) for each in empty)]


def _group(spans: Sequence[LineSpan]) -> MergeGroup:
    unsorted = frozenset(span.raw_object.key for span in spans if not span.is_sorted)
    objects = tuple(sorted((span.raw_object for span in spans), key=order_of_objects))
    return MergeGroup(objects, merge=len(spans) > 1 or bool(unsorted), unsorted=unsorted)


def sorted_groups(groups: Iterable[MergeGroup]) -> list[MergeGroup]:
    """Return groups in the order of shard and position."""
    return sorted(groups, key=lambda group: order_of_objects(group.objects[0]))


def order_of_objects(raw_object: RawObject) -> tuple[str, Position, int, str]:
    """Return the sort key of objects: shard and position."""
    return raw_object.shard_id, raw_object.first, raw_object.minute, raw_object.key
