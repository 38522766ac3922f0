"""Segments as a LIST names them, linked for the merge."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from minutebook.errors import FormatError
from minutebook.format.keys import SegmentKey, parse_segment_key
from minutebook.format.position import Position
from minutebook.store.objects import ListedObject


class SegmentToRead(NamedTuple):
    """A listed segment; `followed_by` is the first position of the next one that may overlap it, if any."""

    key: str
    size: int
    etag: str
    parsed: SegmentKey
    followed_by: Position | None = None


def parse_listing(prefix: str, rows: Iterable[ListedObject]) -> tuple[list[SegmentToRead], list[str]]:
    """Return the segments among listed objects, and the keys of the others."""
    segments, foreign = list[SegmentToRead](), list[str]()
    for row in rows:
        try:
            segments.append(SegmentToRead(row.key, row.size, row.etag, parse_segment_key(prefix, row.key)))
        except FormatError:
            foreign.append(row.key)
    return segments, foreign


def position_order(segment: SegmentToRead) -> tuple[str, Position, str]:
    """Order segments by shard and position, whatever their minutes: the merge then yields a position once."""
    return segment.parsed.shard_id, segment.parsed.first, segment.key


def of_shard(parsed: SegmentKey) -> object:
    """Group segments in `position_order`."""
    return parsed.shard_id


def of_minute_and_shard(parsed: SegmentKey) -> object:
    """Group segments in the order of `segment_sort_key`."""
    return parsed[:2]


def linked(segments: Iterable[SegmentToRead], group_of: Callable[[SegmentKey], object]) -> Iterator[SegmentToRead]:
    """Yield ordered segments, each linked to the next one if both are in one group."""
    before: SegmentToRead | None = None
    for segment in segments:
        if before is not None:
            is_next = group_of(before.parsed) == group_of(segment.parsed)
            yield before._replace(followed_by=segment.parsed.first) if is_next else before
        before = segment
    if before is not None:
        yield before
