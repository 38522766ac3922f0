"""Read rows of published days, split them by event day, sort and write them."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from compaction.columns.columns import EVENT_INDEX, EVENT_TIME
from compaction.columns.event_time import day_numbers
from compaction.parquet.fetching import parquet_batches
from compaction.parquet.rows import CALENDAR, PARQUET_TYPE, ROW_GROUP_BYTES, ZSTD_LEVEL
from compaction.tasks.finished import Part, check_footer
from minutebook.clock import new_id
from minutebook.errors import FormatError
from minutebook.store.retrying import RetryingStorage

_ROWS: Final = 32_768
"""Rows that are read and split at once."""
_WIDE: Final = frozenset({"partition_key", "data", "data_bytes"})
"""Columns without statistics, as in the table's properties."""
_PLAIN: Final = _WIDE | {"sequence_number", "sub_sequence_number", "arrival_time", EVENT_TIME}
"""Columns without dictionary: their values hardly repeat."""


class EventFile(NamedTuple):
    """A file of rows of one event day (days since 1970; None: no event time). `held`: bytes of the rows in memory."""

    key: str
    rows: int
    size: int
    day: int | None
    held: int


def read_batches(storage: RetryingStorage, key: str) -> Iterator[pa.Table]:
    """Yield the rows of a file in order; raise FormatError if it has no `event_time`, or does not parse."""
    for batch in parquet_batches(storage, key, _ROWS):
        if EVENT_TIME not in batch.schema.names:
            raise FormatError(f"{key} has no column {EVENT_TIME}", next_step="run minutebook compact for the day")
        yield pa.Table.from_batches([batch])


def by_event_day(table: pa.Table) -> Iterator[tuple[int | None, pa.Table]]:
    """Yield the rows of each event day."""
    numbers = day_numbers(table[EVENT_TIME].combine_chunks())
    days = pc.unique(numbers).to_pylist()
    for day in days:
        is_of_day = pc.is_null(numbers) if day is None else pc.fill_null(pc.equal(numbers, day), False)
        yield day, table if len(days) == 1 else table.filter(is_of_day)


def write_sorted(storage: RetryingStorage, folder: str, day: int | None, tables: Sequence[pa.Table]) -> EventFile:
    """Write rows of one event day to a file of a new name, sorted by event, shard and position.

    Raises FormatError if the stored file is not what was written.
    """
    rows = _sorted(pa.concat_tables(tables))
    key = f"{folder}{'none' if day is None else day}-{new_id()[:16]}.parquet"
    with (
        storage.writing(key, PARQUET_TYPE) as sink,
        _writer(pa.PythonFile(sink, mode="w"), rows.schema) as writer,
    ):
        writer.write_table(rows, row_group_size=max(1, rows.num_rows * ROW_GROUP_BYTES // max(1, rows.nbytes)))
    check_footer(storage, Part(key, rows.num_rows, sink.size, 0))
    return EventFile(key, rows.num_rows, sink.size, day, rows.nbytes)


def _sorted(rows: pa.Table) -> pa.Table:
    """Sort by event, shard and position, sequence numbers as numbers: a shorter one is less.

    Events of one record that have the same time stay in their order.
    """
    keys = {
        "event": rows[EVENT_TIME],
        "shard": rows["shard_id"],
        "digits": pc.binary_length(rows["sequence_number"]),
        "sequence": rows["sequence_number"],
        "sub": rows["sub_sequence_number"],
        **({"index": rows[EVENT_INDEX]} if EVENT_INDEX in rows.schema.names else {}),
    }
    order = pc.sort_indices(pa.table(keys), sort_keys=[(name, "ascending") for name in keys])
    return rows.take(order)


def _writer(sink: pa.PythonFile, schema: pa.Schema) -> pq.ParquetWriter:
    leaves = _leaves(schema)
    return pq.ParquetWriter(
        sink,
        schema.with_metadata(CALENDAR),
        compression="zstd",
        compression_level=ZSTD_LEVEL,
        use_dictionary=[leaf for leaf in leaves if leaf not in _PLAIN],
        write_statistics=[leaf for leaf in leaves if leaf not in _WIDE],
        write_page_index=True,
        sorting_columns=[pq.SortingColumn(leaves.index(name)) for name in (EVENT_TIME, "shard_id")],
    )


def _leaves(schema: pa.Schema) -> list[str]:
    """Return the paths of the Parquet columns of a schema."""
    sink = pa.BufferOutputStream()
    pq.ParquetWriter(sink, schema).close()
    written = pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema
    return [written.column(number).path for number in range(len(written))]
