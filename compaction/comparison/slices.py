"""How a shard's day is cut: slices by position, which are read one after another. Pure.

A cut lies at the first position of a segment, and only where everything before it ends before it: so each archived
record, and each record of the stream, belongs to exactly one slice, whatever its time of arrival. Times step back
inside a shard, and a cut by them would leave some out, or count them twice.

A slice ends at the first record that the stream holds at the cut or behind it, and the next one begins at that very
record, by its sequence number. So the slices are one unbroken reading, or the second one shows that they are not.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from archive.format.position import Position
from compaction.inventory.segments import Segment

SLICE_BYTES: Final = 256 << 20
"""Payload of a slice: five minutes of reading, at the usual share. A task that fails reads so much again."""


class Slice(NamedTuple):
    """A part of a shard: its segments, and the positions that it begins at and ends before; None: there is no end."""

    segments: tuple[Segment, ...]
    start: Position | None = None
    stop: Position | None = None


def cut(segments: Iterable[Segment], slice_bytes: int) -> list[Slice]:
    """Cut one shard; without segments it is one slice."""
    groups: list[list[Segment]] = [[]]
    starts: list[Position | None] = [None]
    size, reached = 0, None
    for segment in sorted(segments, key=lambda segment: segment.metadata.first):
        first = segment.metadata.first
        if size >= slice_bytes and reached is not None and reached < first:
            groups.append([])
            starts.append(first)
            size = 0
        groups[-1].append(segment)
        size += segment.metadata.payload_bytes
        reached = segment.metadata.last if reached is None else max(reached, segment.metadata.last)
    stops: Sequence[Position | None] = [*starts[1:], None]
    return [Slice(tuple(group), *ends) for group, *ends in zip(groups, starts, stops, strict=True)]
