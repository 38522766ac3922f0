"""An archive as processors leave it: the application's record, chains of segments, and markers, in any store.

A chain is whole and tells the truth unless a test asks for something else: each segment names the one before it, and
its metadata are those of its body.
"""

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

import msgspec

from consumer.stream.port import StreamIdentity
from minutebook.compression import Compression
from minutebook.coverage.evidence import SURELY_HELD_MS, segment_link
from minutebook.format.aggregate import LAST_HASH_KEY
from minutebook.format.coverage_markers import (
    FirstShard,
    FirstShards,
    OpenedMarker,
    encode_coverage_marker,
    first_shards_key,
    opened_marker_key,
)
from minutebook.format.document import FORMAT
from minutebook.format.keys import application_key, duplicates_key, end_marker_key, segment_key, start_marker_key
from minutebook.format.markers import JSON_TYPE, ApplicationRecord, EndMarker, StartMarker, encode_marker
from minutebook.format.metadata import ChainStart, Continuity, Predecessor, SegmentMetadata
from minutebook.format.minute import MINUTE_MS
from minutebook.format.position import Position
from minutebook.format.read_mark import MarkKind, ReadMark, encode_read_mark, mark_days, read_mark_key
from minutebook.format.record import Record
from minutebook.format.segment import SegmentWriter
from minutebook.retry import Backoff
from minutebook.store.objects import ObjectStore, PutOutcome
from minutebook.store.retrying import RetryingStore
from tests.fakes.clock import START_MS, ManualClock
from tests.fakes.memory_store import MemoryBucket, MemoryStore
from tests.fakes.shard import FakeShard
from tests.fakes.stream import FakeStream

PREFIX = "raw/"
CHAIN_START = ChainStart("TRIM_HORIZON")
Store = TypeVar("Store", bound=ObjectStore)
BEGUN_AT = "2026-01-01T00:00:00.000Z"
"""When markers say that they were written, unless told."""


class Stored(NamedTuple):
    """One segment that was written: where it lies and what it says about itself."""

    key: str
    metadata: SegmentMetadata


APPLICATION = "app"
"""Who begins an archive unless told."""


