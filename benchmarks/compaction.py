"""The rewrite of a day to Parquet, beside DuckDB and Polars doing the same sorted rewrite of the same files.

Each engine runs in a process of its own, in turns, on the same local files (page cache warm), with two cores: ours
on `local[2]`, through the whole job (every line checked, audit, publish). The others do not check anything, and write
one file. DuckDB and Polars are used where they are installed: `pip install duckdb polars`.
"""

import argparse
import base64
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from archive.clock import Backoff, SystemClock, new_id, new_random
from archive.keys import application_key, end_marker_key, segment_key, start_marker_key
from archive.markers import FORMAT, ApplicationRecord, EndMarker, StartMarker, encode_marker
from archive.metadata import ChainStart, Predecessor
from archive.minute import MINUTE_MS
from archive.position import Position
from archive.record import Record
from archive.segment import SegmentWriter
from compaction.day import Day
from compaction.directory_storage import DirectoryStorage
from compaction.leases import Checkpoints
from compaction.places import Place, open_storage
from compaction.ports import AuditOptions, Ports
from compaction.rewrite import CompactOptions, compact_day
from compaction.spark import SparkEngine
from compaction.storage import Address

DAY = Day.parse("2026-11-20")
FIRST = 49680430009993180326445188721472315949130085524050018306
ENGINES = ("minutebook", "duckdb", "polars")
PAYLOAD_BYTES = 660


