"""The rewrite of a day to Parquet, beside DuckDB and Polars doing the same sorted rewrite in the same run.

The engines take turns, each in a process of its own on two cores, on the same local files (read once before, so that
they lie in the page cache). Rows, the sums of arrival times and payload bytes, and the order are read back from what
each wrote. DuckDB and Polars take part where they are installed: `pip install duckdb polars`.

`job` is the rewrite alone, as `benchmarks.rewrites` says; `all` is the whole process, Spark's start included.
CPU seconds are those of all processes together: on a machine that does other things, too, they say more.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.archives import make_archive
from benchmarks.processes import Use, Watch
from benchmarks.rewrites import CORES, ENGINES


class Written(NamedTuple):
    """What the files of one engine hold; `is_sorted` by shard and position, from file to file."""

    rows: int
    arrivals: int
    payload: int
    size: int
    is_sorted: bool


class Run(NamedTuple):
    """One engine's turn."""

    job: float
    job_cpu: float
    whole: float
    note: str
    use: Use
    written: Written


def main(arguments: list[str]) -> int:
    """Run the benchmark, or one engine of it. Exit code 1 when the engines do not write the same."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks compaction", description=__doc__)
    parser.add_argument("--objects", type=int, default=1000)
    parser.add_argument("--records", type=int, default=5000, help="per object")
    parser.add_argument("--words", type=int, default=1000, help="of the payloads: the fewer, the smaller is the gzip")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="keep the archive here")
    parser.add_argument("--engine", choices=tuple(ENGINES), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.engine:
        took = ENGINES[options.engine](options.folder)
        sys.stdout.write(f"{json.dumps(took)}\n")
        return 0
    folder = options.folder or Path(tempfile.mkdtemp(prefix="minutebook-bench-"))
    try:
        return _compare(folder, (options.objects, options.records, options.words), options.runs)
    finally:
        if options.folder is None:
            shutil.rmtree(folder)


def _compare(folder: Path, shape: tuple[int, int, int], runs: int) -> int:
    objects, records, words = shape
    raw = make_archive(folder, objects, records, words)
    packed = sum(len(path.read_bytes()) for path in (folder / "raw").rglob("*.gz"))
    sys.stdout.write(
        f"{objects * records:,} records in {objects:,} objects, {raw / 1e6:,.0f} MB of lines, {packed / 1e6:,.0f} MB "
        f"compressed; {CORES} of {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n"
    )
    found: dict[str, list[Run]] = defaultdict(list)
    for number in range(runs):
        for engine in ENGINES:
            run = take_turn(folder, "compaction", engine)
            if run is not None:
                found[engine].append(run)
                sys.stdout.write(_line(engine, number + 1, run, raw))
                sys.stdout.flush()
    return _conclude(found)


def take_turn(folder: Path, benchmark: str, engine: str) -> Run | None:
    """Let an engine of a benchmark write into `out`, in a process of its own; None where it does not run."""
    shutil.rmtree(folder / "out", ignore_errors=True)
    (folder / "out").mkdir()
    command = [sys.executable, "-m", "benchmarks", benchmark, "--engine", engine, "--folder", str(folder)]
    begin = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603 - ourselves
        os.sched_setaffinity(process.pid, sorted(os.sched_getaffinity(0))[:CORES])
        watch = Watch(process.pid)
        out, err = process.communicate()
    whole, use = time.perf_counter() - begin, watch.stop()
    if process.returncode:
        sys.stdout.write(f"{engine:11} did not run: {''.join(err.strip().splitlines()[-1:])}\n")
        return None
    job, job_cpu, note = json.loads(out.splitlines()[-1])
    return Run(job, job_cpu, whole, note, use, _read_back(folder / "out"))


def parts(folder: Path) -> list[Path]:
    """Return the files with rows: not what tasks leave beside them for a run that goes on."""
    return sorted(path for path in folder.rglob("*.parquet") if path.parent.name != "_facts")


def _read_back(folder: Path) -> Written:
    rows = arrivals = payload = size = 0
    is_sorted, last = True, ("", 0, "", -1)
    for path in parts(folder):
        size += path.stat().st_size
        file = pq.ParquetFile(path)
        for group in range(file.num_row_groups):
            table = file.read_row_group(group)
            rows += table.num_rows
            arrivals += (
                pc.sum(pc.divide(table["arrival_time"].cast("timestamp[us]").cast("int64"), 1000)).as_py() or 0
            )
            payload += sum(pc.sum(pc.binary_length(table[name])).as_py() or 0 for name in ("data", "data_bytes"))
            lengths = pc.binary_length(table["sequence_number"])
            columns = [table["shard_id"], lengths, table["sequence_number"], table["sub_sequence_number"]]
            for place in zip(*(column.to_pylist() for column in columns), strict=True):
                is_sorted = is_sorted and place > last
                last = place
    return Written(rows, arrivals, payload, size, is_sorted)


def _line(engine: str, number: int, run: Run, raw: int) -> str:
    worker = f"{run.use.worker:,.0f} MiB the largest worker, " if run.use.worker else ""
    return (
        f"{engine:11} run {number}: job {run.job:6.1f} s and {run.job_cpu:6.1f} s of CPU "
        f"({raw / 1e6 / run.job:4.0f} MB/s of lines, {raw / 1e6 / run.job_cpu:4.0f} per core), "
        f"all {run.whole:6.1f} s and {run.use.cpu_seconds:6.1f} s of CPU, {worker}{run.use.together:,.0f} MiB all; "
        f"out {run.written.size / 1e6:,.0f} MB{', ' if run.note else ''}{run.note}\n"
    )


def _conclude(found: dict[str, list[Run]]) -> int:
    contents = {run.written._replace(size=0) for runs in found.values() for run in runs}
    for written in contents:
        sys.stdout.write(
            f"{written.rows:,} rows, sum of arrival times {written.arrivals}, {written.payload:,} payload bytes, "
            f"{'sorted' if written.is_sorted else 'NOT SORTED'}\n"
        )
    ours = found.get("minutebook", [])
    for engine, runs in found.items():
        if ours and engine != "minutebook":
            ratios = [
                statistics.median(measure(run) for run in runs) / statistics.median(measure(run) for run in ours)
                for measure in (lambda run: run.job, lambda run: run.job_cpu, lambda run: run.whole)
            ]
            sys.stdout.write(
                f"{engine} takes {ratios[0]:.2f} times our job, {ratios[1]:.2f} times its CPU, "
                f"{ratios[2]:.2f} times our all\n"
            )
    return 0 if len(contents) == 1 and all(written.is_sorted for written in contents) else 1
