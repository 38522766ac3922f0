"""The same rewrite by three engines: gzip lines in, Parquet out, sorted by shard and position.

Same files, same columns and types, zstd level 1, row groups of the same number of rows, two cores. Each function
runs in a process of its own, and its clock starts when the engine is there: imported, or Spark's session started.
Ours checks every line, order and link, and publishes; the others check nothing, and write one file. `columns`: each
also parses the payload, a flight, into eleven typed columns beside the envelope; DuckDB by one `json_transform`,
Polars by one `json_decode`, told the types beforehand.
"""

import json
import os
import time
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.archives import DAY, PREFIX
from benchmarks.processes import cpu_seconds
from compaction.commands.engines import TaskEngine, engine_for
from compaction.inventory.checkpoints import Checkpoints
from compaction.job.context import AuditOptions, JobContext
from compaction.night.rewrite import CompactOptions, compact_day
from compaction.spark.engine import SparkEngine
from compaction.tasks.progress import no_progress
from minutebook.clock import SystemClock, new_id, new_random
from minutebook.owner import StreamOwner
from minutebook.retry import Backoff
from minutebook.store.places import StorePrefix, open_storage
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import Address
from tests.corpus.typed_day import COLUMNS
from tests.fakes.typed_lines import mapping

ROW_GROUP_ROWS = 81_920
"""About what our 64 MiB of lines hold here. DuckDB counts in blocks of 2,048."""
CORES = 2
_DUCKDB_PAYLOAD: Final = {
    "event_id": "VARCHAR",
    "carrier": "VARCHAR",
    "year": "INTEGER",
    "flight": "BIGINT",
    "distance": "DOUBLE",
    "dep_delay": "BIGINT",
    "fare": "JSON",
    "time_hour": "TIMESTAMPTZ",
    "date": "DATE",
    "stops": ["VARCHAR"],
}
_DUCKDB_COLUMNS: Final = """,
    p.event_id AS flight_id, p.carrier, p.year, p.flight, p.distance, p.dep_delay,
    CAST(p.fare ->> 'price' AS DECIMAL(10,2)) AS price, p.time_hour AS departs, p.date AS flown_on, p.stops, p.fare
"""


class Took(NamedTuple):
    """Seconds of the rewrite alone, by the clock and of CPU, and what else there is to say."""

    seconds: float
    cpu_seconds: float
    note: str = ""


class _Clock:
    """Runs from its making on."""

    def __init__(self) -> None:
        self._cpu_seconds = cpu_seconds(os.getpid())
        self._begin = time.perf_counter()

    def took(self, note: str = "") -> Took:
        return Took(time.perf_counter() - self._begin, cpu_seconds(os.getpid()) - self._cpu_seconds, note)


def by_minutebook(folder: Path, *, columns: bool = False, engine_name: str = "local") -> Took:
    """Run the whole nightly job on two cores: list, read and check every line, write, audit, publish."""
    place = StorePrefix(Address(None, str(folder / "raw")), PREFIX)
    out = StorePrefix(Address(None, str(folder / "out")), "")
    clock, rng = SystemClock(), new_random()
    options = CompactOptions(AuditOptions(), out, columns=mapping(COLUMNS) if columns else None)
    with ExitStack() as stack:
        if engine_name == "spark":
            engine: TaskEngine | SparkEngine = stack.enter_context(SparkEngine(f"local[{CORES}]"))
        else:
            engine = engine_for("local", None, stack, lambda: None, lambda: nullcontext(no_progress))
        watch = _Clock()
        context = JobContext(
            archive=RetryingStorage(open_storage(place.address), lambda: Backoff(clock, rng, budget_seconds=10)),
            place=place,
            clock=clock,
            new_id=new_id,
            engine=engine,
            checkpoints=lambda: Checkpoints({}),
            version="bench",
            owner=StreamOwner("bench", "us-east-1"),
        )
        done = compact_day(context, context.open(out.address), DAY, options)
        return watch.took(f"verdict {done.verdict}")


