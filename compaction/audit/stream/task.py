"""One slice of a shard, in a task: the stream is read at its pace, and compared with the archive's lines.

No record leaves the task: what comes back are counts, at most 20 samples a minute and finding, and how the slice was
read. Shards wait most of the time, so a task takes several, one thread each.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from compaction.audit.stream.records import Archived, Bounds, Comparison, compare_shard
from compaction.inventory.segments import ArchivedSegment
from compaction.stream.kinesis import ArchivedStream, ReadLog, ReadSpan, Sent
from minutebook.compression import compression_of
from minutebook.errors import FormatError, StreamRefused, StreamUnavailable
from minutebook.format.keys import duplicates_key
from minutebook.format.position import Position
from minutebook.format.record import Record, decode_dropped_line, decode_line
from minutebook.format.segment import inflate
from minutebook.retry import until_known
from minutebook.store.parallel import in_parallel
from minutebook.store.places import open_retrying
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import Address, ObjectChanged

SHARDS_A_TASK: Final = 8
_BUDGET_SECONDS: Final = 180


class SliceOrder(NamedTuple):
    """A slice, and where it is read.

    `begun_ms` and `adopted` are the point at which the archive was begun on purpose. `read` is False for what lies
    behind the end of the stream: there is nothing to ask for. `bounds.since_ms` is that of the shard's first slice,
    where this one is not.
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
    """Compare slices of several shards, each in a thread.

    Raises:
        StoreUnavailable, StoreRefused: the archive.
    """
    return in_parallel(_compare, orders, SHARDS_A_TASK)


def _compare(order: SliceOrder) -> SliceResult:
    log = ReadLog()
    read = partial(_archived_records, open_retrying(order.archive, _BUDGET_SECONDS), order.prefix)
    try:
        sent: Iterator[Sent] = iter(())
        bounds = order.bounds
        if order.read:
            sent = order.stream().read(order.shard_id, order.reach, log)
            bounds = bounds._replace(since_ms=max(bounds.since_ms, log.since_ms if log.is_trimmed else 0))
        promised = _promised(order, sent)
        comparison = compare_shard(
            order.shard_id, order.segments, read, promised, bounds, is_whole=lambda: not log.is_broken
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

    An object that cannot be read is reported at level keys; here it simply holds nothing.
    """
    metadata = segment.metadata
    try:
        for line in _lines(storage, segment.key, segment.row.etag):
            yield _archived(decode_line(line)[1])
        if not metadata.dropped:
            return
        slot = (metadata.shard_id, metadata.minute, metadata.first, metadata.writer, compression_of(segment.key))
        for line in _lines(storage, duplicates_key(prefix, *slot), None):
            record = decode_dropped_line(line)[1]
            if record.position in metadata.span:
                yield _archived(record)
    except (FormatError, ObjectChanged):
        return


def _lines(storage: RetryingStorage, key: str, etag: str | None) -> Iterator[bytes]:
    def body() -> bytes:
        return b"".join(storage.storage.open_read(key, etag).chunks)

    yield from inflate([until_known(body, storage.new_backoff(), f"GET {key}")], compression_of(key))


def _archived(record: Record) -> Archived:
    return Archived(record.position, record.partition_key, record.data)
