"""Records as a Parquet file, in the columns of published days."""

from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from minutebook.cat.merging import SegmentRecord
from minutebook.published.schema import SCHEMA
from minutebook.store.directory_storage import FileSink

_GROUP_BYTES: Final = 16 << 20
_LEAST_BYTES: Final = 200
"""The least memory of a record in Python."""


class ParquetOutput:
    """A `RecordOutput` with one row group in memory."""

    def __init__(self, sink: FileSink) -> None:
        self._sink = sink
        self._writer = pq.ParquetWriter(pa.PythonFile(sink, mode="w"), SCHEMA, compression="zstd")
        self._rows: list[tuple[object, ...]] = []
        self._bytes = 0

    def write(self, row: SegmentRecord) -> None:
        """Add a row."""
        record = row.record
        try:
            text, raw = record.data.decode(), None
        except UnicodeDecodeError:
            text, raw = None, record.data
        self._rows.append(
            (
                row.segment.parsed.shard_id,
                record.sequence_number,
                record.sub_sequence_number,
                record.partition_key,
                record.arrival_ms * 1000,
                text,
                raw,
                row.segment.key,
            )
        )
        self._bytes += len(record.data) + _LEAST_BYTES
        if self._bytes >= _GROUP_BYTES:
            self._write_group()

    def flush(self) -> None:
        """Do nothing: an unfinished file has no readers."""

    def close(self) -> None:
        """Write the last row group and rename the file."""
        self._write_group()
        self._writer.close()
        self._sink.close()

    def abort(self) -> None:
        """Delete the unfinished file."""
        self._writer.is_open = False  # else its destructor writes a footer, and fails
        self._sink.abort()

    def _write_group(self) -> None:
        columns = zip(*self._rows, strict=True) if self._rows else ((),) * len(SCHEMA)
        arrays = [
            pa.array(values, field.type if field.name != "arrival_time" else pa.int64()).cast(field.type)
            for values, field in zip(columns, SCHEMA, strict=True)
        ]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=SCHEMA))
        self._rows.clear()
        self._bytes = 0
