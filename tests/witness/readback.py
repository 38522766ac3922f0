"""The archive read back by the demo's own reader, which trusts nothing but bytes, and what must be true of it."""

from collections.abc import Iterable, Mapping, Sequence

from demo.ledger import RecordRef, fingerprint
from demo.readback import StoredSegment, Verdict, broken_links, read_archive
from minutebook.format.position import Position
from minutebook.store.objects import ObjectStore
from tests.fakes.shard import UserRecord


def read_shard(store: ObjectStore, prefix: str, shard_id: str) -> list[StoredSegment]:
    """Return the segments of one shard in the order of their spans, each checked against its key and its body."""
    found = [segment for segment in read_archive(store, prefix) if segment.metadata.shard_id == shard_id]
    return sorted(found, key=lambda segment: segment.metadata.span)


def check_chain(chain: Sequence[StoredSegment]) -> None:
    """Assert that spans are disjoint and no link is broken; whether continuity is proven is another question."""
    assert broken_links(segment.metadata for segment in chain) == []


def check_holds(chain: Sequence[StoredSegment], expected: Iterable[UserRecord]) -> None:
    """Assert that the chain holds these records, each exactly once, in order and byte for byte."""
    archived = [
        (record.ref.position, record.arrival_ms, record.digest) for segment in chain for record in segment.records
    ]
    assert archived == [
        (record.position, record.arrival_ms, fingerprint(record.partition_key, record.data)) for record in expected
    ]


def positions(segments: Iterable[StoredSegment]) -> list[Position]:
    """Return the positions of the lines, in the order of the segments."""
    return [record.ref.position for segment in segments for record in segment.records]


def fingerprints(shard_id: str, records: Iterable[UserRecord]) -> Mapping[RecordRef, bytes]:
    """Return a shard's records as a ledger."""
    return {
        RecordRef(shard_id, record.position): fingerprint(record.partition_key, record.data) for record in records
    }


def assert_exactly_once(verdict: Verdict) -> None:
    """Fail unless each acknowledged record is archived once, byte for byte, in whole chains."""
    wrong = {
        name: [str(sample) for sample in found[:5]]
        for name in ("lost", "duplicated", "altered", "unknown", "broken")
        if (found := getattr(verdict, name))
    }
    assert not wrong, f"{wrong} ({verdict.sent} sent, {verdict.archived} archived)"
