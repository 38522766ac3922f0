"""Records as a Parquet file, in the columns of published days."""

from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from minutebook.cat.merging import FoundRecord
from minutebook.published.schema import SCHEMA
from minutebook.store.directory_storage import FileSink

_GROUP_BYTES: Final = 16 << 20
_NAMES: Final = (
    "shard_id",
    "sequence_number",
    "sub_sequence_number",
    "partition_key",
    "arrival_time",
    "data",
    "data_bytes",
    "segment",
)
_SCHEMA: Final = pa.schema([SCHEMA.field(name) for name in _NAMES])
_LEAST_BYTES: Final = 200
"""What a record takes at least as Python holds it."""


class ParquetOutput:
    """Implements `Output`; memory is one row group."""

    def __init__(self, sink: FileSink) -> None:
        self._sink = sink
        self._writer = pq.ParquetWriter(pa.PythonFile(sink, mode="w"), _SCHEMA, compression="zstd")
        self._rows: list[tuple[object, ...]] = []
        self._held = 0

    def write(self, found: FoundRecord) -> None:
        """Add a row."""
        record = found.record
        try:
            text, raw = record.data.decode(), None
        except UnicodeDecodeError:
            text, raw = None, record.data
        self._rows.append(
            (
                found.segment.parsed.shard_id,
                record.sequence_number,
                record.sub_sequence_number,
                record.partition_key,
                record.arrival_ms * 1000,
                text,
                raw,
                found.segment.key,
            )
        )
        self._held += len(record.data) + _LEAST_BYTES
        if self._held >= _GROUP_BYTES:
            self._write_group()

    def flush(self) -> None:
        """Do nothing: nobody reads half a file."""

    def close(self) -> None:
        """Write what is left; the file gets its name."""
        self._write_group()
        self._writer.close()
        self._sink.close()

    def abort(self) -> None:
        """Remove what was written."""
        self._writer.is_open = False  # it would write a footer when it is forgotten, and fail aloud
        self._sink.abort()

    def _write_group(self) -> None:
        columns = zip(*self._rows, strict=True) if self._rows else ((),) * len(_NAMES)
        arrays = [
            pa.array(values, field.type if field.name != "arrival_time" else pa.int64()).cast(field.type)
            for values, field in zip(columns, _SCHEMA, strict=True)
        ]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=_SCHEMA))
        self._rows.clear()
        self._held = 0
