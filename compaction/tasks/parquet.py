"""The Parquet files: their columns, and how lines become rows.

Sequence numbers stay the decimal text that Kinesis wrote (they exceed every integer type of SQL engines),
delta-encoded: in a sorted file neighbours share their first digits. Payloads are text where they are
valid UTF-8, else bytes. Arrival times are microseconds, always whole milliseconds: the one unit that Iceberg's
specification knows, and Spark's Iceberg reader takes milliseconds for it without a word.
"""

from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from archive.store.retrying import RetryingStorage
from archive.store.storage import Sink, Tail
from compaction.tasks.columns import constant_column

SCHEMA_VERSION: Final = "2"
"""2: arrival times in microseconds (docs/decisions/0012-iceberg.md)."""
ROW_GROUP_BYTES: Final = 24 << 20
"""Bytes of lines per row group: what a task holds in memory, and what a reader reads at once."""

SCHEMA: Final = pa.schema(
    [
        ("shard_id", pa.string()),
        ("sequence_number", pa.string()),
        ("sub_sequence_number", pa.int64()),
        ("partition_key", pa.string()),
        ("arrival_time", pa.timestamp("us", "UTC")),
        ("data", pa.string()),
        ("data_bytes", pa.binary()),
        ("segment", pa.string()),
    ]
)

_FOOTER_BYTES: Final = 64 << 10


def read_footer(out: RetryingStorage, key: str) -> Tail:
    """Return a file's footer as a file of its own, which pyarrow reads as one without rows; and the whole size."""
    tail = out.read_tail(key, _FOOTER_BYTES)
    footer = int.from_bytes(tail.data[-8:-4], "little") + 8
    data = tail.data if footer <= len(tail.data) else out.read_tail(key, footer).data
    return Tail(b"PAR1" + data[-footer:], tail.size)


class ParquetPart:
    """A Parquet file that grows by tables of lines; memory is one row group."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._writer = pq.ParquetWriter(
            pa.PythonFile(sink, mode="w"),
            SCHEMA,
            compression="zstd",
            compression_level=1,
            use_dictionary=["shard_id", "segment"],
            column_encoding={"sequence_number": "DELTA_BYTE_ARRAY", "arrival_time": "DELTA_BINARY_PACKED"},
            write_statistics=["shard_id", "sequence_number", "sub_sequence_number", "arrival_time", "segment"],
        )
        self._pending: list[pa.Table] = []
        self._pending_bytes = 0
        self.rows = 0

    def add(self, lines: pa.Table, segment: str | pa.StringArray) -> None:
        """Append lines in their order: of one segment, or of the segment that each one's row names."""
        self._pending.append(_rows(lines, segment))
        self._pending_bytes += lines.nbytes
        self.rows += lines.num_rows
        if self._pending_bytes >= ROW_GROUP_BYTES:
            self._write()

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self._sink.size

    def close(self) -> None:
        """Write what is left and finish the file: only now it exists."""
        self._write()
        self._writer.close()
        self._sink.close()

    def _write(self) -> None:
        if self._pending:
            table = pa.concat_tables(self._pending)
            self._pending.clear()
            self._pending_bytes = 0
            self._writer.write_table(table, row_group_size=max(1, table.num_rows))


def _rows(lines: pa.Table, segment: str | pa.StringArray) -> pa.Table:
    return pa.Table.from_arrays(
        [
            lines["shard_id"],
            lines["sequence_number"],
            lines["sub_sequence_number"],
            lines["partition_key"],
            lines["arrival_ms"].cast(pa.timestamp("ms", "UTC")).cast(SCHEMA.field("arrival_time").type),
            lines["data"],
            lines["data_bytes"],
            constant_column(segment, lines.num_rows) if isinstance(segment, str) else segment,
        ],
        schema=SCHEMA,
    )
