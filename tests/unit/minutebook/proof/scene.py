"""An archive of one shard, for the tests of what is read of it."""

import random

from minutebook.coverage.intervals import Interval
from minutebook.format.coverage_markers import (
    FirstShard,
    FirstShards,
    encode_coverage_marker,
    first_shards_key,
)
from minutebook.format.day import Day
from minutebook.format.document import FORMAT
from minutebook.format.keys import segment_key, start_marker_key
from minutebook.format.markers import StartMarker, encode_marker
from minutebook.format.metadata import ChainStart, Continuity, SegmentMetadata
from minutebook.format.minute import MINUTE_MS
from minutebook.format.position import Position
from minutebook.format.read_mark import MarkKind, ReadMark, encode_read_mark, mark_days, read_mark_key
from minutebook.proof.evidence_set import ProofQuery
from minutebook.proof.reading import JudgedScope, judge_archive
from minutebook.retry import Backoff
from minutebook.store.retrying import RetryingStore
from tests.fakes.clock import ManualClock
from tests.fakes.memory_store import MemoryBucket, MemoryStore

PREFIX, SHARD = "raw/", "shardId-000000000000"
DAY = Day.parse("2026-11-20")
HOUR_MS = 60 * MINUTE_MS
LAST_KEY = str((1 << 128) - 1)


class Bucket:
    """An archive of one shard, begun ten days before the day; times are hours of the day."""

    def __init__(self, begin_hour: float = -240) -> None:
        self.begin_ms = self.at(begin_hour)
        self.clock = ManualClock(self.begin_ms)
        self.bucket = MemoryBucket(self.clock)
        self.store = MemoryStore(self.bucket)
        self.retrying = RetryingStore(self.store, lambda: Backoff(self.clock, random.Random(1), budget_seconds=5))
        row = FirstShard(shard=SHARD, starting_hash_key="0", ending_hash_key=LAST_KEY)
        first = FirstShards(format=FORMAT, shards=[row], writer="w", written_at="")
        self.put(first_shards_key(PREFIX), encode_coverage_marker(first))
        self.number = 0

    @staticmethod
    def at(hour: float) -> int:
        """Return a time."""
        return DAY.begin_ms + round(hour * HOUR_MS)

    def put(self, key: str, body: bytes, fields: dict[str, str] | None = None) -> None:
        """Put an object."""
        self.bucket.place(key, body, fields)

    def segment(self, hour: float, *, since: float | None = None, put: bool = True, doubts: int | None = None) -> str:
        """Append a segment of one record, proven from a time; the first one from the beginning.

        `doubts`: it follows this one instead of the one before it, and says that it proves nothing.
        """
        self.number += 1
        minute = self.at(hour) // MINUTE_MS
        if self.number == 1:
            self._begin()
            since_ms: int | None = self.begin_ms
        else:
            since_ms = None if since is None else self.at(since)
        metadata = SegmentMetadata(
            shard_id=SHARD,
            minute=minute,
            first=Position(self.number),
            last=Position(self.number),
            after=ChainStart("AT_TIMESTAMP") if self.number == 1 else Position(doubts or self.number - 1),
            records=1,
            dropped=0,
            payload_bytes=1,
            arrival_min_ms=minute * MINUTE_MS,
            arrival_max_ms=minute * MINUTE_MS,
            writer=f"run-{self.number}",
            continuity=Continuity.UNPROVEN if doubts else None if since_ms is None else Continuity.PROVEN,
            evidence_ms=since_ms,
        )
        key = segment_key(PREFIX, SHARD, minute, metadata.first)
        if put:
            self.put(key, b"", metadata.encode())
        return key

    def mark(
        self,
        since: float,
        until: float,
        number: int | None = 0,
        continuity: Continuity = Continuity.PROVEN,
        kind: MarkKind = MarkKind.READ,
    ) -> None:
        """Put a read mark at the last segment, or another one; or the proof of the shard's end."""
        number = self.number if number == 0 else number
        position = None if number is None else Position(number)
        mark = ReadMark(SHARD, kind, continuity, self.at(since), self.at(until), position, f"w{until}")
        for day in mark_days(mark):
            self.put(read_mark_key(PREFIX, day, mark), encode_read_mark(mark))

    def judge(self, now: float = 48, scope: Interval | None = None) -> JudgedScope:
        """Judge the day."""
        scope = scope or Interval(DAY.begin_ms, DAY.end_ms)
        return judge_archive(self.retrying, PREFIX, ProofQuery(scope, self.begin_ms, self.at(now)))

    def _begin(self) -> None:
        marker = StartMarker(
            format=FORMAT,
            shard=SHARD,
            sentinel="AT_TIMESTAMP",
            first="1:0",
            starting_hash_key="0",
            ending_hash_key=LAST_KEY,
            parents=[],
            writer="w",
            written_at="",
        )
        self.put(start_marker_key(PREFIX, SHARD), encode_marker(marker))
