"""Fetch objects from the store: in order and ahead of the reader, or one file to local disk.

Every function retries until the outcome is known, and raises StoreUnavailable or StoreRefused.
"""

import functools
import hashlib
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from json.encoder import encode_basestring_ascii as _quoted
from typing import IO, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from compaction.parquet.plan import RawObject
from minutebook.errors import FormatError
from minutebook.retry import until_known
from minutebook.store.directory_storage import DirectoryStorage
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import ObjectChanged, Storage

_DIGITS: Final = 32
_DAMAGED: Final = "restore the file from a version of it, or run minutebook compact for its day"
FETCHES: Final = 8
"""Concurrent requests."""
_AHEAD_BYTES: Final = 6 << 20
"""Compressed bytes fetched ahead of the reader; the next object is fetched whatever its size."""


class FetchedBody(NamedTuple):
    """An object's user metadata and its bytes, which are released as they are read, and the digest of both."""

    metadata: Mapping[str, str]
    chunks: deque[bytes]
    digest: str = ""

    def drain(self) -> Iterator[bytes]:
        """Yield the bytes, once."""
        while self.chunks:
            yield self.chunks.popleft()


class Fetched(NamedTuple):
    """An object and its body; None: the object has changed."""

    raw_object: RawObject
    body: FetchedBody | None


def fetch_ahead(
    pool: ThreadPoolExecutor, storage: RetryingStorage, objects: Sequence[RawObject]
) -> Iterator[Fetched]:
    """Yield bodies in the order of `objects`; those of a folder are read when they are asked for, by this thread."""
    if isinstance(storage.storage, DirectoryStorage):
        yield from (Fetched(each, fetch(storage, each)) for each in objects)
        return
    waiting = deque(objects)
    in_flight: deque[tuple[RawObject, Future[FetchedBody | None]]] = deque()
    ahead = 0

    def send() -> None:
        nonlocal ahead
        while waiting and (
            not in_flight or (ahead + waiting[0].size <= _AHEAD_BYTES and len(in_flight) < 2 * FETCHES)
        ):
            raw_object = waiting.popleft()
            ahead += raw_object.size
            in_flight.append((raw_object, pool.submit(fetch, storage, raw_object)))

    send()
    while in_flight:
        raw_object, future = in_flight.popleft()
        body = future.result()
        ahead -= raw_object.size
        send()
        yield Fetched(raw_object, body)


def fetch(storage: RetryingStorage, raw_object: RawObject) -> FetchedBody | None:
    """Read one object; None if it has changed. The ETag guarantees that all attempts read the same bytes."""

    def attempt() -> FetchedBody | None:
        try:
            body = storage.storage.open_read(raw_object.key, raw_object.etag)
            chunks = deque(body.chunks)
            return FetchedBody(body.metadata, chunks, content_digest(body.metadata, chunks))
        except ObjectChanged:
            return None

    return until_known(attempt, storage.new_backoff(), f"GET {raw_object.key}")


def content_digest(metadata: Mapping[str, str], chunks: Iterable[bytes]) -> str:
    """Return the digest of an object's user metadata and of its bytes as they are stored.

    All fields count, in the order of their names, also those that this version does not know: else a later one would
    take the same object for another.
    """
    # As json.dumps writes it, in less time: digests that are stored stay.
    pairs = (f"[{_quoted(name)}, {_quoted(value)}]" for name, value in sorted(metadata.items()))
    digest = hashlib.sha256(f"[{', '.join(pairs)}]".encode())
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()[:_DIGITS]


@contextmanager
def local_copy(storage: RetryingStorage, key: str) -> Iterator[IO[bytes]]:
    """Copy a stored file to local disk for the block, so that memory is only what a reader takes at once.

    Raises ObjectChanged if the file is gone.
    """
    with tempfile.TemporaryFile() as file:
        fetch = functools.partial(_copy, storage.storage, key, file)
        until_known(fetch, storage.new_backoff(), f"GET {key}")
        file.seek(0)
        yield file


def parquet_batches(
    storage: RetryingStorage, key: str, rows: int, columns: list[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a published file, from a copy on local disk, some at once.

    Raises FormatError if it is no whole file of Parquet, and as `local_copy`.
    """
    with local_copy(storage, key) as file:
        try:
            yield from pq.ParquetFile(file).iter_batches(rows, columns=columns)
        except (pa.ArrowException, OSError) as exc:
            raise FormatError(f"{key} does not parse: {exc}", next_step=_DAMAGED) from exc


def _copy(storage: Storage, key: str, file: IO[bytes]) -> None:
    """Copy an object into a file from its start, so that a retry is safe."""
    file.seek(0)
    file.truncate()
    for chunk in storage.open_read(key, None).chunks:
        file.write(chunk)
