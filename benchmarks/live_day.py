"""Memory and rate of `read(live=True)`: a raw day of gigabytes, and the same day once it is published.

The day is that of `large_day`, served by the S3 on files. Each way of reading is a process of its own, which looks at
its memory after each batch: the peak, and the largest in the second and in the last tenth. `slow`: the reader waits
after each batch, and must not be overtaken by what reads ahead.

    python -m benchmarks live_day [--gigabytes 2] [--shards 20] [--published] [--folder FOLDER] [--json FILE]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

from benchmarks.archives import DAY, PREFIX
from benchmarks.day_on_disk import BUCKET, Shape, make_day, store_markers, template
from benchmarks.figures import Column, publish
from benchmarks.large_day import disk_s3, run
from benchmarks.processes import mib_of
from minutebook.clock import SystemClock
from minutebook.format.day import MINUTES_A_DAY
from minutebook.store.places import open_storage
from minutebook.store.storage import Address

_REGION: Final = "us-east-1"
_CLOCK: Final = SystemClock()
_SLOW_BATCHES: Final = 200
_COLUMNS: Final = (
    Column("state", "state"),
    Column("way", "way"),
    Column("rows", "rows", ",.0f"),
    Column("peak MiB", "peak", ",.0f"),
    Column("MiB in the second tenth", "early", ",.0f"),
    Column("MiB in the last tenth", "late", ",.0f"),
    Column("s until open", "opened", ",.1f"),
    Column("s", "seconds", ",.1f"),
    Column("rows per s", "rate", ",.0f"),
)


def _memory() -> float:
    return mib_of(Path("/proc/self/status").read_text(), "VmRSS:")


def _batches(days: Any) -> Iterator[int]:  # noqa: ANN401 - LiveDays
    for batch in days.to_batches():
        yield batch.num_rows


def _slow(days: Any) -> Iterator[int]:  # noqa: ANN401 - LiveDays
    for rows in islice(_batches(days), _SLOW_BATCHES):
        _CLOCK.sleep(0.05)
        yield rows


def _duckdb(days: Any) -> Iterator[int]:  # noqa: ANN401, ARG001 - found by its name
    import duckdb  # noqa: PLC0415 - not of the other ways

    sql = "SELECT count(*), count(DISTINCT shard_id), sum(length(data)) FROM days"
    yield duckdb.sql(sql).fetchall()[0][0]


WAYS: Final[dict[str, Callable[[Any], Iterator[int]]]] = {"batches": _batches, "slow": _slow, "duckdb": _duckdb}


def read_day(endpoint: str, way: str) -> dict[str, Any]:
    """Read the day in this process; returns what was seen."""
    from minutebook.reader import read  # noqa: PLC0415 - the parent needs no pyarrow

    begin, seen, rows = _CLOCK.monotonic(), list[float](), 0
    days = read(
        f"s3://{BUCKET}/days",
        DAY.date,
        DAY.date,
        live=True,
        archive=f"s3://{BUCKET}/{PREFIX}",
        region=_REGION,
        endpoint=endpoint,
    )
    opened = _CLOCK.monotonic()
    for count in WAYS[way](days):
        rows += count
        seen.append(_memory())
    seconds, tenth = _CLOCK.monotonic() - opened, max(1, len(seen) // 10)
    return {
        "state": "published" if days.published else "raw",
        "way": way,
        "rows": rows,
        "peak": mib_of(Path("/proc/self/status").read_text(), "VmHWM:"),
        "early": max(seen[tenth : 2 * tenth] or seen),
        "late": max(seen[-tenth:]),
        "opened": opened - begin,
        "seconds": seconds,
        "rate": rows / seconds,
    }


def _read_apart(endpoint: str, way: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.live_day", endpoint, way]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)  # noqa: S603 - our own
    row: dict[str, Any] = json.loads(done.stdout)
    return row


def main(arguments: list[str]) -> int:
    """Read the day in each way; write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks live_day", description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=2)
    parser.add_argument("--shards", type=int, default=20)
    parser.add_argument("--published", action="store_true")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    os.environ |= {
        "AWS_ACCESS_KEY_ID": "bench",
        "AWS_SECRET_ACCESS_KEY": "bench",
        "AWS_EC2_METADATA_DISABLED": "true",
        "PYTHONPATH": str(Path(__file__).parents[1]),
    }
    with tempfile.TemporaryDirectory(prefix="live-day-") as own:
        folder = options.folder or Path(own)
        folder.mkdir(parents=True, exist_ok=True)
        lines = options.gigabytes * 10**9 / template().width
        shape = Shape(options.shards, max(1, round(lines / options.shards / MINUTES_A_DAY)))
        with disk_s3(folder, make_day(folder, shape)) as endpoint:
            store_markers(open_storage(Address(BUCKET, "", _REGION, endpoint)), shape)
            rows = [_read_apart(endpoint, way) for way in WAYS]
            if options.published:
                compacted = run(folder, endpoint, "local[2]")
                if compacted["code"]:
                    sys.stdout.write(compacted["said"])
                    return 1
                rows += [_read_apart(endpoint, way) for way in WAYS]
    publish("Live reading of a day", _COLUMNS, rows, [], options.json)
    return 0


if __name__ == "__main__":
    sys.stdout.write(json.dumps(read_day(sys.argv[1], sys.argv[2])))
