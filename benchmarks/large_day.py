"""The whole nightly job on a day that no memory holds: `minutebook compact` on 40 GB of lines, and its memory.

The day is written once, by two processes: shards of a segment a minute, each with a chain, numbers and times of its
own; the payloads come from a pool of 20,000, at another place of it in each segment. An S3 on files (`disk_s3`)
serves it, and takes the Parquet files. The command is the product's own, as a process of its own, with the executor
apart from the driver. Once a second the memory of each process is read from /proc. Time is of this machine and of
what else it does; memory is not.

    python -m benchmarks large_day [--gigabytes 40] [--shards 20] [--folder FOLDER] [--json .bench/large-day.json]
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from benchmarks.archives import DAY, PREFIX
from benchmarks.day_on_disk import BUCKET, Shape, make_day, store_markers, template
from benchmarks.figures import Column, median, publish
from benchmarks.pipe.services import read_port
from benchmarks.processes import KINDS, Curve
from minutebook.clock import SystemClock
from minutebook.format.day import MINUTES_A_DAY
from minutebook.store.places import open_storage
from minutebook.store.storage import Address

_REGION: Final = "us-east-1"
_CLOCK: Final = SystemClock()
_COLUMNS: Final = (
    Column("process", "kind"),
    Column("peak MiB of the largest", "peak", ",.0f"),
    Column("MiB together after a tenth of the time", "early", ",.0f"),
    Column("MiB together in the last tenth", "late", ",.0f"),
    Column("CPU s", "cpu", ",.0f"),
    Column("CPU s per GB of lines", "cpu_per_gb", ".2f"),
)


@contextmanager
def disk_s3(folder: Path, index: Path | None) -> Iterator[str]:
    """Serve a day, if there is one, and what is written; yields the endpoint."""
    (folder / "port").unlink(missing_ok=True)
    command = [sys.executable, "-m", "benchmarks.disk_s3", str(folder / "put"), str(folder / "port")]
    command += [] if index is None else [str(index)]
    server = subprocess.Popen(command, stdin=subprocess.PIPE)  # noqa: S603 - our own
    try:
        yield f"http://127.0.0.1:{read_port(folder / 'port')}"
    finally:
        server.communicate()
        shutil.rmtree(folder / "put")


def run(folder: Path, endpoint: str, master: str) -> dict[str, Any]:
    """Compact the day as a user does; returns what was seen of it."""
    file = folder / "bench.properties"
    file.write_text(
        f"streamName = bench\napplicationName = bench\nregionName = {_REGION}\nminutebook.bucket = {BUCKET}\n"
        f"minutebook.prefix = {PREFIX}\nminutebook.s3Endpoint = {endpoint}\n"
        "kinesisEndpoint = http://127.0.0.1:9\ndynamoDBEndpoint = http://127.0.0.1:9\n"
    )
    command = [sys.executable, "-m", "minutebook", "compact", str(file), "--date", str(DAY)]
    command += ["--out", f"s3://{BUCKET}/days", "--master", master]
    begin, phases = _CLOCK.monotonic(), []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as driver:  # noqa: S603 - our own
        curve = Curve(driver.pid)
        said: list[str] = []
        reader = threading.Thread(target=lambda: said.extend(driver.stdout or ()), daemon=True)
        reader.start()
        for line in driver.stderr or ():
            event = json.loads(line) if line.startswith("{") else {}
            if event.get("event") == "night_progress":
                phases.append([_CLOCK.monotonic() - begin, event["phase"], event["done"], event["total"]])
            else:
                sys.stderr.write(line)
        code = driver.wait()
        reader.join()
    seconds = _CLOCK.monotonic() - begin
    return {"code": code, "seconds": seconds, "said": "".join(said), "phases": phases, **curve.stop()}


def check(folder: Path, said: str, shape: Shape) -> str:
    """Return what is wrong: rows that the command did not tell of, or that its files do not hold."""
    rows = shape.shards * shape.records * MINUTES_A_DAY
    told = re.search(r"published: ([0-9,]+) rows, .* verdict (\w+)", said)
    if told is None or (told[1], told[2]) != (f"{rows:,}", "clean"):
        return f"{rows:,} rows, said is {said!r}"
    files = [path for path in (folder / "put").iterdir() if _begins(path) == b"PAR1"]
    found = [pq.read_metadata(path) for path in files]
    stored = sum(footer.num_rows for footer in found if "sequence_number" in footer.schema.names)
    return "" if stored == rows else f"{rows:,} rows were archived, the files hold {stored:,}"


def _begins(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(4)


def main(arguments: list[str]) -> int:
    """Print a table of the processes; the samples go to --json. Exit code 1 when rows are missing."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks large_day", description=__doc__)
    parser.add_argument(
        "--gigabytes", type=float, default=40, help="lines, uncompressed; a quarter of it on disk, twice"
    )
    parser.add_argument("--shards", type=int, default=20)
    parser.add_argument("--master", default="local-cluster[1,2,1024]", help="executors, cores and MB of each")
    parser.add_argument("--folder", type=Path, help="keep the day here")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    lines = options.gigabytes * 1e9 / template().width
    shape = Shape(options.shards, max(1, -int(-lines // (options.shards * MINUTES_A_DAY))))
    os.environ |= {
        "AWS_ACCESS_KEY_ID": "bench",
        "AWS_SECRET_ACCESS_KEY": "bench",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    root = str(Path(__file__).parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
    folder = options.folder or Path(tempfile.mkdtemp(prefix="minutebook-day-"))
    try:
        index = make_day(folder, shape)
        with disk_s3(folder, index) as endpoint:
            store_markers(open_storage(Address(BUCKET, "", _REGION, endpoint)), shape)
            found = run(folder, endpoint, options.master)
            wrong = check(folder, found["said"], shape)
    finally:
        if options.folder is None:
            shutil.rmtree(folder)
    return report(found, shape, wrong, options.json)


def report(found: dict[str, Any], shape: Shape, wrong: str, json_file: Path | None) -> int:
    """Print the table."""
    gigabytes = shape.shards * shape.records * MINUTES_A_DAY * template().width / 1e9
    samples, cpu = found["samples"], found["cpu"]
    times = [sample["seconds"] for sample in samples]
    begin, end = times[len(times) // 10], times[-len(times) // 10]
    rows: list[dict[str, Any]] = []
    for kind in KINDS:
        row: dict[str, Any] = {"kind": kind, "peak": found["peaks"].get(kind, 0)}
        row["early"] = median([each.get(kind, 0) for each in samples if each["seconds"] <= begin][-20:])
        row["late"] = median([each.get(kind, 0) for each in samples if each["seconds"] >= end][:20])
        if kind in cpu:
            row |= {"cpu": cpu[kind], "cpu_per_gb": cpu[kind] / gigabytes}
        rows.append(row)
    rows.append({"kind": "all", "peak": found["together"], "cpu": sum(cpu.values())})
    rows[-1]["cpu_per_gb"] = rows[-1]["cpu"] / gigabytes
    title = (
        f"A day of {gigabytes:.1f} GB of lines, {shape.shards * MINUTES_A_DAY:,} objects: {found['seconds']:.0f} s"
    )
    publish(title, _COLUMNS, rows, {**found, "gigabytes": gigabytes, "shards": shape.shards}, json_file)
    sys.stdout.write(f"{found['said']}{f'WRONG: {wrong}' if wrong else 'all rows are there'}\n")
    return 1 if wrong or found["code"] else 0
