"""A day's archive in memory, before it is written: shards, their segments, and the markers.

The whole model follows every rule of the format. `tests.corpus.defects` breaks one rule at a time.
"""

import enum
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from compaction.verdict.findings import Code
from consumer.stream.port import StreamIdentity
from minutebook.compression import Compression, compression_of
from minutebook.coverage.evidence import segment_link
from minutebook.format.day import Day
from minutebook.format.keys import segment_key
from minutebook.format.markers import EndMarker
from minutebook.format.metadata import ChainStart, Continuity, Predecessor, SegmentMetadata
from minutebook.format.minute import MINUTE_MS
from minutebook.format.position import Position
from minutebook.format.read_mark import MarkKind, ReadMark
from minutebook.format.record import Record
from minutebook.format.segment import SegmentWriter
from minutebook.store.objects import ObjectStore
from tests.fakes.archive_scene import APPLICATION, ArchiveScene, end_marker, stated
from tests.fakes.stream import DAY_MS

PREFIX = "raw/"
STREAM_ARN = "arn:aws:kinesis:us-east-1:000000000000:stream/corpus"
BEGIN_MS = 1
"""When the stream was made, and the application began."""
_FIRST_SEQUENCE = 49_680_430_009_993_180_326_445_188_721_472_315_949_130_085_524_050_018_306


@dataclass
class Stored:
    """One segment as it will be stored. `key`, `body` and `fields` may be overridden by a defect."""

    records: list[Record]
    metadata: SegmentMetadata
    key: str
    fields: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    def seal(self) -> None:
        """Make body and fields from records and metadata."""
        self.pack()
        self.fields = self.metadata.encode()

    def pack(self) -> None:
        """Make the body from the records, compressed as the key says."""
        self.body = body_of(self.metadata.shard_id, self.metadata.minute, self.records, compression_of(self.key))


@dataclass
class Shard:
    """One shard: its segments in order, and what proves its ends.

    The shard was read on to its tip after the day, behind its end or its checkpoint.
    """

    shard_id: str
    segments: list[Stored]
    has_start: bool = True
    end: EndMarker | None = None
    checkpoint: Position | None = None
    begun_at: str = "2026-01-01T00:00:00.000Z"

    def in_day(self, day: Day) -> list[int]:
        """Return the indexes of the segments of the day."""
        return [number for number, one in enumerate(self.segments) if one.metadata.minute in day]


class Shape(NamedTuple):
    """How large a day is, and how its segments are compressed.

    `minutes` are offsets from the day's first minute, negative for the day before.
    """

    shards: int = 3
    minutes: tuple[int, ...] = (-700, 0, 1, 2, 600, 601, 1439, 1441)
    records: int = 6
    payload_bytes: int = 40
    compression: Compression = Compression.GZIP


class Corpus:
    """An archive of a few shards around one day.

    The ends of the shards are proven in turn by a successor (the last minute lies in the next day) and by read marks:
    of a shard that ended after midnight, and of one that is read on.
    """

    def __init__(self, day: Day, seed: int = 1, shape: Shape | None = None) -> None:
        self.day = day
        self.shape = shape or Shape()
        self.rng = random.Random(seed)
        self.shards = [self._shard(number) for number in range(self.shape.shards)]
        self.first = [shard.shard_id for shard in self.shards]
        """The shards that the application began with."""
        self.objects: dict[str, tuple[bytes, dict[str, str]]] = {}
        """Further objects that a defect put there, by key."""

    @property
    def checkpoints(self) -> Mapping[str, Position]:
        """KCL's checkpoints by shard."""
        return {shard.shard_id: shard.checkpoint for shard in self.shards if shard.checkpoint is not None}

    @property
    def records(self) -> int:
        """Lines of the day, in whole segments."""
        return sum(
            len(one.records) for shard in self.shards for one in shard.segments if one.metadata.minute in self.day
        )

    def write(self, store: ObjectStore, *, application: str = APPLICATION) -> None:
        """Put everything into a store, as an application did."""
        scene = ArchiveScene(store, PREFIX, self.shape.compression)
        scene.settle(StreamIdentity(STREAM_ARN, BEGIN_MS, DAY_MS), application=application)
        scene.first(*self.first)
        for shard in self.shards:
            _write_shard(scene, shard)
        self.write_marks(store)
        for key, (body, fields) in self.objects.items():
            store.put_if_absent(key, body, fields, Compression.GZIP.media_type)

    def write_marks(self, store: ObjectStore) -> None:
        """Put the read marks into a store that the shards call for as they are now."""
        scene = ArchiveScene(store, PREFIX)
        for shard in self.shards:
            for mark in _marks(shard, self.day):
                scene.mark(mark)

    def _shard(self, number: int) -> Shard:
        shard_id = f"shardId-{number:012d}"
        sequence = _FIRST_SEQUENCE + number * 10**40
        after: Predecessor = ChainStart("TRIM_HORIZON")
        segments: list[Stored] = []
        proof = number % 3
        for offset in self.shape.minutes if proof == 0 else [one for one in self.shape.minutes if one < 1440]:
            minute = self.day.first_minute + offset
            records = []
            for index in range(self.shape.records):
                sequence += self.rng.randrange(1, 10**6)
                records.append(self._record(sequence, minute * MINUTE_MS + index * 7))
            before = segments[-1].metadata if segments else None
            stored = make_segment(
                shard_id, minute, records, after, f"writer{number}-{len(segments)}", before, self.shape.compression
            )
            after = stored.metadata.last
            segments.append(stored)
        shard = Shard(shard_id, segments)
        last = segments[-1].metadata.last
        if proof == 1:
            shard.end = end_marker(shard_id, last, written_at=f"{self.day.shift(1)}T00:10:00.000Z")
        elif proof == 2:
            shard.checkpoint = last
        return shard

    def _record(self, sequence: int, arrival_ms: int) -> Record:
        size = self.shape.payload_bytes
        text = f'{{"n":{sequence % 10**9},"name":"é"}}'.ljust(size).encode()
        data = text if self.rng.random() < 0.9 else self.rng.randbytes(size)
        return Record(str(sequence), 0, f"key-{sequence % 7}", arrival_ms, data)


