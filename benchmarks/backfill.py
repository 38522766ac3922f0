"""A backfill: many small days of one archive, so many at once. Is the driver's memory flat, and how fast is it?

The days lie on the embedded S3; `minutebook compact --from --to` runs as a process of its own, once for each number
of days at once, into a folder of its own. After every day that is published the memory of the driver and of its JVM
is read from /proc (RssAnon: what is its own).
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from archive.format.day import Day
from archive.format.minute import MINUTE_MS
from archive.format.record import Record
from archive.owner import StreamOwner
from archive.store.places import open_storage
from archive.store.storage import Address
from consumer.stream.port import StreamIdentity
from demo.bootstrap import ensure_java
from demo.embedded import REGION, EmbeddedAws
from tests.fakes.archive_scene import ArchiveScene

_FIRST: Final = Day.parse("2026-10-01")
_PREFIX: Final = "raw/"
_BUCKET: Final = "backfill"
_ROOT: Final = Path(__file__).parents[1]
_ACCOUNT: Final = "000000000000"
_DAY_MS: Final = 86_400_000


class Sizes(NamedTuple):
    """How much there is: segments lie evenly over each day."""

    days: int
    shards: int
    segments: int
    records: int


def main(arguments: list[str]) -> int:
    """Print a table: memory after so many days, and the seconds of each run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks backfill", description=__doc__)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--segments", type=int, default=24, help="of each shard and day (default 24)")
    parser.add_argument("--records", type=int, default=200, help="of each segment (default 200)")
    parser.add_argument("--parallel", type=int, nargs="+", default=[1, 2, 4])
    asked = parser.parse_args(arguments)
    sizes = Sizes(asked.days, asked.shards, asked.segments, asked.records)
    ensure_java()
    with tempfile.TemporaryDirectory() as folder, EmbeddedAws(Path(folder) / "aws") as aws:
        os.environ.update(aws.environment)
        aws.s3_client().create_bucket(Bucket=_BUCKET)
        _write(ArchiveScene(open_storage(Address(_BUCKET, "", REGION, aws.s3_endpoint)), _PREFIX), sizes)
        file = _properties(Path(folder), aws)
        for parallel in asked.parallel:
            _report(parallel, *_run(file, sizes.days, parallel))
    return 0


def _write(scene: ArchiveScene, sizes: Sizes) -> None:
    owner = StreamOwner("backfill", REGION, _ACCOUNT)
    arn = f"arn:aws:kinesis:{owner.region}:{_ACCOUNT}:stream/{owner.name}"
    scene.settle(StreamIdentity(arn, _FIRST.begin_ms, _DAY_MS))
    shards = [f"shardId-{number:012d}" for number in range(sizes.shards)]
    scene.first(*shards)
    for shard in shards:
        scene.begin(shard, first="1000:0")
        sequence = 1000
        for number in range(sizes.days * sizes.segments):
            minute = _FIRST.first_minute + number * 1440 // sizes.segments + 1
            made = range(sequence, sequence + sizes.records)
            payload = b'{"carrier":"UA","flight":1545,"origin":"EWR","dest":"IAH","distance":1400}'
            scene.segment(shard, minute, [Record(str(at), 0, "k", minute * MINUTE_MS, payload) for at in made])
            sequence += sizes.records
        scene.read_on(shard, _FIRST.shift(sizes.days).begin_ms + 3_600_000)


def _properties(folder: Path, aws: EmbeddedAws) -> Path:
    file = folder / "backfill.properties"
    values = {
        "streamName": "backfill",
        "applicationName": "backfill",
        "regionName": REGION,
        "kinesisEndpoint": aws.kinesis_endpoint,
        "dynamoDBEndpoint": aws.dynamodb_endpoint,
        "minutebook.bucket": _BUCKET,
        "minutebook.prefix": _PREFIX,
        "minutebook.s3Endpoint": aws.s3_endpoint,
    }
    file.write_text("".join(f"{name} = {value}\n" for name, value in values.items()))
    return file


def _run(file: Path, days: int, parallel: int) -> tuple[int, float, list[tuple[float, float]]]:
    last = str(_FIRST.shift(days - 1))
    command = [
        sys.executable,
        "-m",
        "minutebook",
        "compact",
        str(file),
        "--from",
        str(_FIRST),
        "--to",
        last,
    ]
    command += ["--out", f"s3://{_BUCKET}/out-{parallel}", "--parallel-days", str(parallel), "--master", "local[2]"]
    environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
    begin = time.perf_counter()
    with subprocess.Popen(  # noqa: S603 - our own program
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as driver:
        ended = (line for line in driver.stderr or () if "day_published" in line)
        after = [(_memory(driver.pid), _memory_of_jvm(driver.pid)) for _ in ended]
        code = driver.wait()
    return code, time.perf_counter() - begin, after


def _memory_of_jvm(parent: int) -> float:
    children = Path(f"/proc/{parent}/task/{parent}/children").parent.parent.glob("*/children")
    found = {int(child) for path in children for child in path.read_text().split()}
    return sum(_memory(child) for child in found)


def _memory(process: int) -> float:
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0.0  # it has just ended
    return int(status.partition("RssAnon:")[2].split()[0]) / 1024


def _report(parallel: int, code: int, seconds: float, after: Sequence[tuple[float, float]]) -> None:
    at = [number for number in (1, 5, 10, 15, 20, 25, 30) if number <= len(after)]
    said = ", ".join(f"{number}: {after[number - 1][0]:.0f} + {after[number - 1][1]:.0f}" for number in at)
    told = f"{parallel} at once: exit {code}, {len(after)} days in {seconds:.0f} s; MiB of driver + JVM after day"
    sys.stdout.write(f"{told} {said}\n")
    sys.stdout.flush()