class ArchiveScene(Generic[Store]):
    """Writes an archive into `store`, below `prefix`."""

    def __init__(self, store: Store, prefix: str = PREFIX, compression: Compression = Compression.GZIP) -> None:
        self.store = store
        self.prefix = prefix
        self.compression = compression
        self._tails: dict[str, Position] = {}
        self._untils: dict[str, int] = {}
        self._marked: set[str] = set()
        self._ranges: dict[str, tuple[int, int]] = {}
        self.begin_ms = 1

    def settle(
        self, identity: StreamIdentity, *, start_at_ms: int | None = None, application: str = APPLICATION
    ) -> None:
        """Tie the prefix to a stream, with the application's start: the oldest record unless told."""
        self.begin_ms = identity.created_ms if start_at_ms is None else start_at_ms
        record = ApplicationRecord(
            format=FORMAT,
            stream_arn=identity.arn,
            stream_created_ms=identity.created_ms,
            application=application,
            start="oldest" if start_at_ms is None else str(start_at_ms),
            start_at_ms=start_at_ms,
            writer="w",
            written_at_ms=START_MS,
        ).compressed(self.compression)
        self._put(application_key(self.prefix), encode_marker(record), JSON_TYPE)

    def first(self, *shard_ids: str) -> None:
        """Write the list of the shards that the application began with; they share the hash keys."""
        step = (LAST_HASH_KEY + 1) // max(1, len(shard_ids))
        for number, shard_id in enumerate(shard_ids):
            last = LAST_HASH_KEY if number == len(shard_ids) - 1 else (number + 1) * step - 1
            self._ranges[shard_id] = (number * step, last)
        rows = [
            FirstShard(shard=shard_id, starting_hash_key=str(keys[0]), ending_hash_key=str(keys[1]))
            for shard_id, keys in self._ranges.items()
        ]
        marker = FirstShards(format=FORMAT, shards=rows, writer="w", written_at=BEGUN_AT)
        self._put(first_shards_key(self.prefix), encode_coverage_marker(marker), JSON_TYPE)

    def opened(self, shard_id: str, keys: tuple[int, int], *parents: str, opened_at: str = BEGUN_AT) -> None:
        """Write opened.json of a shard."""
        self._ranges[shard_id] = keys
        marker = OpenedMarker(
            format=FORMAT,
            shard=shard_id,
            sentinel="TRIM_HORIZON",
            starting_hash_key=str(keys[0]),
            ending_hash_key=str(keys[1]),
            parents=list(parents),
            writer="w",
            opened_at=opened_at,
        )
        self._put(opened_marker_key(self.prefix, shard_id), encode_coverage_marker(marker), JSON_TYPE)

    def mark(self, mark: ReadMark) -> None:
        """Write a read mark, under each of its days."""
        for day in mark_days(mark):
            self._put(read_mark_key(self.prefix, day, mark), encode_read_mark(mark), JSON_TYPE)

    def read_on(
        self, shard_id: str, until_ms: int, *, kind: MarkKind = MarkKind.READ, since_ms: int | None = None
    ) -> None:
        """Write the proven mark of a shard that was read to its tip, or its end, behind its last segment."""
        from_ms = self._untils.get(shard_id, self.begin_ms) if since_ms is None else since_ms
        tail = self._tails.get(shard_id)
        self.mark(ReadMark(shard_id, kind, Continuity.PROVEN, from_ms, until_ms, tail, f"w-{until_ms}"))
        self._untils[shard_id] = until_ms
        self._marked.add(shard_id)

    def begin(
        self, shard_id: str, *, sentinel: str = "TRIM_HORIZON", first: str = "1000:0", begun_at: str = BEGUN_AT
    ) -> None:
        """Write start.json."""
        marker = StartMarker(
            format=FORMAT,
            shard=shard_id,
            sentinel=sentinel,
            first=first,
            starting_hash_key=str(self._ranges.get(shard_id, (0, LAST_HASH_KEY))[0]),
            ending_hash_key=str(self._ranges.get(shard_id, (0, LAST_HASH_KEY))[1]),
            parents=[],
            writer="w",
            written_at=begun_at,
        )
        self._put(start_marker_key(self.prefix, shard_id), encode_marker(marker), JSON_TYPE)

    def end(self, shard_id: str, last: Position | None, *children: str) -> None:
        """Write end.json."""
        self.put_end(end_marker(shard_id, last, children=children))

    def put_end(self, marker: EndMarker) -> None:
        """Write an end.json that may say anything."""
        self._put(end_marker_key(self.prefix, marker.shard), encode_marker(marker), JSON_TYPE)

    def segment(
        self,
        shard_id: str,
        minute: int,
        records: Sequence[Record] = (),
        *,
        after: Predecessor | None = None,
        duplicate_of: Mapping[Position, str] | None = None,
        continuity: Continuity | None = None,
        writer: str | None = None,
        is_stored: bool = True,
    ) -> Stored:
        """Append a segment to the shard's chain, or behind `after`; without records it gets two of its own.

        It says of its continuity what a writer says that was never late and never away.

        `duplicate_of`: what each record that was dropped is a copy of; the dropped lines are stored as well.
        """
        predecessor: Predecessor = self._tails.get(shard_id, CHAIN_START) if after is None else after
        writer = writer or f"run-{shard_id}.{minute}"
        dropped = duplicate_of or {}
        made = SegmentWriter(shard_id, minute, self.compression)
        for record in records or two_records(predecessor, minute):
            if record.position in dropped:
                made.drop(record, dropped[record.position])
            else:
                made.extend([record])
        metadata = made.metadata(after=predecessor, writer=writer, continuity=continuity)
        if continuity is None:
            stands_on_mark = shard_id in self._marked
            metadata = stated(metadata, self._untils.get(shard_id), self.begin_ms, stands_on_mark=stands_on_mark)
        key = segment_key(self.prefix, shard_id, minute, metadata.first, self.compression)
        if is_stored:
            if dropped:
                beside = duplicates_key(self.prefix, shard_id, minute, metadata.first, writer, self.compression)
                self._put(beside, made.duplicates_body(), self.compression.media_type)
            self._put(key, made.body(), self.compression.media_type, metadata.encode())
        self._tails[shard_id] = metadata.last
        self._marked.discard(shard_id)
        self._untils[shard_id] = max(segment_link(metadata).until_ms, metadata.evidence_ms or 0)
        return Stored(key, metadata)

    def chain(
        self,
        shard_id: str,
        minutes: Iterable[int],
        *,
        missing: Collection[int] = (),
        continuity: Continuity | None = None,
    ) -> list[Position]:
        """Append one segment per minute, in this order of positions; returns their last positions.

        Those whose number is in `missing` are left out of the store; `continuity` is that of the first one.
        """
        return [
            self.segment(
                shard_id,
                minute,
                continuity=continuity if number == 0 else None,
                writer=f"w-{number}",
                is_stored=number not in missing,
            ).metadata.last
            for number, minute in enumerate(minutes)
        ]

    def _put(self, key: str, body: bytes, content_type: str, fields: Mapping[str, str] | None = None) -> None:
        """Put an object; a scene may be written twice, and then says the same."""
        if self.store.put_if_absent(key, body, fields or {}, content_type) is PutOutcome.EXISTS:
            stored = self.store.get(key)
            assert stored is not None
            assert stored.body == body, f"{key} holds something else"


