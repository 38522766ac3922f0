"""`minutebook ddl`: Athena's DDL of a table of the published days, with Hive types of their columns.

When days differ, a column takes the type that holds the values of both:

    int, bigint                          bigint
    decimal(5,2), decimal(12,2)          decimal(12,2)
    struct<a:int>, struct<b:string>      struct<a:int,b:string>: new fields come last
    array<int>, array<bigint>            array<bigint>; also the values of map<string,...>
    struct<a:int>, struct<A:int>         struct<a:int>: engines ignore case, in files too
    any other two                        none: engines would fail on the files of one of them

Iceberg tables follow the same rules (`compaction.tables.evolution`), except that `a` and `A` are a conflict there.

    table       LOCATION <out>_symlinks/            holds lists of files, no files of the table
    partition   LOCATION <out>_symlinks/dt=D/       holds one object, `manifest`: the addresses of the day's files

`SymlinkTextInputFormat` reads the files at these addresses. Publishing a day anew replaces its list in one write, and
the table stays unchanged.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from compaction.commands.latest import latest_view
from compaction.job.request import DdlRequest
from compaction.job.settings import load_job_settings
from compaction.parquet.rows import read_footer
from compaction.publish.publisher import Publisher
from compaction.tables.plan import Conflict
from minutebook.clock import SystemClock
from minutebook.errors import ObjectVanished, SettingsError
from minutebook.format.day import Day, day_of_ms
from minutebook.published.generation import DayFolder
from minutebook.published.reading import published_days
from minutebook.published.schema import SCHEMA
from minutebook.store.parallel import in_parallel
from minutebook.store.places import StorePrefix, open_retrying
from minutebook.store.retrying import RetryingStorage

_BUDGET_SECONDS: Final = 60
_TABLE: Final = re.compile(r"[a-z0-9_-]{1,255}\.[a-z0-9_-]{1,255}", re.ASCII)
"""`database.table` in lower case, as Glue and Athena store names."""
_DAY_COLUMN: Final = "dt"
_INPUT_FORMAT: Final = "org.apache.hadoop.hive.ql.io.SymlinkTextInputFormat"
_OUTPUT_FORMAT: Final = "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat"
_SERDE: Final = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
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
_INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")
_FIELD: Final = re.compile(r"(?<=[<,])([^\W\d]\w*):")
_STRUCT: Final = re.compile(r"struct<(.*)>", re.DOTALL)
_NESTED: Final = re.compile(r"(array<|struct<|map<string,)(.*)>", re.DOTALL)


class CatalogColumn(NamedTuple):
    """A column's name and Hive type."""

    name: str
    kind: str


def columns_of(schema: pa.Schema) -> tuple[CatalogColumn, ...]:
    """Return the columns of a file in Hive's types; raises SettingsError for a type that Hive lacks."""
    return tuple(CatalogColumn(field.name, _hive_type(field.type, field.name)) for field in schema)


def _hive_type(kind: pa.DataType, name: str) -> str:
    if kind in _TYPES:
        return _TYPES[kind]
    if pa.types.is_timestamp(kind):
        return "timestamp"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_dictionary(kind):
        return _hive_type(kind.value_type, name)
    return _hive_container(kind, name)


def _hive_container(kind: pa.DataType, name: str) -> str:
    if pa.types.is_list(kind):
        return f"array<{_hive_type(kind.value_type, name)}>"
    if pa.types.is_map(kind):
        return f"map<{_hive_type(kind.key_type, name)},{_hive_type(kind.item_type, name)}>"
    if pa.types.is_struct(kind):
        return "struct<" + ",".join(f"{part.name}:{_hive_type(part.type, name)}" for part in kind) + ">"
    raise SettingsError(
        f"column {name} is of type {kind}, which has no name in Hive",
        next_step="give it another type in the file of --columns",
    )


class United(NamedTuple):
    """The columns of a table and a day, and those of the day that do not fit the table's."""

    columns: tuple[CatalogColumn, ...]
    conflicts: tuple[Conflict, ...]


