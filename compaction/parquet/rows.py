"""Write lines as rows of the published columns (`minutebook.published.schema`) into Parquet files.

Pages are PLAIN or dictionary-encoded, which every vectorized reader supports (docs/decisions/0032-tasks.md). A file
declares its sort order, and each row group is checked against it, because readers rely on it.
"""

import abc
import hashlib
import inspect
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from compaction.columns.arrow_columns import constant_column
from compaction.columns.columns import EVENT_INDEX, UNFIT, Columns
from compaction.columns.counts import TypedCounts
from compaction.columns.decode.decoder import new_payload_columns
from compaction.columns.decode.registered import Schemas
from compaction.parquet.line_tables import LINE_SCHEMA
from minutebook.published.schema import SCHEMA
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import Sink, Tail

ROW_GROUP_BYTES: Final = 64 << 20
"""Least bytes of lines, or of columns, in a row group except the last. A task holds one in memory, a reader reads one
at once."""
ZSTD_LEVEL: Final = 1
CALENDAR: Final = {"org.apache.spark.version": "3.0.0"}
"""A key of the footer of files with typed columns: without it, Spark 3 fails on dates before 1582.

Spark before 3.0 wrote Julian ones; a version from 3.0.0 on says that days are Gregorian. Spark 4 needs no key.
"""
PARQUET_TYPE: Final = "application/vnd.apache.parquet"
"""The content type of stored files."""

_ORDER: Final = ("shard_id", "sequence_number", "sub_sequence_number")
_TINY_BYTES: Final = 16 << 10
"""Smaller tables, on average, are copied into one: a table of 4,000 pieces is written in thrice the time."""
_BLOOM: Final = "bloom_filter_options" in inspect.signature(pq.ParquetWriter).parameters
"""Whether this pyarrow can write Bloom filters."""


class NotSorted(Exception):  # noqa: N818 - the name says what happened, as in minutebook.errors
    """Rows are out of order in a file whose first row groups have declared a sort order."""


_BOUNDED: Final = ("shard_id", "sequence_number", "sub_sequence_number", "arrival_time", "segment")
_FOOTER_BYTES: Final = 64 << 10


def read_footer(out: RetryingStorage, key: str) -> Tail:
    """Return a file's footer as a Parquet file of its own, for pyarrow, and the size of the whole file."""
    tail = out.read_tail(key, _FOOTER_BYTES)
    footer = int.from_bytes(tail.data[-8:-4], "little") + 8
    data = tail.data if footer <= len(tail.data) else out.read_tail(key, footer).data
    return Tail(b"PAR1" + data[-footer:], tail.size, tail.etag)


class HashedSink:
    """Implements `Sink` on another one, and digests what is written."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._hash = hashlib.sha256()

    @property
    def closed(self) -> bool:
        """Return whether the file is finished or aborted."""
        return self._sink.closed

    @property
    def size(self) -> int:
        """Return the bytes written so far."""
        return self._sink.size

    @property
    def digest(self) -> str:
        """The SHA-256 of the bytes written so far, in hex."""
        return self._hash.hexdigest()

    def write(self, data: bytes) -> int:
        """Append."""
        self._hash.update(data)
        return self._sink.write(data)

    def close(self) -> None:
        """Finish the file."""
        self._sink.close()

    def abort(self) -> None:
        """Discard the file."""
        self._sink.abort()


class _ParquetFile(abc.ABC):
    """A Parquet file that grows by tables, which wait for their row group; memory is one row group.

    `columns` are the typed ones that the rows have. `is_sorted` False: the file declares no sort order.
    """

    def __init__(
        self,
        sink: Sink,
        columns: Columns | None = None,
        *,
        zstd_level: int = ZSTD_LEVEL,
        is_sorted: bool = True,
        row_group_bytes: int = ROW_GROUP_BYTES,
    ) -> None:
        self._sink = HashedSink(sink)
        self._schema = SCHEMA if columns is None else pa.schema([*SCHEMA, *columns.fields], CALENDAR)
        new = [] if columns is None else [field.name for field in columns.fields]
        # Lines of several events are repeated, others are in memory already.
        self._counted = [*SCHEMA.names, *new] if EVENT_INDEX in new else new
        self._typed = [] if columns is None else [*(path for path, _ in columns.leaves), UNFIT]
        self._zstd_level = zstd_level
        self._is_sorted = is_sorted
        self._row_group_bytes = row_group_bytes
        self._last: tuple[Any, ...] | None = None
        self._writer: pq.ParquetWriter | None = None
        self._pending: list[pa.Table] = []
        self._pending_bytes = 0
        self.rows = 0

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self._sink.size

    @property
    def digest(self) -> str:
        """The SHA-256 of the file in hex, once it is closed."""
        return self._sink.digest

    def close(self) -> None:
        """Write pending rows and finish the file, which exists only from now on. Raises NotSorted."""
        if self._pending or self._writer is None:
            self._write()
        if self._writer is not None:
            self._writer.close()
        self._sink.close()

    def abort(self) -> None:
        """Discard the file: nothing is stored."""
        self._sink.abort()
        if self._writer is not None:
            self._writer.is_open = False  # otherwise it writes a footer when it is garbage-collected

    def _wait(self, table: pa.Table) -> None:
        """Let a table wait for its row group."""
        self._pending.append(table)
        self._pending_bytes += table.nbytes
        if self._pending_bytes >= self._row_group_bytes:
            self._write()

    @abc.abstractmethod
    def _write(self) -> None:
        """Write what waits."""

    def _taken(self) -> list[pa.Table]:
        taken, self._pending, self._pending_bytes = self._pending, [], 0
        return taken

    def _write_group(self, table: pa.Table) -> None:
        """Write rows as a row group; where records are several rows, the lines of one may make several groups."""
        self.rows += table.num_rows
        in_order = self._is_sorted and self._ascends(table)
        if self._writer is None:
            self._is_sorted = in_order
            self._writer = self._begin(table)
        elif in_order != self._is_sorted:
            raise NotSorted
        self._writer.write_table(table, row_group_size=max(1, table.num_rows))

    def _ascends(self, table: pa.Table) -> bool:
        """Return whether rows ascend as text, from the last row of the previous row group on.

        Sequence numbers of different lengths do not; in practice a shard's have one length.
        """
        if not table.num_rows:
            return True
        columns = [table[name].combine_chunks() for name in _ORDER]
        first, last = (tuple(column[at].as_py() for column in columns) for at in (0, -1))
        before, self._last = self._last, last
        return (before is None or before <= first) and _is_ascending(columns)

    def _begin(self, first: pa.Table) -> pq.ParquetWriter:
        more: dict[str, Any] = {}
        if self._is_sorted:
            order = [(name, "ascending") for name in _ORDER]
            more["sorting_columns"] = pq.SortingColumn.from_ordering(self._schema, order)
        if _BLOOM:
            # The filters of all row groups have one size, chosen for the keys of the first.
            keys = max(1, pc.count_distinct(first["partition_key"]).as_py())
            more["bloom_filter_options"] = {"partition_key": {"ndv": keys, "fpp": 0.01}}
        return pq.ParquetWriter(
            pa.PythonFile(self._sink, mode="w"),
            self._schema,
            compression="zstd",
            compression_level=self._zstd_level,
            use_dictionary=["shard_id", "segment", *self._typed],
            column_encoding=dict.fromkeys(set(SCHEMA.names) - {"shard_id", "segment"}, "PLAIN"),
            write_statistics=[*_BOUNDED, *self._typed],
            write_page_index=True,
            **more,
        )


class ParquetRows(_ParquetFile):
    """A Parquet file that grows by tables of rows, in the file's columns."""

    def add(self, rows: pa.Table) -> None:
        """Append rows; raise NotSorted if a declared order breaks."""
        self._wait(rows)

    def _write(self) -> None:
        self._write_group(pa.concat_tables([self._schema.empty_table(), *self._taken()]))


