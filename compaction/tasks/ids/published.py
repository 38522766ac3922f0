"""Event ids of a day whose raw objects are expired: they are read from its published Parquet files."""

import functools
import tempfile
from collections.abc import Sequence
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from archive.retry import until_known
from archive.store.retrying import RetryingStorage
from archive.store.storage import Storage
from compaction.tasks.ids.dropping import payloads
from compaction.tasks.ids.rows import IdCollector

_ROWS = 10_000


def read_published(storage: RetryingStorage, keys: Sequence[str], ids: IdCollector) -> None:
    """Collect the ids of Parquet files. Memory is one row group; a file lies on local disk while it is read.

    Raises:
        ObjectChanged, StoreUnavailable, StoreRefused: the store.
    """
    for key in keys:
        with tempfile.TemporaryFile() as file:
            fetch = functools.partial(_fetch, storage.storage, key, file)
            until_known(fetch, storage.new_backoff(), f"GET {key}")
            file.seek(0)
            for batch in pq.ParquetFile(file).iter_batches(_ROWS, columns=["data", "data_bytes", "arrival_time"]):
                ids.add(
                    payloads(batch),
                    batch["arrival_time"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_pylist(),
                    key,
                )


def _fetch(storage: Storage, key: str, file: IO[bytes]) -> None:
    """Copy an object into a file, from its beginning: safe to repeat."""
    file.seek(0)
    file.truncate()
    for chunk in storage.open_read(key, None).chunks:
        file.write(chunk)