def main(arguments: list[str]) -> int:
    """Run the benchmark, or one engine of it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks compaction", description=__doc__)
    parser.add_argument("--objects", type=int, default=1000)
    parser.add_argument("--records", type=int, default=5000, help="per object")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="keep the archive here")
    parser.add_argument("--engine", choices=ENGINES, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    folder = options.folder or Path(tempfile.mkdtemp(prefix="minutebook-bench-"))
    if options.engine:
        return _ENGINES[options.engine](folder)
    raw = _make(folder, options.objects, options.records)
    sys.stdout.write(f"{options.objects * options.records:,} records, {raw / 1e6:,.0f} MB of lines\n")
    for number in range(options.runs):
        for engine in ENGINES:
            _measure(folder, engine, number + 1, raw)
    if options.folder is None:
        shutil.rmtree(folder)
    return 0


def _measure(folder: Path, engine: str, number: int, raw: int) -> None:
    shutil.rmtree(folder / "out", ignore_errors=True)
    (folder / "out").mkdir()
    command = [sys.executable, "-m", "benchmarks", "compaction", "--engine", engine, "--folder", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - ourselves
    if done.returncode:
        sys.stdout.write(f"{engine:11} run {number}: {done.stderr.strip().splitlines()[-1:]}\n")
        return
    row = json.loads(done.stdout.splitlines()[-1])
    rate = raw / 1e6 / row["seconds"]
    sys.stdout.write(
        f"{engine:11} run {number}: {row['seconds']:6.1f} s ({rate:5.0f} MB/s of lines){row['note']}, "
        f"{row['rows']:,} rows, sum of arrival times {row['sum']}, out {row['out'] / 1e6:,.0f} MB, "
        f"peak {row['peak_mb']:,.0f} MB\n"
    )


def _minutebook(folder: Path) -> int:
    place = Place(Address(None, str(folder / "raw")), "raw/")
    out = Place(Address(None, str(folder / "out")), "")
    clock, rng = SystemClock(), new_random()
    begin = time.perf_counter()
    with SparkEngine("local[2]") as engine:
        started = time.perf_counter()
        watch = _Workers()
        ports = Ports(
            archive=open_storage(place.address),
            place=place,
            waits=lambda: Backoff(clock, rng, budget_seconds=10),
            clock=clock,
            new_id=new_id,
            engine=engine,
            checkpoints=lambda: Checkpoints({}),
            version="bench",
        )
        done = compact_day(ports, open_storage(out.address), DAY, CompactOptions(AuditOptions(), out))
        seconds = time.perf_counter() - started
        peak = watch.stop()
    note = f" + {started - begin:.1f} s to start Spark, verdict {done.verdict}"
    return _answer(folder, seconds, note, peak)


def _duckdb(folder: Path) -> int:
    import duckdb  # type: ignore[import-not-found]  # noqa: PLC0415 - optional

    begin = time.perf_counter()
    duckdb.sql("SET threads=2; SET memory_limit='6GB'; SET preserve_insertion_order=false")
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
        ) TO '{folder}/out/day.parquet' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1)
        """  # noqa: S608 - our own path
    )
    return _answer(folder, time.perf_counter() - begin, "", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def _polars(folder: Path) -> int:
    os.environ["POLARS_MAX_THREADS"] = "2"
    import polars as pl  # type: ignore[import-not-found]  # noqa: PLC0415 - optional

    begin = time.perf_counter()
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
        pl.from_epoch("arrival_ms", time_unit="ms").alias("arrival_time"),
        pl.col("data_base64").str.decode("base64").alias("data_bytes"),
    ).drop("arrival_ms", "data_base64")
    order = ["shard_id", pl.col("sequence_number").str.len_bytes(), "sequence_number", "sub_sequence_number"]
    frame.sort(order).sink_parquet(folder / "out" / "day.parquet", compression="zstd", compression_level=1)
    return _answer(folder, time.perf_counter() - begin, "", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


_ENGINES: dict[str, Callable[[Path], int]] = {"minutebook": _minutebook, "duckdb": _duckdb, "polars": _polars}


def _answer(folder: Path, seconds: float, note: str, peak_mb: float) -> int:
    """Print what was measured; rows and a sum are read back from the files, outside the time."""
    import pyarrow.compute as pc  # noqa: PLC0415 - not part of what others measure
    import pyarrow.parquet as pq  # noqa: PLC0415 - same

    rows = total = size = 0
    for path in (folder / "out").rglob("*.parquet"):
        column = pq.ParquetFile(path).read(["arrival_time"])["arrival_time"]
        rows += len(column)
        total += pc.sum(column.cast("timestamp[ms]").cast("int64")).as_py() or 0
        size += path.stat().st_size
    answer = {"seconds": seconds, "note": note, "rows": rows, "sum": total, "out": size, "peak_mb": peak_mb}
    sys.stdout.write(json.dumps(answer) + "\n")
    return 0


class _Workers:
    """The peak memory of the largest of Spark's Python workers, sampled."""

    def __init__(self) -> None:
        self._peak = 0.0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> float:
        """Return the peak in MB."""
        self._done.set()
        self._thread.join()
        return self._peak

    def _watch(self) -> None:
        while not self._done.wait(0.2):
            for process in Path("/proc").glob("[0-9]*"):
                try:
                    if b"pyspark.daemon" in (process / "cmdline").read_bytes():
                        status = (process / "status").read_text()
                        self._peak = max(self._peak, int(status.split("VmHWM:")[1].split()[0]) / 1024)
                except (OSError, IndexError):
                    continue


def _make(folder: Path, objects: int, records: int) -> int:
    """Write an archive of ten shards; returns the bytes of its lines. A folder that holds one is taken as it is."""
    size_file = folder / "size"
    if size_file.exists():
        return int(size_file.read_text())
    store = DirectoryStorage(folder / "raw")
    rng = random.Random(1)  # noqa: S311 - the same archive every time
    words = [base64.b64encode(rng.randbytes(9)).decode() for _ in range(4000)]
    raw = 0
    shards = min(10, objects)
    for number in range(shards):
        raw += _make_shard(store, rng, words, number, objects // shards, records)
    application = ApplicationRecord(
        format=FORMAT,
        stream_arn="arn:aws:kinesis:us-east-1:000000000000:stream/bench",
        stream_created_ms=1,
        application="bench",
        start="oldest",
        start_at_ms=None,
        writer="bench",
        written_at_ms=1,
    )
    store.put_if_absent(application_key("raw/"), encode_marker(application), {}, "application/json")
    size_file.write_text(str(raw))
    return raw


def _make_shard(
    store: DirectoryStorage, rng: random.Random, words: list[str], number: int, objects: int, records: int
) -> int:
    shard_id = f"shardId-{number:012d}"
    sequence = FIRST + number * 10**40
    after: Predecessor = ChainStart("TRIM_HORIZON")
    first = Position(sequence + 1)
    raw = 0
    for index in range(objects):
        minute = DAY.first_minute + index * 1440 // objects
        writer = SegmentWriter(shard_id, minute)
        batch = []
        for place in range(records):
            sequence += 1 if not index and not place else rng.randrange(1, 10**9)
            text = " ".join(rng.choices(words, k=PAYLOAD_BYTES // 13))
            data = f'{{"id":{sequence % 10**9},"at":{place},"text":"{text}"}}'.encode()
            batch.append(Record(str(sequence), 0, f"key-{place % 97}", minute * MINUTE_MS + place % 60_000, data))
        writer.extend(batch)
        metadata = writer.metadata(after=after, writer=f"{number}-{index}")
        key = segment_key("raw/", shard_id, minute, metadata.first)
        store.put_if_absent(key, writer.body(), metadata.encode(), "application/gzip")
        after, raw = metadata.last, raw + writer.raw_bytes
    start = StartMarker(
        format=FORMAT,
        shard=shard_id,
        sentinel="TRIM_HORIZON",
        first=str(first),
        starting_hash_key="0",
        ending_hash_key="1",
        parents=[],
        writer="bench",
        written_at="2026-11-20T00:00:00.000Z",
    )
    end = EndMarker(
        format=FORMAT,
        shard=shard_id,
        last=str(after),
        children=[],
        proof="read",
        writer="bench",
        written_at="2026-11-21T00:00:00.000Z",
    )
    store.put_if_absent(start_marker_key("raw/", shard_id), encode_marker(start), {}, "application/json")
    store.put_if_absent(end_marker_key("raw/", shard_id), encode_marker(end), {}, "application/json")
    return raw
