"""The bodies of segments, fetched ahead in bounded memory, and their records."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from minutebook.errors import FormatError, OutcomeUnknown, StoreUnavailable
from minutebook.format.position import Position
from minutebook.format.record import Record
from minutebook.format.segment import read_chunks
from minutebook.segments.ahead import Ahead, Requests, Upcoming, iterate
from minutebook.segments.listing import SegmentToRead
from minutebook.store.retrying import RetryingStorage

FETCHES: Final = 12
"""Parallel requests: together with the LISTs as many as a client has connections."""
_AHEAD: Final = Ahead(2 * FETCHES, 32 << 20)
_LARGE_BYTES: Final = 16 << 20
"""Larger bodies are not fetched ahead: they are streamed in their turn."""


class Body(NamedTuple):
    """A segment, and its bytes unless it is large, gone, or not the one that was listed."""

    segment: SegmentToRead
    data: bytes | None


def fetch_bodies(
    pool: ThreadPoolExecutor, storage: RetryingStorage, segments: Upcoming[SegmentToRead]
) -> Iterator[Body]:
    """Yield the bodies in the order of the segments; for one that is gone `read_body` raises."""

    def fetch(segment: SegmentToRead) -> bytes | None:
        if segment.size > _LARGE_BYTES:
            return None
        stored = storage.get(segment.key)
        return None if stored is None or stored.etag != segment.etag else stored.body

    def size_of(segment: SegmentToRead) -> int:
        return segment.size if segment.size <= _LARGE_BYTES else 0

    for segment, data in iterate(Requests(pool, segments, fetch, _AHEAD, size_of)):
        yield Body(segment, data)


def read_body(storage: RetryingStorage, body: Body) -> Iterator[tuple[Position, Record]]:
    """Yield a segment's records in order.

    If a stream breaks, it is read again from its start, with the same ETag, and records already yielded are skipped.
    Raises FormatError for damage after the yielded records, ObjectChanged for one that is not as it was listed.
    """
    segment, last = body.segment, None
    backoff = storage.new_backoff()
    while True:
        try:
            for position, record in _read(storage, body):
                if position < segment.parsed.first:
                    raise FormatError(f"a record at {position}, before the first one by its name")
                if last is None or position > last:
                    yield position, record
                    last = position
        except OutcomeUnknown as exc:
            if not backoff.wait():
                raise StoreUnavailable(
                    f"gave up on GET {segment.key}: {exc}", next_step="run it again, --from the last minute shown"
                ) from exc
        else:
            return


def _read(storage: RetryingStorage, body: Body) -> Iterator[tuple[Position, Record]]:
    parsed = body.segment.parsed
    if body.data is not None:
        chunks = iter([body.data])
    else:
        chunks = storage.storage.open_read(body.segment.key, body.segment.etag).chunks
    return read_chunks(chunks, parsed.shard_id, parsed.compression)
