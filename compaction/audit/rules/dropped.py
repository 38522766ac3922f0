"""Dropped producer duplicates: each names the record that was kept instead, and that record must be archived.

    claims name a position .................. followed wherever it is
    watermarks name a producer's number ..... looked for among the shard's records just before: the dropping segment,
                                              and `LOOKED_BACK` ones before it. Farther away it is not known

Where the record that was kept is missing, the event would be lost: one of its copies comes back, the first of the
day. The others stay dropped, or the event would be there twice. The same where the record with a producer's number
has another payload: it is another event (`id_conflict`).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

from compaction.audit.rules.originals import Fate, Original, Originals
from compaction.inventory.segments import ArchivedSegment, segment_finding
from compaction.parquet.fetching import content_digest
from compaction.parquet.plan import RestoredLines
from compaction.verdict.basis import digest_of_lines
from compaction.verdict.findings import SAMPLES, Code, Finding
from minutebook.compression import compression_of
from minutebook.errors import FormatError
from minutebook.format.keys import duplicates_key
from minutebook.format.payload import NumberPaths, ProducerNumbers
from minutebook.format.position import Position
from minutebook.format.record import decode_dropped_line, decode_line, numbered, original_of
from minutebook.format.segment import inflate
from minutebook.store.parallel import in_parallel
from minutebook.store.retrying import RetryingStorage

LOOKED_BACK: Final = 10
"""Segments before the dropping one in which a producer's number is looked for: a retry comes within minutes."""
_DIGEST_BYTES: Final = 16


class DroppedRecord(NamedTuple):
    """One dropped record: its position, and the shard and position of its original (None: a producer's number).

    `digest` is of its payload. `conflict`: the record with its producer's number has another payload, and is there.
    """

    position: Position
    original: Original | None
    arrival_ms: int
    duplicate_of: str
    digest: bytes
    conflict: Position | None = None

    @property
    def event(self) -> "Event | None":
        """What its copies share: the lost original; for a conflict the number and the payload."""
        return self.original if self.conflict is None else (self.duplicate_of, self.digest)


Event = Original | tuple[str, bytes]


class DroppedRecords(NamedTuple):
    """What was found of a day's dropped records. `lines` holds, by segment, those that come back.

    `outside` are the segments outside of the day where originals were looked for, by the paths of their hours.
    `digest` is that of the lines that come back: where they belong, and their payloads.
    """

    findings: tuple[Finding, ...] = ()
    lines: Mapping[str, RestoredLines] = {}
    outside: Mapping[str, tuple[str, ...]] = {}
    digest: str = ""

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
    restored = {
        segment.key: (segment, kept)
        for segment, records, _ in unresolved
        if (kept := [each for each in records if chosen.get(each.event) == (segment.key, each.position)])
    }
    lines = {
        key: RestoredLines(_key(prefix, segment), tuple(sorted(record.position for record in records)))
        for key, (segment, records) in restored.items()
    }
    digest = digest_of_lines(
        f"{key} {_content(record)}" for key, (_, records) in restored.items() for record in records
    )
    findings = [finding for segment, records, _ in unresolved for finding in _judge(segment, records, fates, chosen)]
    return DroppedRecords(tuple(findings), lines, originals.hours, digest)


def with_conflicts(
    storage: RetryingStorage,
    dropped: Sequence[tuple[ArchivedSegment, list[DroppedRecord]]],
    members: Callable[[str], Sequence[ArchivedSegment]],
    paths: NumberPaths,
) -> list[tuple[ArchivedSegment, list[DroppedRecord]]]:
    """Compare records that watermarks dropped with those that have their numbers; `members`: a shard's segments."""
    by_shard: dict[str, list[tuple[ArchivedSegment, list[DroppedRecord]]]] = defaultdict(list)
    for segment, records in dropped:
        by_shard[segment.metadata.shard_id].append((segment, records))
    compared = []
    for shard, of_shard in by_shard.items():
        wanted = {record.duplicate_of for _, records in of_shard for record in records if record.original is None}
        chain = sorted(members(shard), key=lambda segment: segment.metadata.first)
        kept = _KeptNumbers(storage, chain, frozenset(wanted), ProducerNumbers(paths))
        compared += [
            (segment, [kept.compare(segment, record) for record in records]) for segment, records in of_shard
        ]
    return compared


