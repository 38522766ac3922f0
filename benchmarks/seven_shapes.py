"""Seven shapes of payloads, day after day, in one Iceberg table: each reader's rows against what was sent.

Clicks, Debezium with drift, DynamoDB's changes, CloudWatch Logs, Avro of Glue's registry, several events a record,
and mixed clocks. Each day has a file of columns of its own, and the table's columns are those of all of them, as wide
as any day needs. At the end a record comes late to some of the days, in a night that is given other columns.

What must be read is told from the values before they were written (`benchmarks.shapes`), and every value of every
row is compared. pyiceberg, and DuckDB on its scan, read the table here; `make readers` asks DuckDB's own extension,
Spark 3.5 and Spark 4, and about the DDL the parser of the Hive that Spark brings.

    python -m benchmarks seven_shapes [--records 20] [--jar iceberg-spark-runtime.jar]
"""

import argparse
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa

from benchmarks.readers import duckdb_itself, duckdb_of_scan, hive_columns, spark_itself
from benchmarks.shapes.clickstream import CLICKSTREAM
from benchmarks.shapes.clocks import CLOCKS, ZONES
from benchmarks.shapes.cloudwatch import CLOUDWATCH, CLOUDWATCH_LISTS
from benchmarks.shapes.debezium import DEBEZIUM, NEW_KEYS
from benchmarks.shapes.dynamodb import DYNAMODB
from benchmarks.shapes.glue_avro import GLUE_AVRO, SCHEMAS
from benchmarks.shapes.sent import Sent, Shape, at_microseconds
from benchmarks.shapes.several_events import BATCHES, DOCUMENTS
from compaction.columns.decode.registered import SchemaPlace
from compaction.columns.files.columns_file import read_columns
from compaction.commands.ddl import ddl_of
from compaction.local.engine import LocalEngine
from compaction.night.rewrite import Compacted
from compaction.tables.table import IcebergTable
from minutebook.aws.access import PLAIN
from minutebook.format.day import Day
from minutebook.format.record import Record
from minutebook.published.schema import SCHEMA
from minutebook.store.places import StorePrefix, open_retrying, open_storage
from minutebook.store.storage import Address
from tests.corpus.desk import Desk
from tests.corpus.typed_day import payload_day
from tests.fakes.glue import FakeGlue
from tests.integration.lake import DAY, Lake, local_lake

DAYS: Final[tuple[Shape, ...]] = (
    CLICKSTREAM,
    DEBEZIUM,
    DYNAMODB,
    CLOUDWATCH,
    CLOUDWATCH_LISTS,
    GLUE_AVRO,
    DOCUMENTS,
    BATCHES,
    CLOCKS,
    ZONES,
)
"""Seven shapes; three of them in two kinds, each of which is a day."""
_LATE: Final = (DEBEZIUM, GLUE_AVRO, BATCHES)
"""Days to which a record comes late."""
_SCAN: Final = "pyiceberg's scan"
_MAP: Final = "map"
Kind = None | str | list[Any] | dict[str, Any]
"""A scalar (None), a map, a list of something, or a struct of named things."""
_ROW: Final = dict.fromkeys(("id", "price", "quantity", "name", "tier", "born", "seen"))
TABLE: Final[dict[str, Kind]] = {
    **dict.fromkeys(("shard_id", "sequence_number", "sub_sequence_number", "partition_key", "arrival_time")),
    **dict.fromkeys(("data", "data_bytes", "segment")),
    **dict.fromkeys(("id", "n", "amount", "page", "at", "day", "ratio", "is_bot")),
    "who": dict.fromkeys(("id", "name", "tier")),
    "items": [dict.fromkeys(("sku", "price", "quantity"))],
    "tags": [None],
    "labels": _MAP,
    "extra": None,
    "_unfit": None,
    "op": None,
    "before": _ROW,
    "after": _ROW,
    "source": dict.fromkeys(("db", "table", "lsn", "from")),
    **dict.fromkeys(("event_name", "big", "fine", "blob")),
    "numbers": [None],
    "blobs": [None],
    **dict.fromkeys(("event_index", "kind", "log_group", "message", "note")),
    **dict.fromkeys(("seconds", "millis", "micros", "nanos", "wall", "wall_millis")),
    **dict.fromkeys(("days", "later", "here", "slashes")),
    "times": {"at": None, "nanos": None, "day": None, "list": [None]},
}
"""The columns that the table must have in the end."""
_QUERY: Final = (
    "select * from day order by arrival_time, shard_id, length(sequence_number), sequence_number, "
    "sub_sequence_number, event_index nulls first"
)
_PLACE: Final = ("arrival_time", "shard_id", "sequence_number", "event_index")
Row = dict[str, Any]


