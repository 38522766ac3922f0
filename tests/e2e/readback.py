"""Reading the archive back, object by object and line by line, and comparing it with the ledger.

Independent of the consumer: it trusts no metadata that it has not checked against the body, and follows each chain.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from archive.format.keys import parse_segment_key
from archive.format.metadata import ChainStart, Continuity, SegmentMetadata
from archive.format.minute import minute_of
from archive.format.position import Position
from archive.format.segment import read_records
from archive.store.commit import segment_metadata
from archive.store.objects import ObjectHead, ObjectStore
from tests.e2e.ledger import Place, Sent


class Segment(NamedTuple):
    """One object: its key, ETag, metadata and records."""

    key: str
    etag: str
    metadata: SegmentMetadata
    records: dict[Position, Sent]


@dataclass(frozen=True)
class Verdict:
    """The archive against the ledger; everything but the counts is empty when the promises hold."""

    sent: int
    archived: int
    lost: list[Place] = field(default_factory=list)
    duplicated: list[Place] = field(default_factory=list)
    altered: list[Place] = field(default_factory=list)
    never_sent: list[Place] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    def assert_exactly_once(self) -> None:
        """Fail unless each acknowledged record is archived once, byte for byte, in whole chains."""
        wrong = {
            name: [str(one) for one in found[:5]]
            for name in ("lost", "duplicated", "altered", "never_sent", "broken")
            if (found := getattr(self, name))
        }
        assert not wrong, f"{wrong} ({self.sent} sent, {self.archived} archived)"


def read_segments(store: ObjectStore, prefix: str) -> list[Segment]:
    """Read every segment under `prefix`; fails on an object whose key, metadata and body disagree."""
    return [
        _read_segment(store, prefix, row.key)
        for row in store.list_objects(prefix)
        if not row.key.removeprefix(prefix).startswith("_")
    ]


def compare(segments: list[Segment], ledger: Mapping[Place, Sent]) -> Verdict:
    """Compare what is archived with what was acknowledged."""
    archived: dict[Place, Sent] = {}
    duplicated: list[Place] = []
    for segment in segments:
        for position, record in segment.records.items():
            place = Place(segment.metadata.shard_id, position)
            if place in archived:
                duplicated.append(place)
            archived[place] = record
    both = archived.keys() & ledger.keys()
    return Verdict(
        sent=len(ledger),
        archived=len(archived),
        lost=sorted(ledger.keys() - archived.keys()),
        duplicated=sorted(duplicated),
        altered=sorted(place for place in both if archived[place] != ledger[place]),
        never_sent=sorted(archived.keys() - ledger.keys()),
        broken=broken_links([segment.metadata for segment in segments]),
    )


def broken_links(segments: list[SegmentMetadata]) -> list[str]:
    """Follow each shard's chain: the spans are disjoint and each `after` is the `last` before it."""
    wrong: list[str] = []
    for shard_id in sorted({segment.shard_id for segment in segments}):
        chain = sorted((one for one in segments if one.shard_id == shard_id), key=lambda one: one.first)
        if not isinstance(chain[0].after, ChainStart):
            wrong.append(f"{shard_id} begins after {chain[0].after}: its first segment is missing")
        for before, one in itertools.pairwise(chain):
            if one.first <= before.last:
                wrong.append(f"{shard_id}: {one.span} overlaps {before.span}")
            if one.after != before.last:
                wrong.append(f"{shard_id}: {one.span} comes after {one.after}, and {before.last} stands before it")
        wrong += [
            f"{shard_id} {one.first}: continuity {one.continuity}"
            for one in chain
            if one.continuity is not Continuity.PROVEN
        ]
    return wrong


def _read_segment(store: ObjectStore, prefix: str, key: str) -> Segment:
    parsed = parse_segment_key(prefix, key)
    stored = store.get(key)
    assert stored is not None, f"{key} was listed and is gone"
    metadata = segment_metadata(ObjectHead(key, len(stored.body), stored.etag, stored.metadata, 0))
    assert (parsed.shard_id, parsed.minute, parsed.first) == (metadata.shard_id, metadata.minute, metadata.first), key
    lines = list(read_records(stored.body, parsed.shard_id))
    assert (lines[0][0], lines[-1][0]) == (metadata.first, metadata.last), f"{key}: the ends of the span"
    assert len(lines) == metadata.records, f"{key}: the number of lines"
    assert sum(len(record.data) for _, record in lines) == metadata.payload_bytes, f"{key}: the payload bytes"
    assert {minute_of(record.arrival_ms) for _, record in lines} == {parsed.minute}, f"{key}: the minute"
    records = {position: Sent(record.partition_key, record.data) for position, record in lines}
    return Segment(key, stored.etag, metadata, records)
