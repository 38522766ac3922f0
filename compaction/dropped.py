"""Dropped producer duplicates: each names the record that was kept instead, and that record must be archived.

Claims name a position; watermarks name a producer's number, which no position belongs to: those are counted, not
followed.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from archive.commit import until_known
from archive.errors import FormatError
from archive.keys import duplicates_key
from archive.minute import minute_text
from archive.position import Position, SequenceRange
from archive.record import decode_dropped_line
from archive.segment import inflate
from compaction.findings import Code, Finding, finding
from compaction.inventory import Waits, in_parallel
from compaction.segments import Segment
from compaction.storage import Storage

_PLACE: Final = re.compile(r"[^/]+/(?P<shard>[a-zA-Z0-9_.-]+)/(?P<position>[0-9]+:[0-9]+)", re.ASCII)


class Dropped(NamedTuple):
    """One dropped record: where it stood, and where its original stands (None: a producer's number)."""

    position: Position
    original: tuple[str, Position] | None


def check_dropped(
    storage: Storage,
    prefix: str,
    segments: Sequence[Segment],
    spans: Mapping[str, Sequence[SequenceRange]],
    waits: Waits,
) -> list[Finding]:
    """Follow every dropped record of the day to its original.

    `spans` holds, by shard, what is known to be archived: the day's segments, their neighbours, and expired runs. An
    original that lies elsewhere is unknown, unless the shard's known part surrounds it: then it is missing.
    """
    concerned = [segment for segment in segments if segment.metadata.dropped]
    findings: list[Finding] = []
    for segment, outcome in zip(
        concerned, in_parallel(lambda segment: _read(storage, prefix, segment, waits), concerned), strict=True
    ):
        findings += [outcome] if isinstance(outcome, Finding) else _judge(segment, outcome, spans)
    return findings


def _read(storage: Storage, prefix: str, segment: Segment, waits: Waits) -> list[Dropped] | Finding:
    metadata = segment.metadata
    key = duplicates_key(prefix, metadata.shard_id, metadata.minute, metadata.first, metadata.writer)
    stored = until_known(lambda: storage.get(key), waits(), f"GET {key}")
    if stored is None:
        return _found(segment, f"the {metadata.dropped} records that were dropped are not kept: {key} is missing")
    try:
        dropped = [_dropped(line) for line in inflate([stored.body])]
    except FormatError as exc:
        return _found(segment, f"{key} cannot be read: {exc}", code=Code.UNREADABLE_OBJECT)
    inside = {one.position for one in dropped if one.position in metadata.span}
    if len(inside) != metadata.dropped:
        return _found(segment, f"{key} keeps {len(inside)} of {metadata.dropped} dropped records")
    return dropped


def _dropped(line: bytes) -> Dropped:
    _, record, duplicate_of = decode_dropped_line(line)
    place = _PLACE.fullmatch(duplicate_of)
    original = None if place is None else (place["shard"], Position.parse(place["position"]))
    return Dropped(record.position, original)


def _judge(
    segment: Segment, dropped: Sequence[Dropped], spans: Mapping[str, Sequence[SequenceRange]]
) -> list[Finding]:
    def select(wanted: Callable[[Sequence[SequenceRange], Position], bool]) -> list[Position]:
        return [
            one.position
            for one in dropped
            if one.original is not None and wanted(spans.get(one.original[0], ()), one.original[1])
        ]

    missing, unseen = select(_is_missing), select(_is_unseen)
    findings = []
    if missing:
        message = "the records that were kept instead of these are not archived"
        findings.append(_found(segment, message, positions=missing))
    if unseen:
        message = "the records that were kept instead of these lie outside of the days that were looked at"
        findings.append(_found(segment, message, positions=unseen, unknown=True))
    return findings


def _is_missing(spans: Sequence[SequenceRange], position: Position) -> bool:
    surrounded = any(span.last < position for span in spans) and any(span.first > position for span in spans)
    return surrounded and not any(position in span for span in spans)


def _is_unseen(spans: Sequence[SequenceRange], position: Position) -> bool:
    return not any(position in span for span in spans) and not _is_missing(spans, position)


def _found(
    segment: Segment,
    message: str,
    *,
    code: Code = Code.DROPPED_WITHOUT_ORIGINAL,
    positions: Sequence[Position] = (),
    unknown: bool = False,
) -> Finding:
    return finding(
        code,
        message,
        severity="unknown" if unknown else "defect",
        shard=segment.metadata.shard_id,
        minute=minute_text(segment.metadata.minute),
        keys=[segment.key],
        positions=positions,
        count=len(positions) or segment.metadata.dropped,
    )
