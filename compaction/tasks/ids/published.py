"""Event ids of a day whose raw objects are expired: they are read from its published Parquet files."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from archive.store.retrying import RetryingStorage
from compaction.tasks.ids.dropping import payloads
from compaction.tasks.ids.rows import IdCollector
from compaction.tasks.local_copy import local_copy

_ROWS = 10_000


def read_published(storage: RetryingStorage, keys: Sequence[str], ids: IdCollector) -> None:
    """Collect the ids of Parquet files. Memory is one row group.

    Raises:
        ObjectChanged, StoreUnavailable, StoreRefused: the store.
    """
    for key in keys:
        with local_copy(storage, key) as file:
            for batch in pq.ParquetFile(file).iter_batches(_ROWS, columns=["data", "data_bytes", "arrival_time"]):
                ids.add(
                    payloads(batch),
                    batch["arrival_time"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_pylist(),
                    key,
                )
