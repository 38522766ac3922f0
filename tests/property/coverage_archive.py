"""The archive of the histories of coverage: what was stored, when, and which records it really holds."""

from typing import NamedTuple

from minutebook.coverage.evidence import EvidenceLink, Kind
from minutebook.format.position import Position
from minutebook.format.read_mark import MarkKind, ReadMark
from tests.property.coverage_stream import MINUTE, StreamRecord


class StoredSegment(NamedTuple):
    """A segment: its link, and what it holds."""

    link: EvidenceLink
    records: tuple[StreamRecord, ...]
    stored: int


class ShardArchive:
    """One shard's objects. Times are S3's."""

    def __init__(self, shard_id: str) -> None:
        self.shard_id = shard_id
        self.segments: list[StoredSegment] = []
        self.marks: list[tuple[ReadMark, int]] = []
        self.skips: list[tuple[int, int]] = []
        self.skip_pending: list[tuple[int, int]] = []
        self.opened: int | None = None
        self.ended: int | None = None
        self.end_children: tuple[str, ...] = ()

    def next_stored(self, tail: Position | None) -> StoredSegment | None:
        """Return the first segment that ends behind `tail`."""
        return next((segment for segment in self.segments if tail is None or segment.link.last > tail), None)

    def put(self, link: EvidenceLink, records: list[StreamRecord], time: int) -> None:
        """Store a segment."""
        self.segments.append(StoredSegment(link._replace(stored_ms=time), tuple(records), time))

    def base_until(self, tail: Position | None, time: int, *, finds_marks: bool) -> int | None:
        """Return the `until` of the newest evidence at the tail: its segment's own, or a mark's of two days."""
        found = [segment for segment in self.segments if segment.link.last == tail]
        untils = [begun_until(segment.link) for segment in found]
        if finds_marks:
            untils += [
                mark.until_ms
                for mark, stored in self.marks
                if mark.position == tail and mark.kind is MarkKind.READ and stored > time - 24 * 60 * MINUTE
            ]
        return max(untils, default=None)


def begun_until(link: EvidenceLink) -> int:
    """Return what a segment's metadata alone says of its `until`."""
    is_begun = link.kind is Kind.SEGMENT and link.claim not in {None, "proven"}
    return link.begins_ms if is_begun else link.until_ms
