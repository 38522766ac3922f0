"""SIGKILL of the driver in the middle of a compaction, at random moments: readers never see a mixed day."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from compaction.publish.publisher import Publisher
from demo.embedded import REGION, EmbeddedAws
from minutebook.clock import SystemClock, new_id, new_random
from minutebook.format.day import Day
from minutebook.published.generation import DayFolder
from minutebook.retry import Backoff
from minutebook.store.places import open_storage
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import Address, Storage
from tests.corpus.model import PREFIX, Corpus, Shape

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

DAY = Day.parse("2026-11-20")
ROOT = Path(__file__).parents[3]
MOMENTS = int(os.environ.get("TESTS_KILLS", "2"))
"""How many drivers are killed; each costs the start of a JVM."""


def published(storage: Storage) -> list[tuple[str, str]]:
    """Read the day as a reader does; empty when it is not published."""
    retrying = RetryingStorage(storage, lambda: Backoff(SystemClock(), new_random(), budget_seconds=10))
    publisher = Publisher(retrying, DayFolder(f"{PREFIX}_parquet/", DAY))
    pointer = publisher.current().pointer
    if pointer is None:
        return []
    manifest = publisher.manifest(pointer)
    assert manifest is not None
    rows: list[tuple[str, str]] = []
    for file in manifest.files:
        stored = storage.get(file.key)
        assert stored is not None
        table = pq.read_table(pa.BufferReader(stored.body), columns=["shard_id", "sequence_number"])
        rows += zip(table["shard_id"].to_pylist(), table["sequence_number"].to_pylist(), strict=True)
    return rows


def test_a_killed_driver_leaves_the_old_day_and_the_next_run_finishes(
    embedded_aws: EmbeddedAws, s3_client: "S3Client", tmp_path: Path
) -> None:
    """The day is absent or whole after each kill, and whole, with no row doubled, after the last run."""
    bucket = f"kill-{new_id()[:10]}"
    s3_client.create_bucket(Bucket=bucket)
    storage = open_storage(Address(bucket, "", REGION, embedded_aws.s3_endpoint))
    # Unproven ends do not hold a day back; there is no lease table here.
    corpus = Corpus(DAY, shape=Shape(shards=6, minutes=tuple(range(0, 1440, 90)), records=400, payload_bytes=500))
    corpus.write(storage, application=bucket)
    properties = tmp_path / "kill.properties"
    properties.write_text(
        f"streamName=corpus\napplicationName={bucket}\nregionName={REGION}\nminutebook.bucket={bucket}\n"
        f"kinesisEndpoint={embedded_aws.kinesis_endpoint}\ndynamoDBEndpoint={embedded_aws.dynamodb_endpoint}\n"
        f"minutebook.prefix={PREFIX}\nminutebook.s3Endpoint={embedded_aws.s3_endpoint}\n"
    )
    rng = random.Random(7)
    longest = 20.0
    for _ in range(MOMENTS):
        begin = SystemClock().monotonic()
        if run(properties, embedded_aws, rng.uniform(0.3, longest)) is not None:
            longest = max(1.0, SystemClock().monotonic() - begin)
        assert len(published(storage)) in {0, corpus.records}
    code = run(properties, embedded_aws, None)
    rows = published(storage)
    assert code in {0, 4}
    assert len(set(rows)) == len(rows) == corpus.records


def run(properties: Path, aws: EmbeddedAws, seconds: float | None) -> int | None:
    """Run `minutebook compact` and kill its whole process group after `seconds`; None when it was killed."""
    command = [sys.executable, "-m", "minutebook", "compact", str(properties), "--date", str(DAY)]
    environment = {**aws.environment, "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": "/nonexistent"}
    with subprocess.Popen(
        [*command, "--master", "local[2]"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as driver:
        try:
            return driver.wait(timeout=240 if seconds is None else seconds)
        except subprocess.TimeoutExpired:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
            return None
