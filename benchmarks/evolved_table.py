"""A table whose columns evolved, and every reader's answer: before the evolution (time travel) and after it.

Two days go into an Iceberg table: the second one brings a new column, and wider ones with values that the narrow ones
do not hold. pyiceberg reads both snapshots, DuckDB counts what pyiceberg's scan gives it; with `--jar`, Iceberg's
runtime for the PySpark that is on the path, Spark reads the files of the table by itself:

    PYTHONPATH=.cache/spark-4.0 python -m benchmarks evolved_table --jar iceberg-spark-runtime-4.0_2.13-1.10.1.jar
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import duckdb

from archive.format.day import Day
from compaction.iceberg.table import IcebergTable
from tests.corpus.desk import Desk
from tests.corpus.typed_day import payload_day
from tests.fakes.typed_lines import mapping
from tests.integration.lake import DAY, NEXT, Lake, local_lake

_CARRIERS: Final = ("AA", "DL", "UA")
_NARROW: Final = {"carrier": "string", "n": "int32", "price": "decimal(5,2)", "who": "struct<a: int32>"}
_WIDE: Final = {
    "carrier": "string",
    "n": "int64",
    "price": "decimal(20,2)",
    "who": "struct<a: int64, b: string>",
    "new": "bool",
}
_COUNTS: Final = "select carrier, count(*) from day group by 1 order by 1"
_SUMS: Final = "select count(*), sum(n), sum(price), sum(who.a) from day"
_NEW: Final = "select count(new), count(who.b) from day where n > 2147483647"

Ask = Callable[[str, int | None], list[tuple[Any, ...]]]
"""Asks a reader, of a snapshot (None: the current one)."""


class Answers(NamedTuple):
    """What a reader said of the snapshot before, and of the table as it is."""

    reader: str
    before: list[list[tuple[Any, ...]]]
    after: list[list[tuple[Any, ...]]]


def main(arguments: list[str]) -> int:
    """Run it. Exit code 1 when two readers differ, or one is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks evolved_table", description=__doc__)
    parser.add_argument("--jar", type=Path, help="iceberg-spark-runtime of the PySpark that is on the path")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="minutebook-evolved-") as folder:
        lake = local_lake(Path(folder, "lake"))
        _commit(lake, Path(folder, "narrow"), DAY, _NARROW, 1)
        first = lake.table(lambda table: table.current_snapshot().snapshot_id)
        _commit(lake, Path(folder, "wide"), NEXT, _WIDE, 1 << 40)
        found = [_answers("DuckDB, of pyiceberg's scan", _duckdb(lake), first)]
        if options.jar is not None:
            with _spark(lake, options.jar, Path(folder)) as (name, ask):
                found.append(_answers(name, ask, first))
    for answers in found:
        sys.stdout.write(f"{answers.reader}\n  before: {answers.before}\n  after:  {answers.after}\n")
    right = all(answers[1:] == _expected() for answers in found)
    sys.stdout.write("all readers agree\n" if right else f"A READER IS WRONG: expected {_expected()}\n")
    return 0 if right else 1


def _payload(number: int, times: int) -> bytes:
    fields = {
        "carrier": _CARRIERS[number % 3],
        "n": number * times,
        "price": f"{number * times}.25",
        "who": {"a": number * times, "b": "x"},
        "new": True,
    }
    return json.dumps(fields).encode()


def _commit(lake: Lake, folder: Path, day: Day, columns: dict[str, str], times: int) -> None:
    desk = Desk(folder, payload_day(day, 2, lambda number: _payload(number, times)))
    desk.clock.advance(2 * 86_400)
    with lake.catalog() as catalog:
        done = desk.compact(day=day, columns=mapping(columns), table=IcebergTable(catalog, lake.name))
    if done.table is None or done.table.state != "committed":
        raise RuntimeError(done)


def _answers(reader: str, ask: Ask, first: int) -> Answers:
    return Answers(
        reader,
        [ask(query, first) for query in (_COUNTS, _SUMS)],
        [ask(query, None) for query in (_COUNTS, _SUMS, _NEW)],
    )


def _expected() -> tuple[list[Any], list[Any]]:
    rows, total = 36, sum(range(36))
    both = total * (1 + (1 << 40))
    return (
        [[(carrier, rows // 3) for carrier in _CARRIERS], [(rows, total, f"{total + rows // 4}.00", total)]],
        [
            [(carrier, 2 * rows // 3) for carrier in _CARRIERS],
            [(2 * rows, both, f"{both + rows // 2}.00", both)],
            [(rows - 1, rows - 1)],
        ],
    )


def _plain(rows: list[Any]) -> list[tuple[Any, ...]]:
    """Return rows as they are compared: decimals as text, which shows their scale."""
    return [tuple(value if isinstance(value, int | str) else str(value) for value in row) for row in rows]


def _duckdb(lake: Lake) -> Ask:
    def ask(query: str, snapshot: int | None) -> list[tuple[Any, ...]]:
        day = lake.table(lambda table: table.scan(snapshot_id=snapshot).to_arrow())
        if (snapshot is None) != ("new" in day.schema.names):
            raise RuntimeError(day.schema)
        with duckdb.connect() as engine:
            engine.register("day", day)
            return _plain(engine.execute(query).fetchall())

    return ask


@contextmanager
def _spark(lake: Lake, jar: Path, folder: Path) -> Iterator[tuple[str, Ask]]:
    import pyspark  # noqa: PLC0415 - another one than ours
    from pyspark.sql import SparkSession  # noqa: PLC0415 - same

    place = _as_hadoop_table(lake, folder)
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.jars", str(jar.resolve()))
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )

    def ask(query: str, snapshot: int | None) -> list[tuple[Any, ...]]:
        reader = session.read.format("iceberg")
        reader = reader if snapshot is None else reader.option("snapshot-id", snapshot)
        frame = reader.load(place)
        if (snapshot is None) != ("new" in frame.columns):
            raise RuntimeError(frame.schema)
        frame.createOrReplaceTempView("day")
        return _plain(session.sql(query).collect())

    try:
        yield f"Spark {pyspark.__version__}, {jar.stem}", ask
    finally:
        session.stop()


def _as_hadoop_table(lake: Lake, folder: Path) -> str:
    """Return the address of a table without a catalog that has the same metadata: Spark needs no driver of SQLite."""
    location = lake.table(lambda table: table.metadata_location).removeprefix("file://")
    place = folder / "by-path" / "metadata"
    place.mkdir(parents=True)
    shutil.copy(location, place / "v1.metadata.json")
    (place / "version-hint.text").write_text("1")
    return f"file://{place.parent}"
