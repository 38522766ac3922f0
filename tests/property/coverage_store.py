"""The archive of a history of coverage as objects in a bucket, and what is read of it there."""

import random

from minutebook.coverage.evidence import EvidenceLink
from minutebook.coverage.topology import ShardRow, ShardSources
from minutebook.format.coverage_markers import (
    FirstShard,
    FirstShards,
    OpenedMarker,
    encode_coverage_marker,
    first_shards_key,
    opened_marker_key,
    skipped_key,
)
from minutebook.format.document import FORMAT
from minutebook.format.keys import end_marker_key, segment_key, start_marker_key
from minutebook.format.markers import EndMarker, StartMarker, encode_marker
from minutebook.format.metadata import SegmentMetadata
from minutebook.format.minute import MINUTE_MS
from minutebook.format.read_mark import encode_read_mark, mark_days, read_mark_key
from minutebook.proof.evidence_set import ProofQuery
from minutebook.proof.reading import JudgedScope, judge_archive
from minutebook.proof.sources import Stream
from minutebook.retry import Backoff
from minutebook.store.retrying import RetryingStore
from tests.fakes.clock import ManualClock
from tests.fakes.memory_store import MemoryBucket, MemoryStore
from tests.property.coverage_archive import ShardArchive
from tests.property.coverage_audit import Audit
from tests.property.coverage_history import History
from tests.property.coverage_stream import StreamShard

PREFIX = "raw/"


class StoredHistory:
    """What a history left in S3 by a time, beside what one audit of it was told of the stream."""

    def __init__(self, history: History, time: int, sources: ShardSources) -> None:
        self._time = time
        self._sources = sources
        self._begin = history.begin
        self._clock = ManualClock(0)
        self.bucket = MemoryBucket(self._clock)
        for shard_id, archive in history.archives.items():
            self._write(history.stream.shards[shard_id], archive)
        if sources.first is not None:
            rows = [
                FirstShard(shard=row.shard_id, **_keys(row), parents=sorted(row.parents)) for row in sources.first
            ]
            marker = FirstShards(format=FORMAT, shards=rows, writer="w", written_at="")
            self._put(first_shards_key(PREFIX), encode_coverage_marker(marker), history.begin)

    def judge(self, audit: Audit, number: int) -> JudgedScope | None:
        """Judge a day as the product does, by what lies in the bucket; None: it has no scope."""
        scope = audit.scope_of(number)
        if scope is None:
            return None
        clock = ManualClock(self._time)
        store = RetryingStore(MemoryStore(self.bucket), lambda: Backoff(clock, random.Random(1), budget_seconds=5))
        stream = Stream(self._sources.listed, self._sources.closed)
        return judge_archive(store, PREFIX, ProofQuery(scope, self._begin, self._time, stream))

    def _write(self, shard: StreamShard, archive: ShardArchive) -> None:
        stored = [segment for segment in archive.segments if segment.stored <= self._time]
        if stored:
            self._put(start_marker_key(PREFIX, shard.shard_id), encode_marker(_start(shard, stored[0].link)), 0)
        for number, segment in enumerate(stored):
            metadata = _metadata(shard.shard_id, segment.link, number)
            key = segment_key(PREFIX, shard.shard_id, metadata.minute, metadata.first)
            self._put(key, b"", segment.stored, metadata.encode())
        for mark, put in archive.marks:
            for day in mark_days(mark) if put <= self._time else ():
                self._put(read_mark_key(PREFIX, day, mark), encode_read_mark(mark), put)
        for logged, put in archive.skips:
            if put <= self._time:
                self._put(skipped_key(PREFIX, shard.shard_id, logged, f"w{put}"), b"{}", put)
        if archive.opened is not None and archive.opened <= self._time:
            marker = encode_coverage_marker(_opened(shard))
            self._put(opened_marker_key(PREFIX, shard.shard_id), marker, archive.opened)
        if archive.ended is not None and archive.ended <= self._time:
            end = _end(shard.shard_id, stored[-1].link if stored else None, archive.end_children)
            self._put(end_marker_key(PREFIX, shard.shard_id), encode_marker(end), archive.ended)

    def _put(self, key: str, body: bytes, stored: int, fields: dict[str, str] | None = None) -> None:
        self._clock.jump_wall((stored - self._clock.now_ms()) / 1000)
        self.bucket.place(key, body, fields)


def _keys(row: ShardRow) -> dict[str, str]:
    assert row.hash_range is not None
    return {"starting_hash_key": str(row.hash_range.first), "ending_hash_key": str(row.hash_range.last)}


def _row(shard: StreamShard) -> ShardRow:
    return ShardRow(shard.shard_id, shard.keys, frozenset(shard.parents))


def _opened(shard: StreamShard) -> OpenedMarker:
    return OpenedMarker(
        format=FORMAT,
        shard=shard.shard_id,
        sentinel="TRIM_HORIZON",
        **_keys(_row(shard)),
        parents=list(shard.parents),
        writer="w",
        opened_at="",
    )


def _start(shard: StreamShard, link: EvidenceLink) -> StartMarker:
    return StartMarker(
        format=FORMAT,
        shard=shard.shard_id,
        sentinel="TRIM_HORIZON",
        first=str(link.first),
        **_keys(_row(shard)),
        parents=list(shard.parents),
        writer="w",
        written_at="",
    )


def _end(shard_id: str, tail: EvidenceLink | None, children: tuple[str, ...]) -> EndMarker:
    last = None if tail is None else str(tail.last)
    return EndMarker(
        format=FORMAT, shard=shard_id, last=last, children=list(children), proof="read", writer="w", written_at=""
    )


def _metadata(shard_id: str, link: EvidenceLink, number: int) -> SegmentMetadata:
    return SegmentMetadata(
        shard_id=shard_id,
        minute=link.until_ms // MINUTE_MS + 1,
        first=link.first,
        last=link.last,
        after=link.after,
        records=1,
        dropped=0,
        payload_bytes=1,
        arrival_min_ms=link.arrival_min_ms,
        arrival_max_ms=link.arrival_min_ms,
        writer=f"{link.run}-{number}",
        continuity=link.claim,
        evidence_ms=link.from_ms if link.claim == "proven" else None,
    )
