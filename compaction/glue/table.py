"""The table over the symlinks, as Glue's API and Athena's DDL say it. Nothing here talks to anybody.

    table       LOCATION <out>_symlinks/            no file of the table lies below it, only lists of files
    partition   LOCATION <out>_symlinks/dt=D/       holds one object, `manifest`: the addresses of the day's files

`SymlinkTextInputFormat` reads the addresses in place of rows. A partition names the folder, never a generation: when
a day is published anew its list is replaced in one write, and the catalog has nothing to learn.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from archive.errors import SettingsError
from archive.format.day import Day
from compaction.glue.widening import wider
from compaction.publish.conflicts import Conflict

DAY_COLUMN: Final = "dt"
INPUT_FORMAT: Final = "org.apache.hadoop.hive.ql.io.SymlinkTextInputFormat"
OUTPUT_FORMAT: Final = "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat"
SERDE: Final = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
PARAMETERS: Final = {"EXTERNAL": "TRUE", "classification": "parquet", "minutebook.format": "1"}
_TYPES: Final = {
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.date32(): "date",
}


class Column(NamedTuple):
    """A column of the catalog: name and Hive type."""

    name: str
    kind: str


def columns_of(schema: pa.Schema) -> tuple[Column, ...]:
    """Return the columns of a file as Hive writes them; raises SettingsError for a type that Hive has not."""
    return tuple(Column(field.name, _hive_type(field.type, field.name)) for field in schema)


def _hive_type(kind: pa.DataType, name: str) -> str:
    if kind in _TYPES:
        return _TYPES[kind]
    if pa.types.is_timestamp(kind):
        return "timestamp"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_dictionary(kind):
        return _hive_type(kind.value_type, name)
    if pa.types.is_list(kind):
        return f"array<{_hive_type(kind.value_type, name)}>"
    if pa.types.is_struct(kind):
        return "struct<" + ",".join(f"{part.name}:{_hive_type(part.type, name)}" for part in kind) + ">"
    raise SettingsError(
        f"column {name} is of type {kind}, which has no name in Hive", next_step="leave --glue out for this day"
    )


class United(NamedTuple):
    """The columns of a table with those of a day, and those of the day that do not fit the table's."""

    columns: tuple[Column, ...]
    conflicts: tuple[Conflict, ...]


def unite(present: Iterable[Column], wanted: Sequence[Column], former: Sequence[Column] = ()) -> United:
    """Return the columns of both: what is there stays where it is, and gets wider; new ones come last.

    Names that differ in case alone are one column, as Hive and Athena read them: a table with both cannot be read.
    `former` are columns of other days' partitions that the table has no more: a new one of their name must hold them.
    """
    found = {column.name.lower(): column for column in present}
    conflicts = []
    for column in wanted:
        before = found.get(column.name.lower(), column)
        kind = wider(before.kind, column.kind)
        if kind is None:
            conflicts.append(Conflict(column.name, before.kind, column.kind))
        for other in former if before is column else ():
            if other.name.lower() == column.name.lower() and kind is not None:
                kind = wider(other.kind, was := kind)
                if kind is None:
                    conflicts.append(Conflict(column.name, f"partitions of other days with {other.kind} in it", was))
        found[column.name.lower()] = before if kind is None else Column(before.name, kind)
    return United(tuple(found.values()), tuple(conflicts))


def storage_descriptor(location: str, columns: Iterable[Column]) -> dict[str, Any]:
    """Return what Glue's API takes for where and how data is stored."""
    return {
        "Columns": [{"Name": column.name, "Type": column.kind} for column in columns],
        "Location": location,
        "InputFormat": INPUT_FORMAT,
        "OutputFormat": OUTPUT_FORMAT,
        "SerdeInfo": {"SerializationLibrary": SERDE},
    }


def table_input(name: str, location: str, columns: Iterable[Column]) -> dict[str, Any]:
    """Return a table as Glue's API takes it."""
    return {
        "Name": name,
        "TableType": "EXTERNAL_TABLE",
        "Parameters": dict(PARAMETERS),
        "PartitionKeys": [{"Name": DAY_COLUMN, "Type": "string"}],
        "StorageDescriptor": storage_descriptor(location, columns),
    }


def partition_input(day: Day, location: str, columns: Iterable[Column]) -> dict[str, Any]:
    """Return a day's partition as Glue's API takes it."""
    return {"Values": [str(day)], "StorageDescriptor": storage_descriptor(f"{location}dt={day}/", columns)}


def ddl(name: str, location: str, columns: Sequence[Column], first: Day) -> str:
    """Return Athena's DDL of a table that needs no registration: it computes its partitions from `first` to today.

    A day that is not published is an empty partition there, not an error.
    """
    width = max(len(column.name) for column in columns) + 2
    lines = ",\n".join(f"  {f'`{column.name}`':<{width}} {column.kind}" for column in columns)
    quoted = ".".join(f"`{part}`" for part in name.split("."))
    return (
        f"CREATE EXTERNAL TABLE {quoted} (\n{lines}\n)\n"
        f"PARTITIONED BY (`{DAY_COLUMN}` string)\n"
        f"ROW FORMAT SERDE '{SERDE}'\n"
        f"STORED AS INPUTFORMAT '{INPUT_FORMAT}'\n"
        f"OUTPUTFORMAT '{OUTPUT_FORMAT}'\n"
        f"LOCATION '{_text(location)}'\n"
        "TBLPROPERTIES (\n"
        "  'projection.enabled' = 'true',\n"
        f"  'projection.{DAY_COLUMN}.type' = 'date',\n"
        f"  'projection.{DAY_COLUMN}.format' = 'yyyy-MM-dd',\n"
        f"  'projection.{DAY_COLUMN}.range' = '{first},NOW',\n"
        f"  'projection.{DAY_COLUMN}.interval' = '1',\n"
        f"  'projection.{DAY_COLUMN}.interval.unit' = 'DAYS',\n"
        f"  'storage.location.template' = '{_text(location)}dt=${{{DAY_COLUMN}}}/'\n"
        ");\n"
    )


def _text(value: str) -> str:
    return value.replace("'", "''")