def by_duckdb(folder: Path, *, columns: bool = False) -> Took:
    """Run one SQL statement."""
    import duckdb  # noqa: PLC0415 - optional

    watch = _Clock()
    duckdb.sql(f"SET threads={CORES}; SET memory_limit='6GB'; SET preserve_insertion_order=false; SET timezone='UTC'")
    parsed = f", json_transform(data, '{json.dumps(_DUCKDB_PAYLOAD)}') AS p" if columns else ""
    duckdb.sql(
        f"""
        COPY (
          SELECT shard_id, sequence_number, sub_sequence_number, partition_key,
                 make_timestamp(arrival_ms * 1000) AS arrival_time, data,
                 from_base64(data_base64) AS data_bytes, filename AS segment{_DUCKDB_COLUMNS if columns else ""}
          FROM (SELECT *{parsed}
            FROM read_json('{folder}/raw/raw/2026/**/*.jsonl.gz', format='newline_delimited', filename=true,
            columns={{shard_id: 'VARCHAR', sequence_number: 'VARCHAR', sub_sequence_number: 'BIGINT',
            partition_key: 'VARCHAR', arrival_ms: 'BIGINT', data: 'VARCHAR', data_base64: 'VARCHAR'}}))
          ORDER BY shard_id, length(sequence_number), sequence_number, sub_sequence_number
        ) TO '{folder}/out/day.parquet'
        (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1, ROW_GROUP_SIZE {ROW_GROUP_ROWS})
        """  # noqa: S608 - our own path
    )
    return watch.took()


def by_polars(folder: Path, *, columns: bool = False) -> Took:
    """Run one lazy frame, streamed into a file."""
    os.environ["POLARS_MAX_THREADS"] = str(CORES)
    import polars as pl  # type: ignore[import-not-found]  # noqa: PLC0415 - optional

    watch = _Clock()
    schema = {
        "shard_id": pl.String,
        "sequence_number": pl.String,
        "sub_sequence_number": pl.Int64,
        "partition_key": pl.String,
        "arrival_ms": pl.Int64,
        "data": pl.String,
        "data_base64": pl.String,
    }
    frame = pl.scan_ndjson(
        sorted((folder / "raw" / "raw" / "2026").rglob("*.jsonl.gz")), schema=schema, include_file_paths="segment"
    )
    frame = frame.with_columns(
        (pl.col("arrival_ms") * 1000).cast(pl.Datetime("us", "UTC")).alias("arrival_time"),
        pl.col("data_base64").str.decode("base64").alias("data_bytes"),
    ).drop("arrival_ms", "data_base64")
    if columns:
        frame = _with_polars_columns(frame, pl)
    order = ["shard_id", pl.col("sequence_number").str.len_bytes(), "sequence_number", "sub_sequence_number"]
    frame.sort(order).sink_parquet(
        folder / "out" / "day.parquet", compression="zstd", compression_level=1, row_group_size=ROW_GROUP_ROWS
    )
    return watch.took()


def _with_polars_columns(frame: Any, pl: Any) -> Any:  # noqa: ANN401 - Polars is not installed where types are checked
    payload = {
        "event_id": pl.String,
        "carrier": pl.String,
        "year": pl.Int32,
        "flight": pl.Int64,
        "distance": pl.Float64,
        "dep_delay": pl.Int64,
        "fare": pl.Struct({"price": pl.String}),
        "time_hour": pl.String,
        "date": pl.String,
        "stops": pl.List(pl.String),
    }
    field = pl.col("p").struct.field
    return (
        frame.with_columns(pl.col("data").str.json_decode(pl.Struct(payload)).alias("p"))
        .with_columns(
            field("event_id").alias("flight_id"),
            *(field(name) for name in ("carrier", "year", "flight", "distance", "dep_delay")),
            field("fare").struct.field("price").cast(pl.Decimal(10, 2)).alias("price"),
            field("time_hour").str.to_datetime("%Y-%m-%dT%H:%M:%SZ", time_zone="UTC").alias("departs"),
            field("date").str.to_date("%Y-%m-%d").alias("flown_on"),
            field("stops"),
            field("fare").struct.json_encode().alias("fare"),
        )
        .drop("p")
    )


_by_spark = partial(by_minutebook, engine_name="spark")
ENGINES: dict[str, Callable[[Path], Took]] = {
    "minutebook": by_minutebook,
    "on Spark": _by_spark,
    "duckdb": by_duckdb,
    "polars": by_polars,
}
TYPED_ENGINES: dict[str, Callable[[Path], Took]] = {
    "minutebook": partial(by_minutebook, columns=True),
    "on Spark": partial(_by_spark, columns=True),
    "duckdb": partial(by_duckdb, columns=True),
    "polars": partial(by_polars, columns=True),
}
