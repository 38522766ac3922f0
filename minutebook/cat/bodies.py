"""The segments' records: bodies fetched ahead in bounded memory, read as streams."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from minutebook.cat.ahead import Ahead, Requests, Upcoming, each
from minutebook.cat.listing import SegmentToRead
from minutebook.errors import FormatError, OutcomeUnknown, StoreUnavailable
from minutebook.format.position import Position
from minutebook.format.record import Record
from minutebook.format.segment import read_chunks
from minutebook.store.retrying import RetryingStorage

FETCHES: Final = 12
"""Requests at once: with the LISTs as many as a client has connections."""
_AHEAD: Final = Ahead(2 * FETCHES, 32 << 20)
_LARGE_BYTES: Final = 16 << 20
"""Larger bodies are not held: they are read as they come in, when it is their turn."""


class Body(NamedTuple):
    """A segment, and its bytes unless it is large."""

    segment: SegmentToRead
    held: bytes | None


def fetch_bodies(
    pool: ThreadPoolExecutor, storage: RetryingStorage, segments: Upcoming[SegmentToRead]
) -> Iterator[Body]:
    """Yield the bodies in the order of the segments. One that is gone is found out by `read_body`.

    Raises:
        StoreUnavailable, StoreRefused: the store.
    """

    def fetch(segment: SegmentToRead) -> bytes | None:
        if segment.size > _LARGE_BYTES:
            return None
        stored = storage.get(segment.key)
        return None if stored is None else stored.body

    def size_of(segment: SegmentToRead) -> int:
        return segment.size if segment.size <= _LARGE_BYTES else 0

    for segment, held in each(Requests(pool, segments, fetch, _AHEAD, size_of)):
        yield Body(segment, held)


def read_body(storage: RetryingStorage, body: Body) -> Iterator[tuple[Position, Record]]:
    """Yield a segment's records in their order.

    A stream that breaks is begun again, and what was yielded is passed over; the ETag makes sure that it is the same.

    Raises:
        FormatError: the segment is damaged; what was yielded before is right.
        ObjectChanged: it is gone, or another one than was listed.
        StoreUnavailable, StoreRefused: the store.
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
    if body.held is not None:
        chunks = iter([body.held])
    else:
        chunks = storage.storage.open_read(body.segment.key, body.segment.etag).chunks
    return read_chunks(chunks, parsed.shard_id, parsed.compression)
