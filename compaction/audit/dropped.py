"""Dropped producer duplicates: each names the record that was kept instead, and that record must be archived.

Claims name a position; watermarks name a producer's number, which no position belongs to: those are counted, not
followed.

Where the record that was kept is missing, the event would be lost: one of its copies comes back, the first of the
day. The others stay dropped, or the event would stand there twice.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from archive.errors import FormatError
from archive.format.duplicates import original_of
from archive.format.keys import duplicates_key
from archive.format.position import Position, SequenceRange
from archive.format.record import decode_dropped_line
from archive.format.segment import inflate
from archive.retry import until_known
from archive.store.storage import Storage
from compaction.inventory.inventory import Waits, in_parallel
from compaction.inventory.segments import Segment, segment_finding
from compaction.tasks.plan import Back
from compaction.verdict.findings import Code, Finding


class Dropped(NamedTuple):
    """One dropped record: where it stood, and where its original stands (None: a producer's number)."""

    position: Position
    original: tuple[str, Position] | None
    arrival_ms: int


class DroppedRecords(NamedTuple):
    """What was found of a day's dropped records. `back` holds, by segment, the lines that come back."""

    findings: tuple[Finding, ...] = ()
    back: Mapping[str, Back] = {}

    @property
    def restored(self) -> int:
        """Lines that come back."""
        return sum(len(one.positions) for one in self.back.values())


def check_dropped(
    storage: Storage,
    prefix: str,
    segments: Sequence[Segment],
    spans: Mapping[str, Sequence[SequenceRange]],
    waits: Waits,
    *,
    writable: Collection[str] = (),
) -> DroppedRecords:
    """Follow every dropped record of the day to its original.

    `spans` holds, by shard, what is known to be archived: the day's segments, their neighbours, and expired runs. An
    original that lies elsewhere is unknown, unless the shard's known part surrounds it: then it is missing. Lines
    come back into segments that are `writable`; none do when the day is only audited.
    """
    concerned = [segment for segment in segments if segment.metadata.dropped]
    outcomes = in_parallel(lambda segment: _read(storage, prefix, segment, waits), concerned)
    findings = [outcome for outcome in outcomes if isinstance(outcome, Finding)]
    read = [(one, outcome) for one, outcome in zip(concerned, outcomes, strict=True) if isinstance(outcome, list)]
    chosen = _first_copies([(one, dropped) for one, dropped in read if one.key in writable], spans)
    back = {
        segment.key: Back(_key(prefix, segment), tuple(sorted(positions)))
        for segment, dropped in read
        if (positions := [one.position for one in dropped if chosen.get(one.original) == (segment.key, one.position)])
    }
    for segment, dropped in read:
        findings += _judge(segment, dropped, spans, chosen)
    return DroppedRecords(tuple(findings), back)


_Original = tuple[str, Position] | None


def _first_copies(
    read: Sequence[tuple[Segment, Sequence[Dropped]]], spans: Mapping[str, Sequence[SequenceRange]]
) -> dict[_Original, tuple[str, Position]]:
    """Return, for each original that is missing, the segment and position of its first copy: by arrival."""
    found: dict[_Original, tuple[int, str, Position, str]] = {}
    for segment, dropped in read:
        for one in dropped:
            if one.original is None or not _is_missing(spans.get(one.original[0], ()), one.original[1]):
                continue
            rank = (one.arrival_ms, segment.metadata.shard_id, one.position, segment.key)
            found[one.original] = min(found.get(one.original, rank), rank)
    return {original: (key, position) for original, (_, _, position, key) in found.items()}


def _key(prefix: str, segment: Segment) -> str:
    metadata = segment.metadata
    return duplicates_key(prefix, metadata.shard_id, metadata.minute, metadata.first, metadata.writer)


def _read(storage: Storage, prefix: str, segment: Segment, waits: Waits) -> list[Dropped] | Finding:
    metadata = segment.metadata
    key = _key(prefix, segment)

    def lacking(message: str) -> Finding:
        return segment_finding(Code.DROPPED_WITHOUT_ORIGINAL, segment, message, count=metadata.dropped)

    stored = until_known(lambda: storage.get(key), waits(), f"GET {key}")
    if stored is None:
        return lacking(f"the {metadata.dropped} records that were dropped are not kept: {key} is missing")
    try:
        dropped = [_dropped(line) for line in inflate([stored.body])]
    except FormatError as exc:
        message = f"{key} cannot be read: {exc}"
        return segment_finding(Code.UNREADABLE_OBJECT, segment, message, count=metadata.dropped)
    inside = {one.position for one in dropped if one.position in metadata.span}
    if len(inside) != metadata.dropped:
        return lacking(f"{key} keeps {len(inside)} of {metadata.dropped} dropped records")
    return [one for one in dropped if one.position in metadata.span]


def _dropped(line: bytes) -> Dropped:
    _, record, duplicate_of = decode_dropped_line(line)
    return Dropped(record.position, original_of(duplicate_of), record.arrival_ms)


def _judge(
    segment: Segment,
    dropped: Sequence[Dropped],
    spans: Mapping[str, Sequence[SequenceRange]],
    chosen: Mapping[_Original, tuple[str, Position]],
) -> list[Finding]:
    def select(wanted: Callable[[Sequence[SequenceRange], Position], bool]) -> list[Dropped]:
        return [
            one
            for one in dropped
            if one.original is not None and wanted(spans.get(one.original[0], ()), one.original[1])
        ]

    def about(records: Sequence[Dropped], message: str, *, unknown: bool = False, repaired: bool = False) -> Finding:
        return segment_finding(
            Code.DROPPED_WITHOUT_ORIGINAL,
            segment,
            message,
            positions=[one.position for one in records],
            count=len(records),
            unknown=unknown,
            repaired=repaired,
        )

    missing, unseen = select(_is_missing), select(_is_unseen)
    findings = []
    if missing:
        message = "the records that were kept instead of these are not archived"
        repaired = all(one.original in chosen for one in missing)
        if repaired:
            message += "; the first copy of each is brought back into the Parquet files"
        findings.append(about(missing, message, repaired=repaired))
    if unseen:
        message = "the records that were kept instead of these lie outside of the days that were looked at"
        findings.append(about(unseen, message, unknown=True))
    return findings


def _is_missing(spans: Sequence[SequenceRange], position: Position) -> bool:
    surrounded = any(span.last < position for span in spans) and any(span.first > position for span in spans)
    return surrounded and not any(position in span for span in spans)


def _is_unseen(spans: Sequence[SequenceRange], position: Position) -> bool:
    return not any(position in span for span in spans) and not _is_missing(spans, position)
