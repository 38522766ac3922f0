"""Read a bucket back as an auditor would: every segment, its chain, every record.

Independent of the consumer: only keys, metadata and bodies are looked at.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from archive.format.keys import parse_segment_key
from archive.format.metadata import ChainStart, SegmentMetadata
from archive.format.minute import minute_of
from archive.format.position import Position
from archive.format.record import Record
from archive.format.segment import read_records
from tests.fakes.memory_store import MemoryBucket
from tests.fakes.shard import UserRecord


class Segment(NamedTuple):
    """One stored segment, decoded."""

    key: str
    metadata: SegmentMetadata
    records: list[tuple[Position, Record]]


def segments(bucket: MemoryBucket, prefix: str, shard_id: str) -> list[Segment]:
    """Return the segments of one shard in the order of their spans."""
    found = []
    for key in bucket.keys(prefix):
        if key.endswith(".jsonl.gz") and not key.startswith(f"{prefix}_"):
            parsed = parse_segment_key(prefix, key)
            if parsed.shard_id == shard_id:
                metadata = SegmentMetadata.decode(bucket.metadata(key))
                assert (parsed.minute, parsed.first) == (metadata.minute, metadata.first)
                found.append(Segment(key, metadata, list(read_records(bucket.body(key), shard_id))))
    return sorted(found, key=lambda segment: segment.metadata.span)


def check_chain(chain: Sequence[Segment]) -> None:
    """Assert that spans are disjoint, that no link is broken, and that metadata tells the truth about the body."""
    for before, segment in zip([None, *chain], chain, strict=False):
        metadata = segment.metadata
        if before is None:
            assert isinstance(metadata.after, ChainStart), f"the chain begins with a link: {metadata.after}"
        else:
            assert before.metadata.last < metadata.first, f"{before.key} and {segment.key} overlap"
            assert metadata.after == before.metadata.last, f"{segment.key} follows {metadata.after}"
        positions = [position for position, _ in segment.records]
        arrivals = [record.arrival_ms for _, record in segment.records]
        if not metadata.dropped:  # else the ends of the span may be duplicates that were left out
            assert (positions[0], positions[-1]) == metadata.span
            assert (min(arrivals), max(arrivals)) == (metadata.arrival_min_ms, metadata.arrival_max_ms)
        assert (len(positions), sum(len(record.data) for _, record in segment.records)) == (
            metadata.records,
            metadata.payload_bytes,
        )
        assert {minute_of(arrival) for arrival in arrivals} <= {metadata.minute}


def check_holds(chain: Sequence[Segment], expected: Iterable[UserRecord]) -> None:
    """Assert that the chain holds these records, each exactly once, in order and byte for byte."""
    archived = [
        UserRecord(position, record.arrival_ms, record.partition_key, record.data)
        for segment in chain
        for position, record in segment.records
    ]
    assert archived == list(expected)
