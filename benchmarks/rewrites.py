"""The same rewrite by three engines: gzip lines in, Parquet out, sorted by shard and position.

Same files, same columns and types, zstd level 1, row groups of the same number of rows, two cores. Each function
runs in a process of its own, and its clock starts when the engine is there: imported, or Spark's session started.
Ours checks every line, order and link, and publishes; the others check nothing, and write one file.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from archive.clock import SystemClock, new_id, new_random
from archive.retry import Backoff
from archive.store.places import StorePrefix, open_storage
from archive.store.retrying import RetryingStorage
from archive.store.storage import Address
from benchmarks.archives import DAY, PREFIX
from benchmarks.processes import cpu_seconds
from compaction.inventory.checkpoints import Checkpoints
from compaction.inventory.owner import StreamOwner
from compaction.job.context import AuditOptions, JobContext
from compaction.rewrite import CompactOptions, compact_day
from compaction.spark.engine import SparkEngine

ROW_GROUP_ROWS = 81_920
"""About what our 64 MiB of lines hold here. DuckDB counts in blocks of 2,048."""
CORES = 2


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


def by_minutebook(folder: Path) -> Took:
    """Run the whole nightly job on `local[2]`: list, read and check every line, write, audit, publish."""
    place = StorePrefix(Address(None, str(folder / "raw")), PREFIX)
    out = StorePrefix(Address(None, str(folder / "out")), "")
    clock, rng = SystemClock(), new_random()
    with SparkEngine(f"local[{CORES}]") as engine:
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
        done = compact_day(context, context.open(out.address), DAY, CompactOptions(AuditOptions(), out))
        return watch.took(f"verdict {done.verdict}")


def by_duckdb(folder: Path) -> Took:
    """Run one SQL statement."""
    import duckdb  # noqa: PLC0415 - optional

    watch = _Clock()
    duckdb.sql(f"SET threads={CORES}; SET memory_limit='6GB'; SET preserve_insertion_order=false")
    duckdb.sql(
        f"""
        COPY (
          SELECT shard_id, sequence_number, sub_sequence_number, partition_key,
                 make_timestamp(arrival_ms * 1000) AS arrival_time, data,
                 from_base64(data_base64) AS data_bytes, filename AS segment
          FROM read_json('{folder}/raw/raw/2026/**/*.jsonl.gz', format='newline_delimited', filename=true, columns={{
            shard_id: 'VARCHAR', sequence_number: 'VARCHAR', sub_sequence_number: 'BIGINT', partition_key: 'VARCHAR',
            arrival_ms: 'BIGINT', data: 'VARCHAR', data_base64: 'VARCHAR'}})
          ORDER BY shard_id, length(sequence_number), sequence_number, sub_sequence_number
        ) TO '{folder}/out/day.parquet'
        (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1, ROW_GROUP_SIZE {ROW_GROUP_ROWS})
        """  # noqa: S608 - our own path
    )
    return watch.took()


def by_polars(folder: Path) -> Took:
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
    order = ["shard_id", pl.col("sequence_number").str.len_bytes(), "sequence_number", "sub_sequence_number"]
    frame.sort(order).sink_parquet(
        folder / "out" / "day.parquet", compression="zstd", compression_level=1, row_group_size=ROW_GROUP_ROWS
    )
    return watch.took()


ENGINES: dict[str, Callable[[Path], Took]] = {"minutebook": by_minutebook, "duckdb": by_duckdb, "polars": by_polars}