def unite(table: Iterable[CatalogColumn], day: Iterable[CatalogColumn]) -> United:
    """Return the columns of both: those of the table keep their places and get wider, new ones come last.

    Names that differ only in case are one column, as for Hive and Athena: they could not read a table with both.
    """
    columns = {column.name.lower(): column for column in table}
    conflicts = []
    for column in day:
        before = columns.get(column.name.lower(), column)
        kind = wider(before.kind, column.kind)
        if kind is None:
            conflicts.append(Conflict(column.name, before.kind, column.kind))
        columns[column.name.lower()] = before if kind is None else CatalogColumn(before.name, kind)
    return United(tuple(columns.values()), tuple(conflicts))


def wider(first: str, second: str) -> str | None:
    """Return the type that holds the values of both; None: there is none."""
    if first == second:
        return first
    if first in _INTEGERS and second in _INTEGERS:
        return max(first, second, key=_INTEGERS.index)
    decimals = _DECIMAL.fullmatch(first), _DECIMAL.fullmatch(second)
    if decimals[0] and decimals[1] and decimals[0][2] == decimals[1][2]:
        return max(first, second, key=lambda text: int(text[8:].partition(",")[0]))
    nested = _NESTED.fullmatch(first), _NESTED.fullmatch(second)
    if nested[0] is None or nested[1] is None or nested[0][1] != nested[1][1]:
        return None
    if nested[0][1] == "struct<":
        return _struct(nested[0][2], nested[1][2])
    inner = wider(nested[0][2], nested[1][2])
    return None if inner is None else f"{nested[0][1]}{inner}>"


def _struct(first: str, second: str) -> str | None:
    fields = {name.lower(): (name, kind) for name, kind in _fields(first)}
    for name, kind in _fields(second):
        first_name, before = fields.get(name.lower(), (name, kind))
        both = wider(before, kind)
        if both is None:
            return None
        fields[name.lower()] = (first_name, both)
    return "struct<" + ",".join(f"{name}:{kind}" for name, kind in fields.values()) + ">"


def _fields(text: str) -> Iterator[tuple[str, str]]:
    """Yield the names and types of a struct's fields."""
    depth, begin = 0, 0
    for at, character in enumerate(f"{text},"):
        depth += (character in "<(") - (character in ">)")
        if character == "," and not depth:
            name, _, kind = text[begin:at].partition(":")
            yield name, kind
            begin = at + 1


def paths_of(columns: Iterable[CatalogColumn], before: str = "") -> Iterator[str]:
    """Yield the names of columns, and the paths of fields within structs, as in `dynamodb.Keys.id`."""
    for name, kind in columns:
        yield before + name
        struct = _STRUCT.fullmatch(kind)
        if struct is not None:
            yield from paths_of((CatalogColumn(*field) for field in _fields(struct[1])), f"{before}{name}.")


def athena_ddl(name: str, location: str, columns: Sequence[CatalogColumn], first: Day) -> str:
    """Return Athena's DDL of a table with projected partitions from `first` to today; unpublished days are empty."""
    width = max(len(column.name) for column in columns) + 2
    lines = ",\n".join(f"  {f'`{column.name}`':<{width}} {_with_quotes(column.kind)}" for column in columns)
    quoted = ".".join(f"`{part}`" for part in name.split("."))
    return (
        f"CREATE EXTERNAL TABLE {quoted} (\n{lines}\n)\n"
        f"PARTITIONED BY (`{_DAY_COLUMN}` string)\n"
        f"ROW FORMAT SERDE '{_SERDE}'\n"
        f"STORED AS INPUTFORMAT '{_INPUT_FORMAT}'\n"
        f"OUTPUTFORMAT '{_OUTPUT_FORMAT}'\n"
        f"LOCATION '{_text(location)}'\n"
        "TBLPROPERTIES (\n"
        "  'projection.enabled' = 'true',\n"
        f"  'projection.{_DAY_COLUMN}.type' = 'date',\n"
        f"  'projection.{_DAY_COLUMN}.format' = 'yyyy-MM-dd',\n"
        f"  'projection.{_DAY_COLUMN}.range' = '{first},NOW',\n"
        f"  'projection.{_DAY_COLUMN}.interval' = '1',\n"
        f"  'projection.{_DAY_COLUMN}.interval.unit' = 'DAYS',\n"
        f"  'storage.location.template' = '{_text(location)}dt=${{{_DAY_COLUMN}}}/'\n"
        ");\n"
    )


