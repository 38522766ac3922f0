"""Reading the archive back with its own code, and comparing it with the ledger.

Nothing here trusts the consumer: every object under the prefix is read, every line decoded, every metadata
field checked against the body, and every link of every chain followed.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from demo.ledger import RecordRef, fingerprint
from minutebook.compression import Compression
from minutebook.errors import FormatError, ObjectVanished
from minutebook.format.keys import duplicates_key, parse_segment_key
from minutebook.format.metadata import ChainStart, SegmentMetadata
from minutebook.format.minute import minute_of
from minutebook.format.position import Position
from minutebook.format.record import Record
from minutebook.format.segment import read_dropped, read_records
from minutebook.store.commit import segment_metadata
from minutebook.store.objects import ListedObject, ObjectHead, ObjectStore


class StoredRecord(NamedTuple):
    """One line: which record, fingerprint of key and payload, arrival; a producer duplicate also says of what."""

    ref: RecordRef
    digest: bytes
    arrival_ms: int
    duplicate_of: str = ""


class StoredSegment(NamedTuple):
    """One object of the archive: key, metadata, its records, and the producer duplicates that it left out."""

    key: str
    metadata: SegmentMetadata
    records: Sequence[StoredRecord]
    dropped: Sequence[StoredRecord]
    stored_at_ms: int


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The archive against the ledger. Records are listed, so that a failure can be looked at.

    A record is accounted for by a line of a segment, or by a producer duplicate that a segment left out.
    `lost`: acknowledged and in neither. `duplicated`: accounted for more than once. `altered`: with other bytes.
    `unknown`: never acknowledged. `broken`: what is wrong with objects and chains, in words.
    """

    sent: int
    archived: int
    lost: list[RecordRef] = field(default_factory=list)
    duplicated: list[RecordRef] = field(default_factory=list)
    altered: list[RecordRef] = field(default_factory=list)
    unknown: list[RecordRef] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """Tell whether each acknowledged record is archived exactly once, byte for byte, in whole chains."""
        return not (self.lost or self.duplicated or self.altered or self.unknown or self.broken)


def count_archived(store: ObjectStore, prefix: str, known: dict[str, int]) -> int:
    """Return the number of records that segments account for; `known` remembers keys already asked for.

    By metadata alone; producer duplicates that were left out count.
    """
    for row in store.list_objects(prefix):
        if _is_segment(prefix, row.key) and row.key not in known:
            head = store.head(row.key)
            if head is not None:
                metadata = segment_metadata(head)
                known[row.key] = metadata.records + metadata.dropped
    return sum(known.values())


def read_archive(store: ObjectStore, prefix: str) -> list[StoredSegment]:
    """Read every segment under `prefix` and its dropped duplicates, in the order of keys.

    Raises:
        FormatError, ForeignObject: an object is not what its key says.
        ObjectVanished: an object was listed and is gone.
    """
    rows = [row for row in store.list_objects(prefix) if _is_segment(prefix, row.key)]
    return [_read_segment(store, prefix, row) for row in rows]


def compare(segments: Sequence[StoredSegment], ledger: Mapping[RecordRef, bytes]) -> Verdict:
    """Compare the archive with the ledger."""
    records = [record for segment in segments for record in (*segment.records, *segment.dropped)]
    chains = [segment.metadata for segment in segments]
    times = Counter(record.ref for record in records)
    return Verdict(
        sent=len(ledger),
        archived=len(times),
        lost=sorted(ledger.keys() - times.keys()),
        duplicated=sorted(ref for ref, count in times.items() if count > 1),
        altered=sorted({record.ref for record in records if ledger.get(record.ref, record.digest) != record.digest}),
        unknown=sorted(times.keys() - ledger.keys()),
        broken=[*broken_links(chains), *doubtful_links(chains)],
    )


