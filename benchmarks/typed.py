"""Typed columns beside DuckDB and Polars: gzip lines in, envelope and eleven typed columns out, in turns of one run.

All read the same flights, each of which fits, into the same columns: zstd level 1, row groups of as many rows,
sorted, on two cores. Each engine also writes the envelope alone, so that what the columns add is a difference within
one round. Counts, sums and hashes of the columns are read back by DuckDB, and must be equal. Ours looks at every
payload for what would be lost (two equal keys, numbers that do not fit, times without a zone), and gives each such
row its reason; the others would give null, or stop. Polars takes part where it is installed: `pip install polars`.

    python -m benchmarks typed [--objects 100] [--records 5000] [--runs 3] [--engines minutebook duckdb polars]
"""

import argparse
import itertools
import json
import random
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import duckdb

from benchmarks.archives import make_archive_of
from benchmarks.compaction import Run, parts, take_turn
from benchmarks.figures import Column, median, publish
from benchmarks.rewrites import ENGINES, TYPED_ENGINES
from demo.flights import read_flights
from tests.corpus.typed_day import flown

_NAMES: Final = tuple(ENGINES)
_KINDS: Final = ("envelope", "typed")
_CONTENT: Final = """
    select count(*), count(flight_id), sum(hash(flight_id)), sum(hash(carrier)), sum(year), sum(flight),
           sum(distance), count(dep_delay), sum(dep_delay), count(price), sum(price), count(departs),
           sum(epoch_us(departs)), sum(epoch_us(flown_on::timestamp)), sum(hash(stops[1])), sum(len(stops)),
           count(fare), sum(hash(json_extract_string(fare, '$.price')))
    from read_parquet(?)"""
_COLUMNS: Final = (
    Column("engine", "engine"),
    Column("writes", "kind"),
    Column("CPU s", "cpu", ".1f"),
    Column("seconds", "seconds", ".1f"),
    Column("CPU, ours = 1", "cpu_ratio", ".2f"),
    Column("seconds, ours = 1", "seconds_ratio", ".2f"),
    Column("us of CPU a row for the columns", "columns_us", ".1f"),
    Column("MiB, all processes", "mib", ",.0f"),
    Column("MB written", "size", ",.0f"),
)
Found = Mapping[tuple[str, str], Sequence[Run]]


def main(arguments: list[str]) -> int:
    """Run it, or one engine of it. Exit code 1 when the engines do not write the same."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks typed", description=__doc__)
    parser.add_argument("--objects", type=int, default=100)
    parser.add_argument("--records", type=int, default=5000, help="per object")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--engines", nargs="*", choices=_NAMES, default=_NAMES)
    parser.add_argument("--folder", type=Path, help="keep the archive here")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.engine:
        kind, _, name = options.engine.partition("-")
        took = (TYPED_ENGINES if kind == "typed" else ENGINES)[name](options.folder)
        sys.stdout.write(f"{json.dumps(took)}\n")
        return 0
    folder = options.folder or Path(tempfile.mkdtemp(prefix="minutebook-typed-"))
    try:
        make_flights(folder, options.objects, options.records)
        return _compare(folder, options)
    finally:
        if options.folder is None:
            shutil.rmtree(folder)


def make_flights(folder: Path, objects: int, records: int) -> None:
    """Write an archive of flights, unless the folder holds it."""
    flights = itertools.cycle(read_flights())
    rng = random.Random(1)  # noqa: S311 - the same archive every time
    name = f"flights-{objects}-{records}"
    make_archive_of(folder, name, (objects, records), lambda _: flown(next(flights).data).encode(), rng)


def _compare(folder: Path, options: argparse.Namespace) -> int:
    found: dict[tuple[str, str], list[Run]] = defaultdict(list)
    contents = set()
    for _ in range(options.runs):
        for name in options.engines:
            for kind in _KINDS:
                run = take_turn(folder, "typed", f"{kind}-{name}")
                if run is None:
                    continue
                found[name, kind].append(run)
                sys.stderr.write(f"{name} {kind}: {run}\n")
                if kind == "typed":
                    contents.add(content(folder / "out"))
    rows = options.objects * options.records
    title = f"Typed columns of {rows:,} flights"
    raw = {f"{name} {kind}": [run._asdict() for run in runs] for (name, kind), runs in found.items()}
    publish(title, _COLUMNS, table_rows(found, rows), raw, options.json)
    written = {run.written._replace(size=0) for runs in found.values() for run in runs}
    is_same = len(written) == len(contents) == 1 and all(each.is_sorted for each in written)
    sys.stdout.write(f"{'same rows and columns' if is_same else f'NOT THE SAME: {written} {contents}'}\n")
    return 0 if is_same else 1


def content(folder: Path) -> tuple[str, ...]:
    """Return what the columns hold: counts, sums and hashes."""
    with duckdb.connect() as engine:
        engine.execute("set timezone = 'UTC'")
        row = engine.execute(_CONTENT, [[str(path) for path in parts(folder)]]).fetchone()
    return tuple(f"{value:.6f}" if isinstance(value, float) else str(value) for value in row or ())


def table_rows(found: Found, rows: int) -> list[dict[str, Any]]:
    """Return a row for each engine and kind: medians over the rounds, ratios within a round."""
    made = []
    for (name, kind), runs in found.items():
        ours, bare = found.get(("minutebook", kind), ()), found.get((name, "envelope"), ())
        row: dict[str, Any] = {"engine": name, "kind": kind, "cpu": median([run.job_cpu for run in runs])}
        row |= {"seconds": median([run.job for run in runs]), "size": runs[0].written.size / 1e6}
        row |= {"mib": max(run.use.together for run in runs)}
        if ours and name != "minutebook":
            row["cpu_ratio"] = median([run.job_cpu / own.job_cpu for run, own in zip(runs, ours, strict=False)])
            row["seconds_ratio"] = median([run.job / own.job for run, own in zip(runs, ours, strict=False)])
        if bare and kind == "typed":
            added = [run.job_cpu - other.job_cpu for run, other in zip(runs, bare, strict=False)]
            row["columns_us"] = median(added) / rows * 1e6
        made.append(row)
    return made
