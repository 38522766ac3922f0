"""The columns of a published day, read from the footer of one of its files: one run writes all with one schema."""

import pyarrow as pa
import pyarrow.parquet as pq

from archive.errors import ObjectVanished
from archive.published.schema import SCHEMA
from archive.store.retrying import RetryingStorage
from compaction.glue.table import Column, columns_of
from compaction.publish.publisher import Publisher
from compaction.tasks.parquet import read_footer


def published_columns(publisher: Publisher) -> tuple[Column, ...] | None:
    """Return the columns of the day; None when it is not published. A day without a row has those of every day.

    Raises:
        FormatError: pointer and manifest contradict each other.
        ObjectVanished: its file is gone, or another one.
        StoreUnavailable, StoreRefused: the output.
    """
    _, manifest = publisher.published()
    if manifest is None:
        return None
    files = [file for file in manifest.files if file.rows]
    return columns_of(_schema(publisher.storage, files[0].key, files[0].bytes) if files else SCHEMA)


def _schema(storage: RetryingStorage, key: str, size: int) -> pa.Schema:
    head = storage.head(key)
    if head is None or head.size != size:
        raise ObjectVanished(
            f"{key} was published and is gone, or has another size", next_step="run minutebook compact for the day"
        )
    return pq.read_schema(pa.BufferReader(read_footer(storage, key).data))
