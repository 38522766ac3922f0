"""Engines that read an Iceberg table by themselves, and DuckDB on what pyiceberg's scan gives it: for benchmarks."""

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import duckdb
import pyarrow as pa

from tests.integration.lake import Lake

_ROWS: Final = "select shard_id, data from day"
Ask = Callable[[str, int | None], list[tuple[Any, ...]]]
"""Asks a reader about the table `day`, of a snapshot (None: the current one)."""


class Reader(NamedTuple):
    """An engine. `columns` are those of a snapshot.

    `opened` returns how many files it opened for the rows of a condition; None: it does not say. `table` returns the
    answer about the table as it is, with Arrow's types.
    """

    name: str
    ask: Ask
    columns: Callable[[int | None], list[str]]
    opened: Callable[[str], int | None]
    table: Callable[[str], pa.Table]


def plain(rows: list[Any]) -> list[tuple[Any, ...]]:
    """Return rows as they are compared: decimals and times as text."""
    return [tuple(value if isinstance(value, int | str) else str(value) for value in row) for row in rows]


def duckdb_of_scan(lake: Lake) -> Reader:
    """Return DuckDB over pyiceberg's scan of the whole table."""

    @contextmanager
    def opened_scan(snapshot: int | None) -> Iterator[duckdb.DuckDBPyConnection]:
        table = lake.table(lambda table: table.scan(snapshot_id=snapshot).to_arrow())
        with duckdb.connect() as engine:
            engine.execute("set timezone = 'UTC'")
            engine.register("day", table)
            yield engine

    def ask(query: str, snapshot: int | None) -> list[tuple[Any, ...]]:
        with opened_scan(snapshot) as engine:
            return plain(engine.execute(query).fetchall())

    def whole(query: str) -> pa.Table:
        with opened_scan(None) as engine:
            return engine.sql(query).to_arrow_table()

    def opened(condition: str) -> int:
        return len(lake.table(lambda table: list(table.scan(row_filter=condition).plan_files())))

    def columns(snapshot: int | None) -> list[str]:
        names: list[str] = lake.table(lambda table: table.scan(snapshot_id=snapshot).projection().column_names)
        return names

    return Reader("DuckDB, of pyiceberg's scan", ask, columns, opened, whole)


@contextmanager
def duckdb_itself(lake: Lake) -> Iterator[Reader | None]:
    """Open DuckDB with its iceberg extension, of a package beside it; None where the path has none."""
    try:
        import duckdb_extension_iceberg as extension  # noqa: PLC0415 - optional, of the version of DuckDB on the path
    except ModuleNotFoundError:
        yield None
        return
    found = Path(extension.__file__).parent.parent.glob(f"duckdb_extension_*/extensions/v{duckdb.__version__}/*")
    paths = {path.name.partition(".")[0]: path for path in found}
    location = lake.table(lambda table: table.metadata_location).removeprefix("file://")
    with duckdb.connect() as engine:
        engine.execute("set timezone = 'UTC'")
        for name in ("avro", "iceberg"):
            engine.execute(f"load '{paths[name]}'")

        def view(snapshot: int | None) -> None:
            at = "" if snapshot is None else f", snapshot_from_id = {snapshot}"
            engine.execute(f"create or replace view day as from iceberg_scan('{location}'{at})")

        def ask(query: str, snapshot: int | None) -> list[tuple[Any, ...]]:
            view(snapshot)
            return plain(engine.execute(query).fetchall())

        def columns(snapshot: int | None) -> list[str]:
            view(snapshot)
            return [row[0] for row in engine.execute("describe day").fetchall()]

        def opened(condition: str) -> int | None:
            view(None)
            [[_, said]] = engine.execute(f"explain analyze {_ROWS} where {condition}").fetchall()
            count = re.search(r"Total Files Read: (\d+)", said)
            return None if count is None else int(count[1])

        def whole(query: str) -> pa.Table:
            view(None)
            return engine.sql(query).to_arrow_table()

        yield Reader(f"DuckDB {duckdb.__version__}, its iceberg extension", ask, columns, opened, whole)


@contextmanager
def spark_itself(lake: Lake, jar: Path, folder: Path) -> Iterator[Reader]:
    """Start the PySpark that is on the path, with Iceberg's runtime for it."""
    import pyspark  # noqa: PLC0415 - another one than ours
    from pyspark.sql import SparkSession  # noqa: PLC0415 - same

    place = _as_hadoop_table(lake, folder)
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.jars", str(jar.resolve()))
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.adaptive.enabled", "false")  # the plan then is the one that ran
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )

    def frame(query: str, snapshot: int | None) -> Any:  # noqa: ANN401 - a DataFrame
        reader = session.read.format("iceberg")
        reader = reader if snapshot is None else reader.option("snapshot-id", snapshot)
        reader.load(place).createOrReplaceTempView("day")
        return session.sql(query)

    def opened(condition: str) -> int:
        asked = frame(f"{_ROWS} where {condition}", None)
        asked.collect()
        scan = asked._jdf.queryExecution().executedPlan().collectLeaves().apply(0)  # noqa: SLF001 - no other way to it
        files: int = scan.metrics().apply("resultDataFiles").value()
        return files

    def whole(query: str) -> pa.Table:
        asked = frame(query, None)
        if hasattr(asked, "toArrow"):
            return asked.toArrow()
        return pa.Table.from_batches(asked._collect_as_arrow())  # noqa: SLF001 - of Spark 3.5, which has no toArrow

    try:
        yield Reader(
            f"Spark {pyspark.__version__}, {jar.stem}",
            lambda query, snapshot: plain(frame(query, snapshot).collect()),
            lambda snapshot: list(frame("select * from day", snapshot).columns),
            opened,
            whole,
        )
    finally:
        session.stop()


def hive_columns(ddl: str) -> list[str] | None:
    """Return the names of the columns that Hive's parser finds in the DDL of a table; None: it refuses the text.

    The parser is that of the Hive in Spark's jars, in the JVM of the session that is open.
    """
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped] # noqa: PLC0415 - of the Spark on the path
    from pyspark import SparkContext  # noqa: PLC0415 - another one than ours

    jvm: Any = SparkContext.getOrCreate()._jvm  # noqa: SLF001 - no other way to its classes
    parser = jvm.org.apache.hadoop.hive.ql.parse.ParseDriver()
    try:
        root = parser.parse("\n".join(line for line in ddl.splitlines() if line[:2] != "--").rstrip().rstrip(";"))
    except Py4JJavaError as exc:
        if "ParseException" in str(exc.java_exception.getClass()):
            return None
        raise
    tables = [each for each in _children(root) if each.getText() == "TOK_CREATETABLE"]
    [columns] = [each for each in _children(tables[0]) if each.getText() == "TOK_TABCOLLIST"]
    return [column.getChild(0).getText().strip("`") for column in _children(columns)]


def _children(node: Any) -> list[Any]:  # noqa: ANN401 - a tree of Hive's parser
    return [node.getChild(number) for number in range(node.getChildCount())]


def _as_hadoop_table(lake: Lake, folder: Path) -> str:
    """Return the address of a table without a catalog that has the same metadata: Spark needs no driver of SQLite."""
    location = lake.table(lambda table: table.metadata_location).removeprefix("file://")
    place = folder / "by-path" / "metadata"
    place.mkdir(parents=True)
    shutil.copy(location, place / "v1.metadata.json")
    (place / "version-hint.text").write_text("1")
    return f"file://{place.parent}"