class MemoryScene(ArchiveScene[MemoryStore]):
    """An archive in memory, of a fake stream with these shards; `retrying` repeats what passes, and costs no time."""

    def __init__(
        self,
        *shard_ids: str,
        prefix: str = PREFIX,
        stream: FakeStream | None = None,
        compression: Compression = Compression.GZIP,
    ) -> None:
        self.clock = ManualClock()
        self.bucket = MemoryBucket(self.clock)
        self.stream = stream or FakeStream(*(FakeShard(shard_id) for shard_id in shard_ids))
        super().__init__(MemoryStore(self.bucket), prefix, compression)
        self.retrying = RetryingStore(self.store, self.waits)

    def waits(self) -> Backoff:
        """Return a small budget on a clock that costs no time."""
        return Backoff(self.clock, random.Random(1), budget_seconds=5)


def stated(
    metadata: SegmentMetadata, before_ms: int | None, begin_ms: int, *, stands_on_mark: bool = False
) -> SegmentMetadata:
    """Let a segment say what it stands on, where its reader cannot tell.

    At a chain's start, behind a read mark, and after a long time. `before_ms` is the `until` of what is before it.
    """
    is_start = isinstance(metadata.after, ChainStart) or before_ms is None
    is_near = not is_start and not stands_on_mark
    if is_near and before_ms is not None and segment_link(metadata).until_ms - before_ms < SURELY_HELD_MS:
        return metadata
    since_ms = begin_ms if is_start or before_ms is None else before_ms
    return msgspec.structs.replace(metadata, continuity=Continuity.PROVEN, evidence_ms=since_ms)


def end_marker(
    shard_id: str, last: Position | None, *, children: Sequence[str] = (), written_at: str = BEGUN_AT
) -> EndMarker:
    """Return the marker of an end that was proven by reading."""
    return EndMarker(
        format=FORMAT,
        shard=shard_id,
        last=None if last is None else str(last),
        children=list(children),
        proof="read",
        writer="w",
        written_at=written_at,
    )


def two_records(after: Predecessor, minute: int) -> list[Record]:
    """Return the records of a segment that stands behind another one; the second ends an aggregate.

    A chain's positions are then 1000:0 to 1005:2, 1010:0 to 1015:2, and so on.
    """
    sequence = after.sequence + 5 if isinstance(after, Position) else 1000
    begin_ms = minute * MINUTE_MS
    return [
        Record(str(sequence), 0, "p1", begin_ms, b"a"),
        Record(str(sequence + 5), 2, "p1", begin_ms + 1, b"b"),
    ]