def make_segment(
    shard_id: str,
    minute: int,
    records: list[Record],
    after: Predecessor,
    writer: str,
    before: SegmentMetadata | None = None,
    compression: Compression = Compression.GZIP,
) -> Stored:
    """Return a whole segment; it says what it stands on, where it comes long after the one before it."""
    made = SegmentWriter(shard_id, minute)
    made.extend(records)
    until_ms = segment_link(before).until_ms if before else None
    metadata = made.metadata(after=after, writer=writer)
    if before is not None or isinstance(after, ChainStart):
        metadata = stated(metadata, until_ms, BEGIN_MS)
    stored = Stored(list(records), metadata, segment_key(PREFIX, shard_id, minute, metadata.first, compression))
    stored.seal()
    return stored


def body_of(shard_id: str, minute: int, records: list[Record], compression: Compression = Compression.GZIP) -> bytes:
    """Return the body of the records' lines, whatever their order."""
    writer = SegmentWriter(shard_id, minute, compression)
    writer.extend(records)
    return writer.body()


def _write_shard(scene: ArchiveScene[ObjectStore], shard: Shard) -> None:
    for stored in shard.segments:
        scene.store.put_if_absent(stored.key, stored.body, stored.fields, Compression.GZIP.media_type)
    if shard.has_start:
        scene.begin(shard.shard_id, first=str(chain_first(shard)), begun_at=shard.begun_at)
    if shard.end is not None:
        scene.put_end(shard.end)


def _marks(shard: Shard, day: Day) -> Iterator[ReadMark]:
    """Yield the marks of a processor that read on behind the last segment; none where that is not the tail."""
    tail = shard.segments[-1].metadata if shard.segments else None
    if tail is None:
        return
    from_ms = max(segment_link(tail).until_ms, tail.evidence_ms or 0)
    named = shard.end.last_position() if shard.end is not None else shard.checkpoint
    if named is None:
        return
    if named > tail.last:  # what they read behind is gone
        from_ms = day.end_ms - MINUTE_MS
    read_ms, end_ms = day.end_ms + 5 * MINUTE_MS, day.end_ms + 9 * MINUTE_MS
    if shard.end is not None and shard.end.written_at < str(day.shift(1)):
        end_ms = max(from_ms, parse_iso_ms(shard.end.written_at) - MINUTE_MS)
    if shard.end is not None:
        continuity = Continuity.PROVEN if shard.end.proof == "read" else Continuity.UNPROVEN
        if end_ms > read_ms:
            yield ReadMark(shard.shard_id, MarkKind.READ, continuity, from_ms, read_ms, named, "reader-1")
        yield ReadMark(shard.shard_id, MarkKind.END, continuity, from_ms, end_ms, named, "reader-2")
    else:
        yield ReadMark(shard.shard_id, MarkKind.READ, Continuity.PROVEN, from_ms, read_ms, named, "reader-3")


def parse_iso_ms(text: str) -> int:
    """Return the epoch milliseconds of a time as markers have it."""
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def chain_first(shard: Shard) -> Position:
    """Return the position that start.json names: it was written when the shard was whole."""
    number = int(shard.shard_id.rpartition("-")[2])
    firsts = [one.metadata.first for one in shard.segments if isinstance(one.metadata.after, ChainStart)]
    return firsts[0] if firsts else Position(_FIRST_SEQUENCE + number * 10**40 + 1)


def copy_of(stored: Stored, **changes: object) -> Stored:
    """Return an independent copy, changed."""
    return replace(stored, records=list(stored.records), fields=dict(stored.fields), **changes)  # type: ignore[arg-type]


class Seen(enum.Flag):
    """At which level a finding is reported."""

    INVENTORY = enum.auto()
    KEYS = enum.auto()
    BOTH = INVENTORY | KEYS


class Expected(NamedTuple):
    """A finding that must be reported. `keys` must be among its keys."""

    code: Code
    shard: str | None
    keys: tuple[str, ...]
    times: int = 1
    severity: str = "defect"
    seen: Seen = Seen.BOTH


Defect = Callable[[Corpus, Shard, int], list[Expected]]
"""What breaks an archive: a function of (corpus, shard, index of a segment of the day) that changes the corpus."""
