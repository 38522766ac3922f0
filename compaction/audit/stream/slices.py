"""Which part of each shard's day is compared, all of it or a window, and how that is cut into slices. Pure."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple, Self

from compaction.audit.stream.records import Archived, Bounds, Comparison, compare_shard
from compaction.inventory.segments import ArchivedSegment
from compaction.shard_groups.opened import open_in_task
from compaction.stream.kinesis import ArchivedStream, ReadLog, ReadSpan, Sent
from minutebook.compression import compression_of
from minutebook.errors import StreamRefused, StreamUnavailable
from minutebook.format.day import Day
from minutebook.format.keys import duplicates_key
from minutebook.format.minute import MINUTE_MS, minute_text
from minutebook.format.position import Position
from minutebook.format.record import Record, decode_dropped_line, decode_line
from minutebook.format.segment import inflate
from minutebook.retry import until_known
from minutebook.store.parallel import in_parallel
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import Address
from minutebook.wording import some_of

SLICE_BYTES: Final = 256 << 20
"""Payload of a slice: five minutes of reading, at the usual share. A task that fails reads so much again."""
_SHOWN: Final = 5


class ComparedWindow(NamedTuple):
    """The times that are compared, from `begin_ms` on; `minutes` of them in each shard, None: all.

    A window's place follows from the day and the shard: other shards, and other days, have other windows, and
    the same command has the same one. A sample proves nothing about the rest: no mark is written of it.
    """

    day: str
    begin_ms: int
    end_ms: int
    minutes: int | None

    @classmethod
    def of(cls, day: Day, end_ms: int, minutes: int | None) -> Self:
        """Return the window of a day up to a time; one that is as long as this is no sample."""
        is_all = minutes is None or minutes * MINUTE_MS >= end_ms - day.begin_ms
        return cls(str(day), day.begin_ms, end_ms, None if is_all else minutes)

    @property
    def is_sample(self) -> bool:
        """Return whether anything is left out."""
        return self.minutes is not None

    def times(self, shard_id: str) -> tuple[int, int]:
        """Return the times of a shard, in whole minutes, as [begin, end)."""
        if self.minutes is None:
            return self.begin_ms, self.end_ms
        room = (self.end_ms - self.begin_ms) // MINUTE_MS - self.minutes
        chance = int.from_bytes(hashlib.sha256(f"{self.day} {shard_id}".encode()).digest()[:8])
        begin_ms = self.begin_ms + chance % (room + 1) * MINUTE_MS
        return begin_ms, begin_ms + self.minutes * MINUTE_MS

    def of_shard(self, segments: Sequence[ArchivedSegment], shard_id: str) -> list[ArchivedSegment]:
        """Return the segments of a shard that lie within; a segment is of one minute."""
        begin_ms, end_ms = self.times(shard_id)
        return [segment for segment in segments if begin_ms <= segment.metadata.minute * MINUTE_MS < end_ms]

    def describe(self, shards: Sequence[str]) -> str:
        """Say what of the shards was compared, and what was not."""
        windows = [
            f"{shard} {minute_text(begin_ms // MINUTE_MS)} to {minute_text(end_ms // MINUTE_MS)}"
            for shard, (begin_ms, end_ms) in ((shard, self.times(shard)) for shard in shards)
        ]
        return (
            f"{self.minutes} minutes of each ({some_of(windows, _SHOWN)}); the rest of the day was not compared with "
            "the stream, and nothing was proven by what was"
        )


class ShardSlice(NamedTuple):
    """A part of a shard: its segments, and the positions that it begins at and ends before; None: there is no end."""

    segments: tuple[ArchivedSegment, ...]
    start: Position | None = None
    stop: Position | None = None


def cut_slices(segments: Iterable[ArchivedSegment], slice_bytes: int) -> list[ShardSlice]:
    """Cut one shard into slices; without segments it is one.

    A cut lies at the first position of a segment, and only where everything before it ends before it: so each
    archived record, and each record of the stream, belongs to exactly one slice, whatever its time of arrival. Times
    step back inside a shard, and a cut by them would leave some out, or count them twice.

    A slice ends at the first record that the stream holds at the cut or behind it, and the next one begins at that
    very record, by its sequence number. So the slices are one unbroken reading, or the second one shows that they are
    not.
    """
    groups: list[list[ArchivedSegment]] = [[]]
    starts: list[Position | None] = [None]
    size, reached = 0, None
    for segment in sorted(segments, key=lambda segment: segment.metadata.first):
        first = segment.metadata.first
        if size >= slice_bytes and reached is not None and reached < first:
            groups.append([])
            starts.append(first)
            size = 0
        groups[-1].append(segment)
        size += segment.metadata.payload_bytes
        reached = segment.metadata.last if reached is None else max(reached, segment.metadata.last)
    stops: Sequence[Position | None] = [*starts[1:], None]
    return [ShardSlice(tuple(group), *ends) for group, *ends in zip(groups, starts, stops, strict=True)]


SHARDS_A_TASK: Final = 8


class SliceOrder(NamedTuple):
    """A slice, and where it is read.

    `begun_ms` and `adopted` are the point at which the archive was begun on purpose. `read` is False for what lies
    behind the end of the stream: there is nothing to ask for. `bounds.since_ms` and `bounds.oldest` are those of the
    shard's first slice, where this one is not.
    """

    shard_id: str
    stream: Callable[[], ArchivedStream]
    archive: Address
    prefix: str
    segments: tuple[ArchivedSegment, ...]
    reach: ReadSpan
    bounds: Bounds
    begun_ms: int | None = None
    adopted: Position | None = None
    read: bool = True


class SliceResult(NamedTuple):
    """What a slice has shown. `error` says why the stream could not be read; then nothing was compared."""

    comparison: Comparison
    log: ReadLog
    error: str = ""


def compare_slices(orders: Sequence[SliceOrder]) -> list[SliceResult]:
    """Compare slices of several shards, each in a thread."""
    return in_parallel(_compare, orders, SHARDS_A_TASK)


def _compare(order: SliceOrder) -> SliceResult:
    log = ReadLog()
    read = partial(_archived_records, open_in_task(order.archive), order.prefix)
    try:
        sent: Iterator[Sent] = iter(())
        bounds = order.bounds
        if order.read:
            sent = order.stream().read(order.shard_id, order.reach, log)
            bounds = bounds._replace(since_ms=max(bounds.since_ms, log.since_ms if log.is_trimmed else 0))
        promised = _promised(order, sent)
        comparison = compare_shard(
            order.shard_id,
            order.segments,
            read,
            promised,
            bounds,
            oldest=lambda: log.oldest if bounds.oldest is None else bounds.oldest,
            is_whole=lambda: not log.is_broken,
        )
    except (StreamRefused, StreamUnavailable) as exc:
        return SliceResult(Comparison((), 0, 0), log, str(exc))
    return SliceResult(comparison, log)


def _promised(order: SliceOrder, sent: Iterator[Sent]) -> Iterator[Sent]:
    """Leave out what lies before the point at which the archive was begun on purpose."""
    for record in sent:
        if order.begun_ms is not None and record.arrival_ms < order.begun_ms:
            continue
        if order.adopted is not None and record.position <= order.adopted:
            continue
        yield record


def _archived_records(storage: RetryingStorage, prefix: str, segment: ArchivedSegment) -> Iterator[Archived]:
    """Yield a segment's records, and those that were dropped from it as producer duplicates.

    Raises FormatError or ObjectChanged for an object that cannot be read.
    """
    metadata = segment.metadata
    for line in _lines(storage, segment.key, segment.row.etag):
        yield _archived(decode_line(line)[1])
    if not metadata.dropped:
        return
    slot = (metadata.shard_id, metadata.minute, metadata.first, metadata.writer, compression_of(segment.key))
    for line in _lines(storage, duplicates_key(prefix, *slot), None):
        record = decode_dropped_line(line)[1]
        if record.position in metadata.span:
            yield _archived(record)


def _lines(storage: RetryingStorage, key: str, etag: str | None) -> Iterator[bytes]:
    def body() -> bytes:
        return b"".join(storage.storage.open_read(key, etag).chunks)

    yield from inflate([until_known(body, storage.new_backoff(), f"GET {key}")], compression_of(key))


def _archived(record: Record) -> Archived:
    return Archived(record.position, record.partition_key, record.data)