class Made(NamedTuple):
    """The rows that must be read, in order, and the DDL of the published days."""

    rows: list[Row]
    ddl: str


def main(arguments: list[str]) -> int:
    """Run it. Exit code 1 when a reader has another row than was sent."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks seven_shapes", description=__doc__)
    parser.add_argument("--records", type=int, default=20, help="records a segment, of which a day has 18")
    parser.add_argument("--jar", type=Path, help="iceberg-spark-runtime of the PySpark that is on the path")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="minutebook-shapes-") as folder, ExitStack() as stack:
        lake = local_lake(Path(folder, "lake"))
        made = make(lake, Path(folder), options.records)
        readers = [duckdb_of_scan(lake), stack.enter_context(duckdb_itself(lake))]
        if options.jar is not None:
            readers.append(stack.enter_context(spark_itself(lake, options.jar, Path(folder))))
        found = {_SCAN: of_scan(lake)}
        for reader in readers:
            if reader is not None:
                found[reader.name] = reader.table(_QUERY)
        wrong = dict[str, list[str]]()
        for name, table in found.items():
            rows = rows_of(table)
            emptied = with_null_lists(rows, made.rows) if _SCAN in name else 0
            wrong[name] = compare(rows, made.rows)
            but = f", but for {emptied} null lists of structs that it reads as empty ones" if emptied else ""
            sys.stdout.write(f"{'WRONG' if wrong[name] else 'right'}: {name}{but}\n")
            sys.stdout.writelines(f"  {each}\n" for each in wrong[name])
        sys.stdout.write(f"{len(made.rows):,} rows of {len(DAYS)} days, {len(TABLE)} columns each\n")
        if options.jar is not None:
            wrong["Hive's parser"] = _ask_hive(made.ddl)
    return min(sum(map(len, wrong.values())), 1)


def _ask_hive(ddl: str) -> list[str]:
    """Let Hive parse the DDL, and the same without quotes around the names of fields, which it must refuse."""
    columns = hive_columns(ddl)
    differences = [] if sorted(columns or ()) == sorted(TABLE) else [f"Hive's columns: {columns}"]
    if hive_columns(re.sub(r"`(\w+)`:", r"\1:", ddl)) is not None:
        differences.append("Hive's parser takes `struct<from:string>`, too")
    sys.stdout.write(
        f"{'WRONG' if differences else 'right'}: Hive's parser, {len(columns or ())} columns of the DDL\n"
    )
    sys.stdout.writelines(f"  {each}\n" for each in differences)
    return differences


class Night(NamedTuple):
    """A day's archive, its payloads in their order, and the rows that they must become."""

    shape: Shape
    day: Day
    desk: Desk
    sent: list[Sent]

    def rows(self) -> list[Row]:
        """Return the rows of the day, in any order. A record that came late has the payload of the last one."""
        sent = iter(self.sent)
        rows = list[Row]()
        for shard in self.desk.corpus.shards:
            for stored in (shard.segments[index] for index in shard.in_day(self.day)):
                for record in stored.records:
                    each = self.sent[-1] if stored.metadata.writer.endswith("late") else next(sent)
                    rows += _rows(each, shard.shard_id, stored.key, record)
        return rows


