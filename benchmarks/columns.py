"""Typed columns at night: flights of which some do not fit, in sixteen ways; what it costs beside the untyped job.

Every row must be there with its own reason, and DuckDB must count the same as the payloads say. The job runs in this
process (one core, no Spark: what Spark adds is the same for both), in turns with and without columns; the CPU time of
DuckDB, which reads the same columns from the payloads with `json_transform`, is that of one thread. With `--spark`
Spark SQL reads the published files, too.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import duckdb

from archive.format.day import Day
from compaction.rewrite import Compacted
from compaction.spark.session import start, stop
from tests.corpus.desk import Desk
from tests.corpus.typed_day import COLUMNS, MISFITS, typed_day
from tests.fakes.typed_lines import mapping

_DAY = Day.parse("2026-11-20")
_DUCKDB = {
    "event_id": "VARCHAR",
    "carrier": "VARCHAR",
    "year": "INTEGER",
    "flight": "BIGINT",
    "distance": "DOUBLE",
    "dep_delay": "BIGINT",
    "fare": {"price": "DECIMAL(10,2)"},
    "time_hour": "TIMESTAMPTZ",
    "date": "DATE",
    "stops": ["VARCHAR"],
}

_CARRIERS = (
    "select carrier, count(*) from day where _unfit is null group by 1 order by 1",
    "select json_extract_string(data, '$.carrier'), count(*) from day where _unfit is null group by 1 order by 1",
)


def main(arguments: list[str]) -> int:
    """Run it. Exit code 1 when a row, a reason or a number is not what it must be."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks columns", description=__doc__)
    parser.add_argument("--flights", type=int, default=10_000)
    parser.add_argument("--every", type=int, default=10, help="each so many-th flight does not fit")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--spark", action="store_true", help="let Spark SQL read the day, too")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="minutebook-columns-") as folder:
        corpus, reasons = typed_day(_DAY, options.flights, options.every)
        costs: dict[str, list[float]] = {"untyped": [], "typed": []}
        for number in range(options.runs):
            for name, columns in (("untyped", None), ("typed", mapping(COLUMNS))):
                desk = Desk(Path(folder, f"{name}-{number}"), corpus)
                costs[name].append(_cpu(lambda desk=desk, columns=columns: desk.compact(columns=columns)))
        done = desk.compact(columns=mapping(COLUMNS))
        files = _files(desk, done)
        duck = _cpu(lambda: _parse_with_duckdb(files))
        _say(costs, duck, len(reasons))
        return 0 if _is_right(files, reasons) and (not options.spark or _spark_agrees(files, reasons)) else 1


def _cpu(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def _files(desk: Desk, done: Compacted) -> list[str]:
    files = () if done.manifest is None else done.manifest.files
    return [desk.storage.uri(file.key) for file in files]


def _say(costs: dict[str, list[float]], duck: float, rows: int) -> None:
    untyped, typed = (median(costs[name]) for name in ("untyped", "typed"))
    sys.stdout.write(
        f"{rows:,} rows: untyped {untyped:.2f} s of CPU, typed {typed:.2f} s, so {len(COLUMNS)} columns take "
        f"{(typed - untyped) / rows * 1e6:.1f} us a row; DuckDB's json_transform {duck / rows * 1e6:.1f} us\n"
    )


def _parse_with_duckdb(files: list[str]) -> None:
    with duckdb.connect() as engine:
        engine.execute("set threads = 1")
        engine.read_parquet(files).create_view("day")
        engine.execute(
            "create table parsed as select unnest(json_transform(data, $1)) from day where json_valid(data)",
            [json.dumps(_DUCKDB)],
        )


def _is_right(files: list[str], reasons: list[str | None]) -> bool:
    with duckdb.connect() as engine:
        engine.read_parquet(files).create_view("day")
        rows = engine.execute("select _unfit from day order by shard_id, sequence_number").fetchall()
        by_column, by_payload = (engine.execute(query).fetchall() for query in _CARRIERS)
    wrong = sum(row[0] != reason for row, reason in zip(rows, reasons, strict=True))
    kinds = {reason for reason in reasons if reason}
    sys.stdout.write(
        f"{sum(reason is not None for reason in reasons):,} misfits of {len(kinds)} of {len(MISFITS)} kinds, {wrong} "
        f"rows with another reason; {len(by_column)} carriers, counts "
        f"{'equal' if by_column == by_payload else 'DIFFER FROM'} those of the payloads\n"
    )
    return wrong == 0 and by_column == by_payload


def _spark_agrees(files: list[str], reasons: list[str | None]) -> bool:
    from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra

    context, log = start("local[2]")
    session = SparkSession(context)
    try:
        session.read.parquet(*files).createOrReplaceTempView("day")
        query = "select count(*), count(_unfit), sum(price), max(flown_on), count(departs), count(stops[0]) from day"
        found = session.sql(query).collect()[0]
    finally:
        stop(context)
    log.unlink(missing_ok=True)
    with duckdb.connect() as engine:
        engine.read_parquet(files).create_view("day")
        engine.execute("set timezone = 'UTC'")
        known = engine.execute(query.replace("stops[0]", "stops[1]")).fetchone()
    same = known is not None and [*map(str, found[:4]), found[5]] == [*map(str, known[:4]), known[5]]
    sys.stdout.write(f"Spark SQL: {tuple(map(str, found))}{'' if same else f' AND DUCKDB {known}'}\n")
    return same and found[1] == sum(reason is not None for reason in reasons)
