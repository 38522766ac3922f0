"""Merge the records of many segments by position, each position once.

Segments of an intact archive do not overlap and are read one after the other. Overlapping ones are merged by
position: a record in two of them is yielded once, and one in a single segment is not lost. The name of a segment has
the position of its first record, so only overlapping segments are open at the same time.
"""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from minutebook.errors import FormatError
from minutebook.format.position import Position
from minutebook.format.record import Record
from minutebook.segments.bodies import Body
from minutebook.segments.listing import SegmentToRead
from minutebook.store.storage import ObjectChanged


class SegmentRecord(NamedTuple):
    """A record and its segment."""

    segment: SegmentToRead
    record: Record


class Problems:
    """Reports each problem at once, and counts them for the exit code."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self.defects = 0
        self.unknown = 0
        self.repeated = 0
        self._misplaced: set[str] = set()

    def defect(self, key: str, what: str) -> None:
        """Report a defect of an object."""
        self.defects += 1
        self._report(f"{key}: {what}")

    def foreign(self, key: str) -> None:
        """Report an object among the segments that is none."""
        self.defect(key, "among the segments, and none by its name")

    def unproven(self, what: str) -> None:
        """Report records that could not be shown and may be intact."""
        self.unknown += 1
        self._report(what)

    def repeat(self, shown: SegmentRecord, other: SegmentRecord) -> None:
        """Count a record in two segments; report it only if the two differ."""
        self.repeated += 1
        if shown.record != other.record:
            self.defect(other.segment.key, f"another record at {other.record.position} than in {shown.segment.key}")

    def misplaced(self, row: SegmentRecord) -> None:
        """Report, once per segment, a record that arrived in another minute than the segment's."""
        key = row.segment.key
        if key not in self._misplaced:
            self._misplaced.add(key)
            self.defect(key, f"the record at {row.record.position} arrived in another minute than the name says")

    def conclude(self) -> int:
        """Report the number of repeated records; return the exit code: 3 before 4 before 0."""
        if self.repeated:
            self.defects += 1
            self._report(f"{self.repeated} record(s) lie in two segments and are shown once: run minutebook audit")
        return 3 if self.defects else 4 if self.unknown else 0


_Records = Iterator[tuple[Position, Record]]


@dataclass(frozen=True, slots=True)
class _Reader:
    """A segment being read; ordered by the position of its next record, then by its key, as `compact` does."""

    position: Position
    record: Record
    segment: SegmentToRead
    rest: _Records

    def __lt__(self, other: "_Reader") -> bool:
        return (self.position, self.segment.key) < (other.position, other.segment.key)


def _advanced(segment: SegmentToRead, records: _Records, problems: Problems) -> _Reader | None:
    """Return a reader at the segment's next record; None if there is none, or it cannot be read."""
    try:
        pair = next(records, None)
    except FormatError as exc:
        problems.defect(segment.key, str(exc))
        return None
    except ObjectChanged:
        problems.unproven(f"{segment.key}: it was listed, and is gone or another one")
        return None
    return None if pair is None else _Reader(*pair, segment, records)


def merge(
    bodies: Iterator[Body], read: Callable[[Body], Iterator[tuple[Position, Record]]], problems: Problems
) -> Iterator[SegmentRecord]:
    """Yield the records of the bodies, which are ordered by first position within each group that is linked."""
    active: list[_Reader] = []
    begins: Position | None = None  # the first position of the next segment of this minute and shard
    last: SegmentRecord | None = None
    while True:
        if not active or (begins is not None and begins <= active[0].position):
            body = next(bodies, None)
            if body is None:
                return
            begins, last = body.segment.followed_by, last if active else None
            opened = _advanced(body.segment, read(body), problems)
            if opened is not None:
                heapq.heappush(active, opened)
            continue
        reader = active[0]
        row = SegmentRecord(reader.segment, reader.record)
        if last is not None and reader.position <= last.record.position:
            problems.repeat(last, row)
        else:
            yield row
            last = row
        after = _advanced(reader.segment, reader.rest, problems)
        if after is None:
            heapq.heappop(active)
        else:
            heapq.heapreplace(active, after)
