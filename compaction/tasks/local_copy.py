"""A stored file on local disk while it is read: memory is what a reader takes of it at once."""

import functools
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from archive.retry import until_known
from archive.store.retrying import RetryingStorage
from archive.store.storage import Storage


@contextmanager
def local_copy(storage: RetryingStorage, key: str) -> Iterator[IO[bytes]]:
    """Fetch a file, and forget it with the block.

    Raises:
        ObjectChanged, StoreUnavailable, StoreRefused: the store.
    """
    with tempfile.TemporaryFile() as file:
        fetch = functools.partial(_fetch, storage.storage, key, file)
        until_known(fetch, storage.new_backoff(), f"GET {key}")
        file.seek(0)
        yield file


def _fetch(storage: Storage, key: str, file: IO[bytes]) -> None:
    """Copy an object into a file, from its beginning: safe to repeat."""
    file.seek(0)
    file.truncate()
    for chunk in storage.open_read(key, None).chunks:
        file.write(chunk)
