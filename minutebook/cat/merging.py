"""Records of many segments in one order: by minute, then shard, then position, each position once.

Segments of a sound archive do not overlap, and are read one after the other. Where they do, those that overlap are
merged by position: a record that lies in two of them comes once, and nothing that lies in one alone is lost. The name
of a segment holds the position of its first record, so that no more of them are open than do overlap.
"""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from minutebook.cat.bodies import Body
from minutebook.cat.listing import SegmentToRead
from minutebook.errors import FormatError
from minutebook.format.position import Position
from minutebook.format.record import Record
from minutebook.store.storage import ObjectChanged


class FoundRecord(NamedTuple):
    """A record, and the segment that it lies in."""

    segment: SegmentToRead
    record: Record


class Troubles:
    """What was wrong, as it is found: each is told at once, and counted by the exit code that it asks for."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self.defects = 0
        self.unknown = 0
        self.repeated = 0
        self._misplaced: set[str] = set()

    def defect(self, key: str, what: str) -> None:
        """Something in the archive is wrong."""
        self.defects += 1
        self._tell(f"{key}: {what}")

    def unproven(self, what: str) -> None:
        """Something could not be shown, and nobody knows whether it is wrong."""
        self.unknown += 1
        self._tell(what)

    def repeat(self, kept: FoundRecord, other: FoundRecord) -> None:
        """Count a record that lies in two segments; only one that differs is told by itself."""
        self.repeated += 1
        if kept.record != other.record:
            self.defect(other.segment.key, f"another record at {other.record.position} than in {kept.segment.key}")

    def misplaced(self, found: FoundRecord) -> None:
        """Tell of a segment, once, that a record of it lies under a minute in which it did not arrive."""
        key = found.segment.key
        if key not in self._misplaced:
            self._misplaced.add(key)
            self.defect(key, f"the record at {found.record.position} arrived in another minute than the name says")

    def conclude(self) -> int:
        """Tell what was only counted; return the exit code: 3 before 4 before 0."""
        if self.repeated:
            self.defects += 1
            self._tell(f"{self.repeated} record(s) lie in two segments and are shown once: run minutebook audit")
        return 3 if self.defects else 4 if self.unknown else 0


_Records = Iterator[tuple[Position, Record]]


@dataclass(frozen=True, slots=True)
class _Reader:
    """One segment that is being read: its next record, by whose position readers are ordered."""

    position: Position
    record: Record
    segment: SegmentToRead
    rest: _Records

    def __lt__(self, other: "_Reader") -> bool:
        return self.position < other.position


def _advanced(segment: SegmentToRead, records: _Records, troubles: Troubles) -> _Reader | None:
    """Go to a segment's next record; None when there is none, or none that can be read."""
    try:
        found = next(records, None)
    except FormatError as exc:
        troubles.defect(segment.key, str(exc))
        return None
    except ObjectChanged:
        troubles.unproven(f"{segment.key}: it was listed, and is gone or another one")
        return None
    return None if found is None else _Reader(*found, segment, records)


def merge(
    bodies: Iterator[Body],
    read: Callable[[Body], Iterator[tuple[Position, Record]]],
    troubles: Troubles,
) -> Iterator[FoundRecord]:
    """Yield the records of the bodies, which come by minute, shard and first position.

    Raises:
        StoreUnavailable, StoreRefused: the store.
    """
    active: list[_Reader] = []
    begins: Position | None = None  # where the next segment of this minute and shard does
    last: FoundRecord | None = None
    while True:
        if not active or (begins is not None and begins <= active[0].position):
            body = next(bodies, None)
            if body is None:
                return
            begins, last = body.segment.followed_by, last if active else None
            opened = _advanced(body.segment, read(body), troubles)
            if opened is not None:
                heapq.heappush(active, opened)
            continue
        reader = active[0]
        found = FoundRecord(reader.segment, reader.record)
        if last is not None and reader.position <= last.record.position:
            troubles.repeat(last, found)
        else:
            yield found
            last = found
        after = _advanced(reader.segment, reader.rest, troubles)
        if after is None:
            heapq.heappop(active)
        else:
            heapq.heapreplace(active, after)