def make(lake: Lake, folder: Path, records: int) -> Made:
    """Let the nights pass: one for each day, and one more for each late record."""
    os.environ.setdefault("AWS_ACCESS_KEY_ID", "test")
    os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "test")
    place = StorePrefix(Address(None, str(folder / "out")), "tables/")
    glue, nights = FakeGlue(), [_night(shape, folder, place, records) for shape in DAYS]
    for version, schema in SCHEMAS.items():
        if glue.register(schema) != version:
            raise RuntimeError(version)
    with glue.serving() as address, ExitStack() as stack:
        engine = LocalEngine(stack, lambda: None, lambda: nullcontext(lambda *_: None))

        def pass_by(night: Night, file: Path) -> Compacted:
            with lake.catalog() as catalog:
                done = night.desk.compact(
                    day=night.day,
                    columns=read_columns(file, SCHEMA.names),
                    table=IcebergTable(catalog, lake.name),
                    engine=engine,
                    schemas=lambda out: SchemaPlace("us-east-1", address, PLAIN, out),
                )
            if done.table is None or done.table.state != "committed" or done.result is None:
                raise RuntimeError(done)
            return done

        for night in nights:
            done = pass_by(night, _file(folder, night.shape))
            _check_audit(night, done)
        glue.versions.clear()
        for night in nights:
            if night.shape in _LATE:
                night.desk.archive_more()
                done = pass_by(night, _file(folder, CLICKSTREAM))
                if not done.keeps_columns:
                    raise RuntimeError(done)
                _check_audit(night, done)
    rows = sorted((row for night in nights for row in night.rows()), key=_place)
    storage = open_retrying(place.address, 1)
    return Made([_plain_row(row) for row in rows], ddl_of(storage, place, lake.name, nights[-1].day))


def _file(folder: Path, shape: Shape) -> Path:
    return folder / str(DAYS.index(shape)) / "columns.toml"


def _night(shape: Shape, folder: Path, place: StorePrefix, records: int) -> Night:
    """Write the archive of a shape's day, and its file of columns."""
    day, sent = DAY.shift(DAYS.index(shape)), list[Sent]()
    size = records * 18

    def payload_of(number: int) -> bytes:
        sent.append(shape.send(number, size))
        return sent[-1].payload

    file = _file(folder, shape)
    desk = Desk(file.parent, payload_day(day, records, payload_of))
    desk.out, desk.storage = place, open_storage(place.address)
    desk.clock.advance(20 * 86_400)
    file.write_text(shape.columns)
    if len(sent) != size:
        raise RuntimeError(f"{len(sent)} payloads, not {size}")
    return Night(shape, day, desk, sent)


def _rows(sent: Sent, shard_id: str, segment: str, record: Record) -> list[Row]:
    """Return the rows of a record."""
    raw: Row = {"data": None, "data_bytes": sent.payload}
    with suppress(UnicodeDecodeError):
        raw = {"data": sent.payload.decode(), "data_bytes": None}
    envelope: Row = {
        "shard_id": shard_id,
        "sequence_number": record.sequence_number,
        "sub_sequence_number": record.sub_sequence_number,
        "partition_key": record.partition_key,
        "arrival_time": at_microseconds(record.arrival_ms * 1000),
        "segment": segment,
    }
    return [
        envelope
        | (raw if number == 0 else dict.fromkeys(raw))
        | dict(event.values)
        | {"_unfit": event.unfit, "event_index": event.event_index}
        for number, event in enumerate(sent.events)
    ]


def _place(row: Row) -> tuple[Any, ...]:
    """Return what rows are ordered by: each day has positions of its own."""
    index = row["event_index"]
    return row["arrival_time"], row["shard_id"], int(row["sequence_number"]), -1 if index is None else index