class ParquetPart(_ParquetFile):
    """A Parquet file that grows by tables of lines.

    `records` counts lines; `rows` are those of the file, which are more where a record may hold several events.
    `columns` are typed columns of the payloads, which `schemas` of a registry may decode.
    """

    def __init__(
        self,
        sink: Sink,
        columns: Columns | None = None,
        *,
        zstd_level: int = ZSTD_LEVEL,
        is_sorted: bool = True,
        row_group_bytes: int = ROW_GROUP_BYTES,
        schemas: Schemas | None = None,
    ) -> None:
        super().__init__(sink, columns, zstd_level=zstd_level, is_sorted=is_sorted, row_group_bytes=row_group_bytes)
        self._payload_columns = None if columns is None else new_payload_columns(columns, schemas)
        self._segments: list[pa.StringArray] = []
        self.records = 0

    def add(self, lines: pa.Table, segment: str | pa.StringArray) -> None:
        """Append lines of one segment, or of the one each row names; raise NotSorted if a declared order breaks."""
        self._segments.append(constant_column(segment, lines.num_rows) if isinstance(segment, str) else segment)
        self.records += lines.num_rows
        self._wait(lines)

    @property
    def typed(self) -> TypedCounts | None:
        """The counts of the typed columns, if there are any; complete once the file is closed."""
        return None if self._payload_columns is None else self._payload_columns.counts()

    def _write(self) -> None:
        tables, segments = self._taken(), pa.chunked_array(self._segments, type=pa.string())
        self._segments.clear()
        lines = pa.concat_tables([LINE_SCHEMA.empty_table(), *tables])
        if lines.nbytes < len(tables) * _TINY_BYTES:
            lines, segments = lines.combine_chunks(), segments.combine_chunks()
        table = _rows(lines, segments)
        if self._payload_columns is None:
            self._write_group(table)
            return
        group, size = [self._schema.empty_table()], 0
        for part in self._payload_columns.tables_of(table):
            group.append(part)
            size += sum(part[name].nbytes for name in self._counted)
            if size >= self._row_group_bytes:
                self._write_group(pa.concat_tables(group))
                group, size = [], 0
        if group:
            self._write_group(pa.concat_tables(group))


def _is_ascending(columns: list[pa.Array]) -> bool:
    """Return whether rows ascend by these columns, or are equal."""
    if len(columns[0]) < 2:  # noqa: PLR2004 - a pair
        return True
    first, second, *_ = columns
    if pc.all(pc.equal(first, first[0])).as_py() and pc.all(pc.greater(second[1:], second[:-1])).as_py():
        return True  # the usual case of one shard, with half of the comparisons
    result: pa.Array | None = None
    for column in reversed(columns):
        before, after = column[:-1], column[1:]
        if result is None:
            result = pc.greater_equal(after, before)
        else:
            result = pc.or_(pc.greater(after, before), pc.and_(pc.equal(after, before), result))
    return bool(pc.all(result).as_py())


def _rows(lines: pa.Table, segments: pa.StringArray | pa.ChunkedArray) -> pa.Table:
    return pa.Table.from_arrays(
        [
            lines["shard_id"],
            lines["sequence_number"],
            lines["sub_sequence_number"],
            lines["partition_key"],
            lines["arrival_ms"].cast(pa.timestamp("ms", "UTC")).cast(SCHEMA.field("arrival_time").type),
            lines["data"],
            lines["data_bytes"],
            segments,
        ],
        schema=SCHEMA,
    )
