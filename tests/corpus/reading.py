"""Reading what was published, as a reader of the Parquet files does."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from minutebook.format.payload import PayloadPath
from minutebook.format.position import Position
from minutebook.published.generation import Manifest
from minutebook.store.storage import Storage


def published_rows(storage: Storage, manifest: Manifest) -> Iterator[tuple[str, Position, bytes]]:
    """Yield (shard, position, payload) of each row, file by file."""
    for file in manifest.files:
        stored = storage.get(file.key)
        assert stored is not None
        for row in pq.ParquetFile(pa.BufferReader(stored.body)).read().to_pylist():
            payload = row["data_bytes"] if row["data"] is None else row["data"].encode()
            yield row["shard_id"], Position(int(row["sequence_number"]), row["sub_sequence_number"]), payload


def published_events(storage: Storage, manifest: Manifest, path: str = "n") -> list[str | None]:
    """Return the event id of each row; None where it has none."""
    ids = PayloadPath(path)
    return [ids.text(payload) for _, _, payload in published_rows(storage, manifest)]
