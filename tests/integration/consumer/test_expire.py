"""`minutebook expire` on real servers: the deletes, what stays, and a run that was killed half-way.

The stream is new and its records are of now, so the archive of 40 days ago is written by the test.
"""

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from consumer.stream.kinesis import KinesisStream
from demo.embedded import EmbeddedAws
from minutebook.apply_option import UNCHANGED
from minutebook.clock import SystemClock, new_id, new_random
from minutebook.format.minute import minute_path
from minutebook.format.tombstone import decode_tombstone
from minutebook.store.s3 import S3Store
from minutebook.store.s3_storage import S3Storage
from tests.fakes.archive_scene import PREFIX, ArchiveScene
from tests.fakes.published_day import published_objects
from tests.fakes.stream import DAY_MS
from tests.witness.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient
    from mypy_boto3_s3 import S3Client


SHARD = "shardId-000000000000"
DAY = 1440
_CLOCK = SystemClock()
_TODAY = _CLOCK.now_ms() // DAY_MS
_BEGIN_MS = (_TODAY - 60) * DAY_MS
"""When the application says that it began: long before its stream was made."""
_COMMAND = Path(sys.executable).parent / "minutebook"


@pytest.fixture
def properties(
    embedded_aws: EmbeddedAws, tmp_path: Path, kinesis_client: "KinesisClient", s3_store: S3Store, bucket: str
) -> Path:
    """Return the file of an application with a fresh stream and an archive that was begun."""
    name = f"test-{new_id()[:10]}"
    kinesis_client.create_stream(StreamName=name, ShardCount=1)
    kinesis_client.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 30})
    identity = KinesisStream(lambda: kinesis_client, name, _CLOCK, new_random()).describe()
    ArchiveScene(s3_store).settle(identity, start_at_ms=_BEGIN_MS, application=name)
    path = tmp_path / "test.properties"
    path.write_text(
        f"streamName={name}\napplicationName={name}\nregionName=us-east-1\n"
        f"kinesisEndpoint={embedded_aws.kinesis_endpoint}\ndynamoDBEndpoint={embedded_aws.dynamodb_endpoint}\n"
        f"minutebook.bucket={bucket}\nminutebook.prefix={PREFIX}\nminutebook.s3Endpoint={embedded_aws.s3_endpoint}\n"
    )
    return path


def publish(store: S3Store, folder: Path, minute: int) -> str:
    """Publish the day of `minute` into a directory, as the nightly job does; returns the day."""
    day_path = minute_path(minute)[:10]
    day = day_path.replace("/", "-")
    raw = [(row.key, row.etag, row.size) for row in store.list_objects(f"{PREFIX}{day_path}/")]
    for key, body in published_objects("", day, raw, "g1", "clean").items():
        (folder / key).parent.mkdir(parents=True, exist_ok=True)
        (folder / key).write_bytes(body)
    return day


def expire(aws: EmbeddedAws, properties: Path, published: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    """Run the command as a person does."""
    command = [str(_COMMAND), "expire", str(properties), "--older-than", "30d", "--published", str(published)]
    return subprocess.run(
        [*command, *options],
        env={"PATH": "", "COLUMNS": "200", **aws.environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def test_a_published_day_goes_and_its_chains_end_stays(
    embedded_aws: EmbeddedAws, properties: Path, s3_store: S3Store, tmp_path: Path
) -> None:
    """First as a plan, then for good, then once more with nothing left to do."""
    begin = (_TODAY - 40) * DAY
    scene = ArchiveScene(s3_store)
    scene.begin_ms = _BEGIN_MS
    scene.begin(SHARD)
    keys = [scene.segment(SHARD, begin + number).key for number in range(12)]
    scene.read_on(SHARD, (_TODAY - 39) * DAY_MS)
    day = publish(s3_store, tmp_path / "out", begin)

    for words in ((), ("--dry-run",)):
        plan = expire(embedded_aws, properties, tmp_path / "out", *words)
        assert (plan.returncode, len(list(s3_store.list_objects(f"{PREFIX}2")))) == (0, 12), plan.stderr
        assert plan.stdout.splitlines()[-1] == UNCHANGED
        assert ("plan_not_applied" in plan.stderr) == (not words)
    done = expire(embedded_aws, properties, tmp_path / "out", "--apply", "--rate", "5")
    assert done.returncode == 0, done.stderr
    assert [row.key for row in s3_store.list_objects(f"{PREFIX}2")] == keys[-1:]
    stored = s3_store.get(f"{PREFIX}_expired/{day}.json")
    assert stored is not None
    stone = decode_tombstone(stored.body, day)
    assert [(run.first, run.last, run.segments) for run in stone.shards[SHARD].runs] == [("1000:0", "1115:2", 12)]
    again = expire(embedded_aws, properties, tmp_path / "out", "--apply")
    assert (again.returncode, "no day" in again.stdout) == (0, True), again.stderr


@pytest.mark.parametrize(
    "words",
    [("expire", "--older-than", "30d", "--published", ".", "--apply"), ("restore", "--apply")],
    ids=lambda words: words[0],
)
def test_properties_of_another_application_are_refused(
    embedded_aws: EmbeddedAws, properties: Path, s3_store: S3Store, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """Exit code 6, with what to correct; nothing is deleted, and no table is made."""
    ArchiveScene(s3_store).begin(SHARD)
    text = properties.read_text()
    name = text.partition("applicationName=")[2].partition("\n")[0]
    properties.write_text(text.replace(f"applicationName={name}", "applicationName=another"))
    before = [row.key for row in s3_store.list_objects("")]
    done = subprocess.run(
        [str(_COMMAND), words[0], str(properties), *words[1:]],
        env={"PATH": "", "COLUMNS": "200", **embedded_aws.environment},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert (done.returncode, "correct applicationName" in done.stderr) == (6, True), done
    assert f"begun by the application {name}" in done.stderr
    assert [row.key for row in s3_store.list_objects("")] == before
    assert "another" not in embedded_aws.dynamodb_client().list_tables()["TableNames"]


def test_a_day_within_retention_is_refused(embedded_aws: EmbeddedAws, properties: Path, tmp_path: Path) -> None:
    """Exit code 6, with the age that would do."""
    (tmp_path / "out").mkdir()
    done = expire(embedded_aws, properties, tmp_path / "out", "--older-than", "1d")
    assert (done.returncode, "--older-than 2d" in done.stderr) == (6, True)


def test_a_directory_that_is_not_there_is_refused(
    embedded_aws: EmbeddedAws, properties: Path, tmp_path: Path
) -> None:
    """Exit code 2: a typing mistake must not read as nothing published."""
    assert expire(embedded_aws, properties, tmp_path / "nowhere").returncode == 2


def test_deleting_twice_is_fine(s3_client: "S3Client", bucket: str, s3_store: S3Store) -> None:
    """A request whose answer was lost is sent again."""
    scene = ArchiveScene(s3_store)
    keys = [scene.segment(SHARD, minute).key for minute in (1, 2)]
    storage = S3Storage(s3_client, bucket)
    storage.delete(keys)
    storage.delete(keys)
    assert list(s3_store.list_objects(PREFIX)) == []
