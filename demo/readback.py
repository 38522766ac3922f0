"""Reading the archive back with its own code, and comparing it with the ledger.

Nothing here trusts the consumer: every object under the prefix is read, every line decoded, every metadata
field checked against the body, and every link of every chain followed.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from archive.commit import segment_metadata
from archive.errors import FormatError, ObjectVanished
from archive.keys import parse_segment_key
from archive.metadata import ChainStart, SegmentMetadata
from archive.minute import minute_of
from archive.position import Position
from archive.record import Record
from archive.segment import read_records
from archive.store import ObjectHead, ObjectStore
from demo.ledger import Place, fingerprint


class StoredSegment(NamedTuple):
    """One object of the archive: key, metadata, and its records as (place, fingerprint)."""

    key: str
    metadata: SegmentMetadata
    records: Sequence[tuple[Place, bytes]]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The archive against the ledger. Places are listed, so that a failure can be looked at.

    `lost`: acknowledged and not archived. `duplicated`: archived more than once. `altered`: archived with other
    bytes. `unknown`: archived and never acknowledged. `broken`: what is wrong with objects and chains, in words.
    """

    sent: int
    archived: int
    lost: list[Place] = field(default_factory=list)
    duplicated: list[Place] = field(default_factory=list)
    altered: list[Place] = field(default_factory=list)
    unknown: list[Place] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """Tell whether each acknowledged record is archived exactly once, byte for byte, in whole chains."""
        return not (self.lost or self.duplicated or self.altered or self.unknown or self.broken)


def count_archived(store: ObjectStore, prefix: str, known: dict[str, int]) -> int:
    """Return the number of archived records, by metadata alone; `known` remembers keys already asked for."""
    for row in store.list_objects(prefix):
        if _is_segment(prefix, row.key) and row.key not in known:
            head = store.head(row.key)
            if head is not None:
                known[row.key] = segment_metadata(head).records
    return sum(known.values())


def read_archive(store: ObjectStore, prefix: str) -> list[StoredSegment]:
    """Read every segment under `prefix`, in the order of keys.

    Raises:
        FormatError, ForeignObject: an object is not what its key says.
        ObjectVanished: an object was listed and is gone.
    """
    keys = [row.key for row in store.list_objects(prefix) if _is_segment(prefix, row.key)]
    return [_read_segment(store, prefix, key) for key in keys]


def compare(segments: Sequence[StoredSegment], ledger: Mapping[Place, bytes]) -> Verdict:
    """Compare the archive with the ledger."""
    records = [record for segment in segments for record in segment.records]
    times = Counter(place for place, _ in records)
    return Verdict(
        sent=len(ledger),
        archived=len(times),
        lost=sorted(ledger.keys() - times.keys()),
        duplicated=sorted(place for place, count in times.items() if count > 1),
        altered=sorted({place for place, digest in records if place in ledger and ledger[place] != digest}),
        unknown=sorted(times.keys() - ledger.keys()),
        broken=broken_links(segment.metadata for segment in segments),
    )


def broken_links(segments: Iterable[SegmentMetadata]) -> list[str]:
    """Follow each shard's chain; return what is wrong, in words."""
    chains: dict[str, list[SegmentMetadata]] = {}
    for metadata in segments:
        chains.setdefault(metadata.shard_id, []).append(metadata)
    wrong: list[str] = []
    for shard_id, chain in sorted(chains.items()):
        previous: Position | None = None
        for metadata in sorted(chain, key=lambda one: one.first):
            expected = str(previous) if previous is not None else "the start of the chain"
            starts = isinstance(metadata.after, ChainStart)
            if metadata.after != previous and not (previous is None and starts):
                wrong.append(f"{shard_id} {metadata.first}: follows {metadata.after}, expected {expected}")
            if metadata.continuity is not None:
                wrong.append(f"{shard_id} {metadata.first}: continuity {metadata.continuity}")
            previous = metadata.last
    return wrong


def _is_segment(prefix: str, key: str) -> bool:
    """Tell segments from markers, whose names begin with an underscore."""
    return not key.removeprefix(prefix).startswith("_")


def _read_segment(store: ObjectStore, prefix: str, key: str) -> StoredSegment:
    parsed = parse_segment_key(prefix, key)
    stored = store.get(key)
    if stored is None:
        raise ObjectVanished(f"{key} was listed and is gone")
    metadata = segment_metadata(ObjectHead(key, len(stored.body), stored.etag, stored.metadata, 0))
    records = list(read_records(stored.body, parsed.shard_id))
    if (parsed.shard_id, parsed.minute, parsed.first) != (metadata.shard_id, metadata.minute, metadata.first):
        raise FormatError(f"{key}: key and metadata disagree")
    _check_body(key, metadata, records)
    return StoredSegment(
        key, metadata, [(Place(parsed.shard_id, position), fingerprint(record.data)) for position, record in records]
    )


def _check_body(key: str, metadata: SegmentMetadata, records: Sequence[tuple[Position, Record]]) -> None:
    """Raise FormatError when the body is not what the metadata says; the demo drops no producer duplicates."""
    payload_bytes = sum(len(record.data) for _, record in records)
    if (len(records), payload_bytes) != (metadata.records, metadata.payload_bytes):
        raise FormatError(f"{key}: {len(records)} lines, {payload_bytes} bytes; the metadata says otherwise")
    if records and (records[0][0], records[-1][0]) != (metadata.first, metadata.last):
        raise FormatError(f"{key}: the ends of the body are not the ends of the span")
    if {minute_of(record.arrival_ms) for _, record in records} - {metadata.minute}:
        raise FormatError(f"{key} holds records of another minute")