def _check_audit(night: Night, done: Compacted) -> None:
    """Compare the numbers that the night states with those of the rows that must be read."""
    rows, typed = night.rows(), None if done.result is None else done.result.audit.typed
    if done.result is None or typed is None or done.result.audit.verdict != "clean":
        raise RuntimeError(done)
    said = {column.name: column.filled for column in typed.columns}
    filled = {name: sum(row.get(name) is not None for row in rows) for name in said}
    numbers = (typed.rows, typed.unfit, said)
    expected = (len(rows), sum(row["_unfit"] is not None for row in rows), filled)
    if numbers != expected or not typed.balanced:
        raise RuntimeError(f"{night.shape.name}: {numbers}, expected {expected}")
    unknown = {key.path for key in typed.unknown.keys} if typed.unknown is not None else set[str]()
    if night.shape is DEBEZIUM and not unknown.issuperset(NEW_KEYS):
        raise RuntimeError(f"the new keys are not named: {unknown}")


def of_scan(lake: Lake) -> pa.Table:
    """Return what pyiceberg's scan reads of the table, in the order of positions."""
    table = lake.table(lambda table: table.scan().to_arrow())
    places = [_place(row) for row in table.select([*_PLACE]).to_pylist()]
    return table.take(sorted(range(len(places)), key=places.__getitem__))


def rows_of(table: pa.Table) -> list[Row]:
    """Return a reader's rows as they are compared."""
    if sorted(table.column_names) != sorted(TABLE):
        raise RuntimeError(f"columns {sorted(table.column_names)}, not {sorted(TABLE)}")
    return [_plain_row(row) for row in table.to_pylist()]


def _plain_row(row: Mapping[str, Any]) -> Row:
    return {name: _plain(row.get(name), kind) for name, kind in TABLE.items()}


def _plain(value: Any, kind: Kind) -> object:  # noqa: ANN401 - whatever a reader gives
    """Return a value as it is compared."""
    if value is None:
        return None
    if isinstance(kind, dict):
        return {name: _plain(value.get(name), inner) for name, inner in kind.items()}
    if isinstance(kind, list):
        return [_plain(each, kind[0]) for each in value]
    if kind == _MAP:
        return [*map(tuple, value.items() if isinstance(value, dict) else value)]
    return _plain_scalar(value)


def _plain_scalar(value: object) -> object:
    """Return decimals, times and floats as text with all their digits."""
    if isinstance(value, datetime):
        is_local = value.tzinfo is None
        return value.isoformat() if is_local else f"{value.astimezone(UTC).replace(tzinfo=None).isoformat()}Z"
    if isinstance(value, Decimal):
        return f"{value:f}"
    return value if isinstance(value, bool | int | str | bytes) else repr(value)


def with_null_lists(found: Sequence[Row], expected: Sequence[Row]) -> int:
    """Make lists of structs null that are empty and must be null; return how many there were.

    pyiceberg 0.12 reads each null list of structs as an empty one (apache/iceberg-python#3833).
    """
    count = 0
    for row, wanted in zip(found, expected, strict=False):
        for name in [name for name, kind in TABLE.items() if isinstance(kind, list) and isinstance(kind[0], dict)]:
            if row[name] == [] and wanted[name] is None:
                row[name] = None
                count += 1
    return count


def compare(found: Sequence[Row], expected: Sequence[Row]) -> list[str]:
    """Return what differs: the first value of each column, and in how many rows."""
    if len(found) != len(expected):
        return [f"{len(found)} rows, not {len(expected)}"]
    wrong, first = Counter[str](), dict[str, str]()
    for row, wanted in zip(found, expected, strict=True):
        for name in [name for name, value in wanted.items() if row[name] != value]:
            wrong[name] += 1
            first.setdefault(
                name, f"{row[name]!r}, not {wanted[name]!r}, of {wanted['data'] or wanted['data_bytes']!r}"
            )
    return [f"{name}: {count} rows, the first has {first[name]}" for name, count in wrong.items()]
