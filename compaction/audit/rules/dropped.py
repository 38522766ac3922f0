"""Dropped producer duplicates: each names the record that was kept instead, and that record must be archived.

Claims name a position; watermarks name a producer's number, which no position belongs to: those are counted, not
followed.

Where the record that was kept is missing, the event would be lost: one of its copies comes back, the first of the
day. The others stay dropped, or the event would be there twice.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from compaction.audit.rules.originals import Fate, Original, Originals
from compaction.inventory.segments import ArchivedSegment, segment_finding
from compaction.parquet.plan import RestoredLines
from compaction.verdict.findings import Code, Finding
from minutebook.compression import compression_of
from minutebook.errors import FormatError
from minutebook.format.keys import duplicates_key
from minutebook.format.position import Position
from minutebook.format.record import decode_dropped_line, original_of
from minutebook.format.segment import inflate
from minutebook.store.parallel import in_parallel
from minutebook.store.retrying import RetryingStorage


class DroppedRecord(NamedTuple):
    """One dropped record: its position, and the shard and position of its original (None: a producer's number)."""

    position: Position
    original: Original | None
    arrival_ms: int


class DroppedRecords(NamedTuple):
    """What was found of a day's dropped records. `lines` holds, by segment, those that come back.

    `outside` are the hours outside of the day where originals were looked for, by path.
    """

    findings: tuple[Finding, ...] = ()
    lines: Mapping[str, RestoredLines] = {}
    outside: frozenset[str] = frozenset()

    @property
    def restored(self) -> int:
        """Lines that come back."""
        return sum(len(restored.positions) for restored in self.lines.values())


class UnresolvedRecords(NamedTuple):
    """Dropped records of one segment whose originals its own group of shards does not show to be archived.

    `is_writable`: lines may come back into the segment's place.
    """

    segment: ArchivedSegment
    records: tuple[DroppedRecord, ...]
    is_writable: bool


def read_dropped_records(
    storage: RetryingStorage, prefix: str, segments: Sequence[ArchivedSegment]
) -> tuple[list[tuple[ArchivedSegment, list[DroppedRecord]]], list[Finding]]:
    """Read the records that were dropped from segments, and what is wrong where they cannot be read."""
    outcomes = in_parallel(lambda segment: _read(storage, prefix, segment), segments)
    findings = [outcome for outcome in outcomes if isinstance(outcome, Finding)]
    read = [
        (segment, outcome) for segment, outcome in zip(segments, outcomes, strict=True) if isinstance(outcome, list)
    ]
    return read, findings


def resolve_dropped_records(
    prefix: str, unresolved: Sequence[UnresolvedRecords], originals: Originals
) -> DroppedRecords:
    """Follow dropped records to their originals, wherever these are.

    Lines come back only for originals that are known to be missing, and into segments that are writable; none do when
    the day is only audited.
    """
    fates = originals.fates(
        {record.original for of_segment in unresolved for record in of_segment.records if record.original is not None}
    )
    chosen = _first_copies([of_segment for of_segment in unresolved if of_segment.is_writable], fates)
    lines = {
        segment.key: RestoredLines(_key(prefix, segment), tuple(sorted(positions)))
        for segment, records, _ in unresolved
        if (
            positions := [
                record.position for record in records if chosen.get(record.original) == (segment.key, record.position)
            ]
        )
    }
    findings = [finding for segment, records, _ in unresolved for finding in _judge(segment, records, fates, chosen)]
    return DroppedRecords(tuple(findings), lines, originals.hours)


def _first_copies(
    writable: Sequence[UnresolvedRecords], fates: Mapping[Original, Fate]
) -> dict[Original | None, tuple[str, Position]]:
    """Return, for each original that is missing, the segment and position of its first copy: by arrival."""
    first: dict[Original | None, tuple[int, str, Position, str]] = {}
    for segment, records, _ in writable:
        for record in records:
            if record.original is None or fates[record.original] != "missing":
                continue
            rank = (record.arrival_ms, segment.metadata.shard_id, record.position, segment.key)
            first[record.original] = min(first.get(record.original, rank), rank)
    return {original: (key, position) for original, (_, _, position, key) in first.items()}


def _key(prefix: str, segment: ArchivedSegment) -> str:
    metadata = segment.metadata
    slot = (metadata.shard_id, metadata.minute, metadata.first, metadata.writer)
    return duplicates_key(prefix, *slot, compression_of(segment.key))


def _read(storage: RetryingStorage, prefix: str, segment: ArchivedSegment) -> list[DroppedRecord] | Finding:
    metadata = segment.metadata
    key = _key(prefix, segment)

    def lacking(message: str) -> Finding:
        return segment_finding(Code.DROPPED_WITHOUT_ORIGINAL, segment, message, count=metadata.dropped)

    stored = storage.get(key)
    if stored is None:
        return lacking(f"the {metadata.dropped} records that were dropped are not kept: {key} is missing")
    try:
        dropped = [_dropped(line) for line in inflate([stored.body], compression_of(key))]
    except FormatError as exc:
        message = f"{key} cannot be read: {exc}"
        return segment_finding(Code.UNREADABLE_OBJECT, segment, message, count=metadata.dropped)
    inside = [copy for copy in dropped if copy.position in metadata.span]
    positions = len({copy.position for copy in inside})
    if positions != metadata.dropped:
        return lacking(f"{key} keeps {positions} of {metadata.dropped} dropped records")
    return inside


def _dropped(line: bytes) -> DroppedRecord:
    _, record, duplicate_of = decode_dropped_line(line)
    return DroppedRecord(record.position, original_of(duplicate_of), record.arrival_ms)


def _judge(
    segment: ArchivedSegment,
    dropped: Sequence[DroppedRecord],
    fates: Mapping[Original, Fate],
    chosen: Mapping[Original | None, tuple[str, Position]],
) -> list[Finding]:
    def select(fate: Fate) -> list[DroppedRecord]:
        return [copy for copy in dropped if copy.original is not None and fates[copy.original] == fate]

    def about(
        records: Sequence[DroppedRecord], message: str, *, unknown: bool = False, repaired: bool = False
    ) -> Finding:
        return segment_finding(
            Code.DROPPED_WITHOUT_ORIGINAL,
            segment,
            message,
            positions=[copy.position for copy in records],
            count=len(records),
            unknown=unknown,
            repaired=repaired,
        )

    missing, unknown = select("missing"), select("unknown")
    findings = []
    if missing:
        message = "the records that were kept instead of these are not archived"
        repaired = all(copy.original in chosen for copy in missing)
        if repaired:
            message += "; the first copy of each is brought back into the Parquet files"
        findings.append(about(missing, message, repaired=repaired))
    if unknown:
        message = (
            "the records that were kept instead of these were not found, and nothing shows that they are missing"
        )
        findings.append(about(unknown, message, unknown=True))
    return findings
