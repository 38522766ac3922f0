"""A day whose producers repeated events, without the copies: by the local engine and by Spark, the same rows.

`minutebook compact --event-id id --drop-producer-duplicates` as a process of its own, once for each engine, on one
archive that an S3 on files (`disk_s3`) serves. One event in fifty is repeated, anywhere in the day and in any shard.
What the two wrote is read back: file by file the same rows, in the same order, in every column. The memory is that of
all processes together, each page counted in proportion to its users (PSS), at its highest of two samples a second.
The verdict is unknown: nobody proves where these shards end.

    python -m benchmarks dropped_copies [--millions 10] [--engines local spark]
"""

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from benchmarks.archives import DAY, PREFIX, Line, write_archive
from benchmarks.day_on_disk import BUCKET
from benchmarks.figures import Column, publish
from benchmarks.large_day import disk_s3
from benchmarks.processes import Sampler, cpu_seconds, memory_by_kind
from minutebook.clock import SystemClock
from minutebook.store.places import open_storage
from minutebook.store.storage import Address

_REGION: Final = "us-east-1"
_CLOCK: Final = SystemClock()
_RECORDS: Final = 5000
_REPEATED: Final = 50
_COLUMNS: Final = (
    Column("engine", "engine"),
    Column("rows", "rows", ","),
    Column("copies left out", "copies", ","),
    Column("s", "seconds", ".0f"),
    Column("CPU s", "cpu", ".0f"),
    Column("peak MiB, all processes", "peak", ",.0f"),
)


class _Use(Sampler):
    """The memory of a process and its descendants together at its highest, and their CPU time."""

    def __init__(self, root: int) -> None:
        self.peak = self.cpu = 0.0
        super().__init__(root, every_seconds=0.5)

    def sample(self) -> None:
        """Take both."""
        self.peak = max(self.peak, sum(memory_by_kind(self.root).values()))
        self.cpu = max(self.cpu, cpu_seconds(self.root))


def _payload(rng: random.Random) -> Any:  # noqa: ANN401 - a function of a line
    def payload(line: Line) -> bytes:
        event = rng.randrange(line.number) if line.number and not rng.randrange(_REPEATED) else line.number
        return b'{"id":"event-%d","carrier":"AA","delay":%d,"distance":%d}' % (event, event % 97, event % 5003)

    return payload


def run(folder: Path, endpoint: str, engine: str) -> dict[str, Any]:
    """Compact the day as a user does."""
    file = folder / "bench.properties"
    file.write_text(
        f"streamName = bench\napplicationName = bench\nregionName = {_REGION}\nminutebook.bucket = {BUCKET}\n"
        f"minutebook.prefix = {PREFIX}\nminutebook.s3Endpoint = {endpoint}\n"
        "kinesisEndpoint = http://127.0.0.1:9\ndynamoDBEndpoint = http://127.0.0.1:9\n"
    )
    out = folder / f"days-{engine}"
    command = [sys.executable, "-m", "minutebook", "compact", str(file), "--date", str(DAY), "--out", str(out)]
    command += ["--engine", engine, "--event-id", "id", "--drop-producer-duplicates"]
    begin = _CLOCK.monotonic()
    with (folder / f"{engine}.log").open("wb") as log:
        job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)  # noqa: S603 - our own
        use = _Use(job.pid)
        said, _ = job.communicate()
    seconds = _CLOCK.monotonic() - begin
    use.finish()
    found = re.search(r"published: ([0-9,]+) rows", said)
    sys.stdout.write(said)
    rows = int(found[1].replace(",", "")) if found else 0
    return {"engine": engine, "rows": rows, "seconds": seconds, "cpu": use.cpu, "peak": use.peak, "out": str(out)}


def parts(out: Path) -> list[Path]:
    """Return the files of rows, in the order of what is in them. A day is published once here: none is an old one."""
    files = [file for file in out.rglob("*.parquet") if "sequence_number" in pq.read_schema(file).names]
    return sorted(files, key=_first)


def _first(file: Path) -> tuple[str, int]:
    with pq.ParquetFile(file) as opened:
        row = next(opened.iter_batches(1, columns=["shard_id", "sequence_number"])).to_pylist()[0]
    return row["shard_id"], int(row["sequence_number"])


def is_same(one: Path, other: Path) -> bool:
    """Tell whether two files hold the same rows, in the same order, in every column."""
    return bool(pq.read_table(one).equals(pq.read_table(other)))


def main(arguments: list[str]) -> int:
    """Print a table. Exit code 1 when the rows are not the same."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks dropped_copies", description=__doc__)
    parser.add_argument("--millions", type=float, default=10)
    parser.add_argument("--engines", nargs="+", default=["local", "spark"])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    os.environ |= {
        "AWS_ACCESS_KEY_ID": "bench",
        "AWS_SECRET_ACCESS_KEY": "bench",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    root = str(Path(__file__).parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
    rng = random.Random(1)  # noqa: S311 - the same archive every time
    shape = (max(10, int(options.millions * 1e6 / _RECORDS)), _RECORDS)
    with tempfile.TemporaryDirectory(prefix="minutebook-copies-") as name, disk_s3(Path(name), None) as endpoint:
        raw = write_archive(open_storage(Address(BUCKET, "", _REGION, endpoint)), shape, _payload(rng), rng)
        rows = [run(Path(name), endpoint, engine) for engine in options.engines]
        files = [parts(Path(row["out"])) for row in rows]
        sent = shape[0] * shape[1]
        for row in rows:
            row["copies"] = sent - row["rows"]
        same = {len(each) for each in files} == {len(files[0])} and all(
            is_same(one, other) for each in files[1:] for one, other in zip(files[0], each, strict=True)
        )
        stored = [sum(pq.read_metadata(file).num_rows for file in each) for each in files]
    publish(f"{sent:,} records, {raw / 1e9:.2f} GB of lines, copies left out", _COLUMNS, rows, rows, options.json)
    is_right = same and stored == [row["rows"] for row in rows] and all(0 < row["copies"] < sent for row in rows)
    said = f"{len(files[0])} files each, the same rows in them" if is_right else f"WRONG: rows {stored}, same {same}"
    sys.stdout.write(f"{said}\n")
    return 0 if is_right else 1