class _KeptNumbers:
    """Records of a shard's `chain`, by what copies of them are called; reads segments again."""

    def __init__(
        self,
        storage: RetryingStorage,
        chain: Sequence[ArchivedSegment],
        wanted: frozenset[str],
        numbers: ProducerNumbers,
    ) -> None:
        self._storage = storage
        self._chain = chain
        self._places = {segment.key: place for place, segment in enumerate(chain)}
        self._wanted = wanted
        self._numbers = numbers
        self._read = lru_cache(LOOKED_BACK + 1)(self._read_segment)

    def compare(self, segment: ArchivedSegment, record: DroppedRecord) -> DroppedRecord:
        """Return the record, with the one that it conflicts with: the nearest with its number, if none is equal."""
        place = self._places.get(segment.key)
        if record.original is not None or place is None:
            return record
        for earlier in range(place, max(-1, place - LOOKED_BACK - 1), -1):
            kept = self._read(earlier).get(record.duplicate_of, ())
            before = {position: digest for position, digest in kept if position < record.position}
            if before:
                return record if record.digest in before.values() else record._replace(conflict=max(before))
        return record

    def _read_segment(self, place: int) -> Mapping[str, Sequence[tuple[Position, bytes]]]:
        """Return positions and digests of the wanted records; none if the object cannot be read: others report it."""
        key = self._chain[place].key
        stored = self._storage.get(key)
        kept: dict[str, list[tuple[Position, bytes]]] = defaultdict(list)
        try:
            for line in () if stored is None else inflate([stored.body], compression_of(key)):
                _, record = decode_line(line)
                known = self._numbers.of(record.data)
                if known is not None and (name := numbered(*known)) in self._wanted:
                    kept[name].append((record.position, _digest(record.data)))
        except FormatError:
            return {}
        return kept


def _content(record: DroppedRecord) -> str:
    return f"{record.position} {record.digest.hex()}"


def _contents(records: Sequence[DroppedRecord]) -> tuple[str, ...]:
    """Return a digest of each record, so that a part of what was accepted is told from others; of many one digest."""
    lines = sorted(map(_content, records))
    return tuple(digest_of_lines([line]) for line in lines) if len(lines) <= SAMPLES else (digest_of_lines(lines),)


def _digest(payload: bytes) -> bytes:
    return blake2b(payload, digest_size=_DIGEST_BYTES).digest()


def _first_copies(
    writable: Sequence[UnresolvedRecords], fates: Mapping[Original, Fate]
) -> dict[Event | None, tuple[str, Position]]:
    """Return, for each event that is missing, the segment and position of its first copy: by arrival."""
    first: dict[Event | None, tuple[int, str, Position, str]] = {}
    for segment, records, _ in writable:
        for record in records:
            if record.conflict is None and (record.original is None or fates[record.original] != "missing"):
                continue
            rank = (record.arrival_ms, segment.metadata.shard_id, record.position, segment.key)
            first[record.event] = min(first.get(record.event, rank), rank)
    return {event: (key, position) for event, (_, _, position, key) in first.items()}


def _key(prefix: str, segment: ArchivedSegment) -> str:
    metadata = segment.metadata
    slot = (metadata.shard_id, metadata.minute, metadata.first, metadata.writer)
    return duplicates_key(prefix, *slot, compression_of(segment.key))


def _read(storage: RetryingStorage, prefix: str, segment: ArchivedSegment) -> list[DroppedRecord] | Finding:
    metadata = segment.metadata
    key = _key(prefix, segment)

    def lacking(message: str, kept: Iterable[Position]) -> Finding:
        contents = (digest_of_lines(["kept", *map(str, kept)]),)
        return segment_finding(
            Code.DROPPED_WITHOUT_ORIGINAL, segment, message, count=metadata.dropped, contents=contents
        )

    stored = storage.get(key)
    if stored is None:
        return lacking(f"the {metadata.dropped} records that were dropped are not kept: {key} is missing", ())
    try:
        dropped = [_dropped(line) for line in inflate([stored.body], compression_of(key))]
    except FormatError as exc:
        message, contents = f"{key} cannot be read: {exc}", (content_digest({}, [stored.body]),)
        return segment_finding(Code.UNREADABLE_OBJECT, segment, message, count=metadata.dropped, contents=contents)
    inside = [copy for copy in dropped if copy.position in metadata.span]
    positions = {copy.position for copy in inside}
    if len(positions) != metadata.dropped:
        return lacking(f"{key} keeps {len(positions)} of {metadata.dropped} dropped records", positions)
    return inside


def _dropped(line: bytes) -> DroppedRecord:
    _, record, duplicate_of = decode_dropped_line(line)
    original = original_of(duplicate_of)
    return DroppedRecord(record.position, original, record.arrival_ms, duplicate_of, _digest(record.data))


def _judge(
    segment: ArchivedSegment,
    dropped: Sequence[DroppedRecord],
    fates: Mapping[Original, Fate],
    chosen: Mapping[Event | None, tuple[str, Position]],
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
            contents=_contents(records),
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
    return [*findings, *_conflict_findings(segment, dropped, chosen)]


def _conflict_findings(
    segment: ArchivedSegment,
    dropped: Sequence[DroppedRecord],
    chosen: Mapping[Event | None, tuple[str, Position]],
) -> list[Finding]:
    """Return a warning for records that were dropped by a number which a record with another payload has."""
    conflicts = [record for record in dropped if record.conflict is not None]
    if not conflicts:
        return []
    message = (
        "these records were dropped by a producer's number that an earlier record with another payload has; "
        f"the first by that of {segment.metadata.shard_id}/{conflicts[0].conflict}"
    )
    repaired = all(record.event in chosen for record in conflicts)
    if repaired:
        message += "; the first copy of each is brought back into the Parquet files"
    found = segment_finding(
        Code.ID_CONFLICT,
        segment,
        message,
        positions=[record.position for record in conflicts],
        count=len(conflicts),
        repaired=repaired,
    )
    return [msgspec.structs.replace(found, severity="warning")]