def _with_quotes(kind: str) -> str:
    """Return a Hive type with quoted names of fields: Hive's parser refuses `struct<select:int>`."""
    return _FIELD.sub(r"`\1`:", kind)


def _text(value: str) -> str:
    return value.replace("'", "''")


def print_ddl(request: DdlRequest, environ: Mapping[str, str]) -> int:
    """Print the DDL: its columns are those of all published days, and its partitions begin with the oldest day.

    With `latest_by` it is that of a view beside the table.
    """
    if request.ordered_by is not None and request.latest_by is None:
        raise SettingsError("--ordered-by needs --latest-by", next_step="write it as in --latest-by id")
    if _TABLE.fullmatch(request.table) is None:
        raise SettingsError(
            f"{request.table!r} is not a table of the catalog",
            next_step="write database.table in small letters: events.raw",
        )
    settings = load_job_settings(request.file, environ)
    place = settings.output(request.out)
    if place.address.bucket is None:
        raise SettingsError(
            f"the catalog cannot name {place.address.root}", next_step="publish to S3: --out s3://bucket/folder"
        )
    storage = open_retrying(place.address, _BUDGET_SECONDS)
    if request.latest_by is not None:
        united = published_table(storage, place, published_days(storage, place.prefix))
        paths = [*paths_of(united.columns)]
        texts = {column.name for column in united.columns if column.kind == "string"}
        sys.stdout.write(latest_view(request.table, paths, request.latest_by, request.ordered_by, texts=texts))
        return 0
    sys.stdout.write(ddl_of(storage, place, request.table, day_of_ms(SystemClock().now_ms())))
    return 0


def ddl_of(storage: RetryingStorage, place: StorePrefix, name: str, today: Day) -> str:
    """Return the DDL of the days that are published at a place; without any, of days from `today` on.

    The newest day's columns come first. A comment names each column whose type in older days does not fit: engines
    fail when they read it there.
    """
    days = published_days(storage, place.prefix)
    table = published_table(storage, place, days)
    symlinks = storage.uri(DayFolder(place.prefix, today).symlinks)
    location = symlinks.removesuffix(f"dt={today}/manifest")
    text = athena_ddl(name, location, table.columns, days[0] if days else today)
    return "".join(table.notes) + text


class PublishedTable(NamedTuple):
    """The columns of all published days, and a comment for each that does not fit in one of them."""

    columns: tuple[CatalogColumn, ...]
    notes: tuple[str, ...]


def published_table(storage: RetryingStorage, place: StorePrefix, days: Sequence[Day]) -> PublishedTable:
    """Return the columns of the published days; without any, those of every day."""
    columns: tuple[CatalogColumn, ...] | None = None
    notes = []
    for day in _last_of_each_kind(storage, place.prefix, days):
        of_day = published_columns(Publisher(storage, DayFolder(place.prefix, day)))
        if of_day is not None:
            columns, conflicts = unite(columns or (), of_day)
            notes += [
                f"-- column {column} is {has} here, and {comes} on {day}: leave it out there\n"
                for column, has, comes in conflicts
            ]
    return PublishedTable(columns or columns_of(SCHEMA), tuple(notes))


def _last_of_each_kind(storage: RetryingStorage, root: str, days: Sequence[Day]) -> list[Day]:
    """Return the newest day of each set of typed columns, the newest first."""

    def kind(day: Day) -> tuple[tuple[str, str], ...] | None:
        _, manifest = Publisher(storage, DayFolder(root, day)).published()
        # A day without rows has no file that would say what its columns are.
        has_rows = manifest is not None and any(file.rows for file in manifest.files)
        return tuple((manifest.columns or {}).items()) if manifest is not None and has_rows else None

    newest: dict[tuple[tuple[str, str], ...], Day] = {}
    latest_first = sorted(days, reverse=True)
    for day, columns in zip(latest_first, in_parallel(kind, latest_first), strict=True):
        if columns is not None:
            newest.setdefault(columns, day)
    return list(newest.values())


def published_columns(publisher: Publisher) -> tuple[CatalogColumn, ...] | None:
    """Return the columns of the day; None when it is not published. A day without rows has those of every day."""
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