def broken_links(segments: Iterable[SegmentMetadata]) -> list[str]:
    """Follow each shard's chain; return what is wrong, in words."""
    chains: dict[str, list[SegmentMetadata]] = {}
    for metadata in segments:
        chains.setdefault(metadata.shard_id, []).append(metadata)
    wrong: list[str] = []
    for shard_id, chain in sorted(chains.items()):
        previous: Position | None = None
        for metadata in sorted(chain, key=lambda segment: segment.first):
            expected = str(previous) if previous is not None else "the start of the chain"
            starts = isinstance(metadata.after, ChainStart)
            if metadata.after != previous and not (previous is None and starts):
                wrong.append(f"{shard_id} {metadata.first}: follows {metadata.after}, expected {expected}")
            previous = metadata.last
    return wrong


def doubtful_links(segments: Iterable[SegmentMetadata]) -> list[str]:
    """Return the links that their writer could not prove, in words."""
    return [
        f"{metadata.shard_id} {metadata.first}: continuity {metadata.continuity}"
        for metadata in segments
        if metadata.is_doubtful
    ]


def _is_segment(prefix: str, key: str) -> bool:
    """Tell segments from markers, whose names begin with an underscore."""
    return not key.removeprefix(prefix).startswith("_")


def _read_segment(store: ObjectStore, prefix: str, row: ListedObject) -> StoredSegment:
    key = row.key
    parsed = parse_segment_key(prefix, key)
    stored = store.get(key)
    if stored is None:
        raise ObjectVanished(f"{key} was listed and is gone")
    metadata = segment_metadata(ObjectHead(key, len(stored.body), stored.etag, stored.metadata, 0))
    if (parsed.shard_id, parsed.minute, parsed.first) != (metadata.shard_id, metadata.minute, metadata.first):
        raise FormatError(f"{key}: key and metadata disagree")
    records = list(read_records(stored.body, parsed.shard_id, parsed.compression))
    dropped = _read_dropped(store, prefix, metadata, parsed.compression)
    _check_bodies(key, metadata, records, dropped)
    return StoredSegment(
        key,
        metadata,
        [_record(metadata.shard_id, record) for _, record in records],
        [_record(metadata.shard_id, record, duplicate_of) for _, record, duplicate_of in dropped],
        row.last_modified_ms,
    )


def _record(shard_id: str, record: Record, duplicate_of: str = "") -> StoredRecord:
    digest = fingerprint(record.partition_key, record.data)
    return StoredRecord(RecordRef(shard_id, record.position), digest, record.arrival_ms, duplicate_of)


def _read_dropped(
    store: ObjectStore, prefix: str, metadata: SegmentMetadata, compression: Compression
) -> list[tuple[Position, Record, str]]:
    """Read what the segment's own writer left out; objects of writers that lost the slot do not count."""
    slot = (metadata.shard_id, metadata.minute, metadata.first, metadata.writer)
    key = duplicates_key(prefix, *slot, compression)
    stored = store.get(key)
    if stored is None:
        return []
    return list(read_dropped(stored.body, metadata.shard_id, compression))


def _check_bodies(
    key: str,
    metadata: SegmentMetadata,
    records: Sequence[tuple[Position, Record]],
    dropped: Sequence[tuple[Position, Record, str]],
) -> None:
    """Raise FormatError when the two bodies are not what the metadata says."""
    payload_bytes = sum(len(record.data) for _, record in records)
    if (len(records), payload_bytes) != (metadata.records, metadata.payload_bytes):
        raise FormatError(f"{key}: {len(records)} lines, {payload_bytes} bytes; the metadata says otherwise")
    if len(dropped) != metadata.dropped:
        raise FormatError(f"{key}: {len(dropped)} dropped duplicates are kept; the metadata says {metadata.dropped}")
    positions = sorted([position for position, _ in records] + [position for position, _, _ in dropped])
    if not positions or (positions[0], positions[-1]) != (metadata.first, metadata.last):
        raise FormatError(f"{key}: the ends of the bodies are not the ends of the span")
    arrivals = [record.arrival_ms for _, record in records] + [record.arrival_ms for _, record, _ in dropped]
    if {minute_of(arrival_ms) for arrival_ms in arrivals} != {metadata.minute}:
        raise FormatError(f"{key} holds records of another minute")
    if (min(arrivals), max(arrivals)) != (metadata.arrival_min_ms, metadata.arrival_max_ms):
        raise FormatError(f"{key}: the arrival times are not those of the metadata")
