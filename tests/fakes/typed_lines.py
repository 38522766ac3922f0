"""Payloads as lines of a segment, and the columns that they are read into."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from compaction.columns.columns import Columns
from compaction.columns.counts import TypedCounts
from compaction.columns.decode.decoder import new_payload_columns
from compaction.columns.files.columns_file import parse_columns
from compaction.columns.payload_columns import PayloadColumns
from compaction.parquet.line_tables import table_of_records
from minutebook.format.record import Record
from minutebook.published.schema import SCHEMA


def lines_of(payloads: Sequence[bytes]) -> pa.Table:
    """Return payloads as lines of shard `s`, at the positions 1:0, 2:0 and so on."""
    records = [
        Record(str(number), 0, "key", 1_795_256_161_790, payload) for number, payload in enumerate(payloads, 1)
    ]
    return table_of_records([("s", record) for record in records])


def mapping(columns: Mapping[str, Any], decode: Sequence[Any] = ()) -> Columns:
    """Return the columns of a mapping: name -> type, or name -> {path, type, required}."""
    document = {"decode": [*decode], "columns": columns}
    return parse_columns(json.dumps(document).encode(), "columns.json", SCHEMA.names, is_toml=False)


def columns_of(payload_columns: PayloadColumns, lines: pa.Table) -> list[pa.ChunkedArray]:
    """Return the columns of lines, `_unfit` last; where no record holds several events."""
    tables = [*payload_columns.tables_of(lines)]
    assert sum(table.num_rows for table in tables) == lines.num_rows
    return pa.concat_tables(tables).columns[lines.num_columns :]


def widened(
    columns: Mapping[str, Any], payloads: Sequence[bytes], decode: Sequence[Any] = ()
) -> tuple[list[dict[str, Any]], TypedCounts]:
    """Return the typed part of the rows, and what was counted."""
    wanted = mapping(columns, decode)
    payload_columns = new_payload_columns(wanted)
    arrays = columns_of(payload_columns, lines_of(payloads))
    table = pa.Table.from_arrays(arrays, schema=pa.schema(wanted.fields))
    return table.to_pylist(), payload_columns.counts()


def typed(kind: str, *values: str) -> list[tuple[Any, str | None]]:
    """Return (value, reason) of a column `x` of a type, for JSON texts."""
    rows, _ = widened({"x": kind}, [f'{{"x":{value}}}'.encode() for value in values])
    return [(row["x"], row["_unfit"]) for row in rows]
