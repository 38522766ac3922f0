"""The pre-flight on real servers, and on an S3 server with chosen faults: each is found, and says what to do."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from consumer.connections import stream_of
from consumer.daemon.start import settle_start
from consumer.preflight.check import Check, CheckOutcome
from consumer.preflight.preflight import failed_checks_code, preflight, settled
from consumer.settings.settings import LoadedSettings, Settings
from minutebook.clock import SystemClock, new_id, new_random
from minutebook.compression import Compression
from minutebook.store.objects import PutOutcome
from minutebook.store.s3 import S3Store
from tests.fakes.archive_scene import ArchiveScene
from tests.fakes.lax_s3 import LaxBucket, Refusal, Request, serve
from tests.witness.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient
    from mypy_boto3_s3 import S3Client

    from demo.embedded import EmbeddedAws

MINUTEBOOK = Path(sys.executable).with_name("minutebook")
Prepare = Callable[..., LoadedSettings]


@pytest.fixture(scope="session")
def stream(kinesis_client: "KinesisClient") -> str:
    """Return the name of an active stream."""
    name = f"preflight-{new_id()[:8]}"
    kinesis_client.create_stream(StreamName=name, ShardCount=1)
    kinesis_client.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1})
    return name


@pytest.fixture
def prepare(embedded_aws: "EmbeddedAws", stream: str) -> Prepare:
    """Return what makes the settings of a run on the embedded servers, with some of them replaced."""

    def build(**changed: Any) -> LoadedSettings:  # noqa: ANN401 - fields of Settings
        fields: dict[str, Any] = {
            "stream_name": stream,
            "application_name": "app",
            "region": "us-east-1",
            "bucket": "archive",
            "prefix": "a/",
            "kinesis_endpoint": embedded_aws.kinesis_endpoint,
            "dynamodb_endpoint": embedded_aws.dynamodb_endpoint,
            "s3_endpoint": embedded_aws.s3_endpoint,
        }
        return LoadedSettings(Settings(**{**fields, **changed}), {}, {})

    return build


def run(loaded: LoadedSettings, *, whole: bool = False) -> list[Check]:
    """Return all checks of a pre-flight."""
    return list(
        preflight(
            loaded, os.environ, whole=whole, clock=SystemClock(), rng=new_random(), new_id=new_id, patience_seconds=1
        )
    )


def failures(checks: list[Check]) -> list[Check]:
    """Return the checks that failed."""
    return [check for check in checks if check.outcome is CheckOutcome.FAIL]


def the_failure(loaded: LoadedSettings, *, whole: bool = False) -> Check:
    """Return the one check that failed."""
    found = failures(run(loaded, whole=whole))
    assert len(found) == 1, found
    assert found[0].next_step
    return found[0]


def test_all_is_well(prepare: Prepare, bucket: str, s3_client: "S3Client") -> None:
    """On servers that are right every check passes, and no probe object stays."""
    checks = run(prepare(bucket=bucket), whole=True)

    left = [check for check in checks if check.outcome is not CheckOutcome.OK]
    assert [(check.name, check.outcome) for check in left] == [("table actions", CheckOutcome.UNKNOWN)]
    assert "CreateTable and UpdateTable cannot be tried" in left[0].sentence
    services = {"java", "KCL", "credentials", "stream", "bucket", "clock", "If-None-Match", "prefix", "lifecycle"}
    assert {check.name for check in checks} >= services
    assert "Contents" not in s3_client.list_objects_v2(Bucket=bucket)


def test_missing_bucket(prepare: Prepare) -> None:
    """A bucket that does not exist is a setting to correct: 2."""
    check = the_failure(prepare(bucket="no-such-bucket"))

    assert check.exit_code == 2
    assert "there is no bucket no-such-bucket" in check.sentence


def test_missing_stream(prepare: Prepare, bucket: str) -> None:
    """A stream that does not exist is a setting to correct: 2."""
    check = the_failure(prepare(bucket=bucket, stream_name="no-such-stream"))

    assert check.exit_code == 2
    assert "there is no stream no-such-stream" in check.sentence
    assert check.next_step == "create it, or correct streamName and regionName"


def test_a_missing_stream_is_no_fault_of_the_bucket(prepare: Prepare, bucket: str) -> None:
    """Also beside an archive, which is compared with the stream: the bucket's own checks run, and none fails."""
    loaded, clock = prepare(bucket=bucket), SystemClock()
    settle_start(loaded.settings, stream_of(loaded.settings, clock), clock)
    checks = run(prepare(bucket=bucket, stream_name="no-such-stream"), whole=True)

    assert [check.name for check in failures(checks)] == ["stream"]
    outcomes = {check.name: check.outcome for check in checks}
    assert outcomes["prefix"] is CheckOutcome.UNKNOWN
    assert {outcomes[name] for name in ("bucket", "lifecycle", "replication", "versioning")} == {CheckOutcome.OK}


def test_prefix_of_another_stream(prepare: Prepare, bucket: str, s3_store: Any) -> None:  # noqa: ANN401 - S3Store
    """A prefix that belongs to another stream is refused for safety: 6."""
    record = (
        b'{"format":1,"stream_arn":"arn:aws:kinesis:us-east-1:0:stream/other","stream_created_ms":1,'
        b'"application":"a","start":"oldest","start_at_ms":null,"writer":"w","written_at_ms":1}'
    )
    assert s3_store.put_if_absent("a/_application.json", record, {}, "application/json") is PutOutcome.CREATED

    check = the_failure(prepare(bucket=bucket))
    assert (check.name, check.exit_code) == ("prefix", 6)
    assert "stream/other" in check.sentence


def test_lifecycle_rule(prepare: Prepare, bucket: str, s3_client: "S3Client") -> None:
    """A rule that expires raw objects re-opens slots: doctor refuses it with 6."""
    s3_client.put_bucket_lifecycle_configuration(
        Bucket=bucket,
        LifecycleConfiguration={
            "Rules": [{"ID": "tidy", "Status": "Enabled", "Filter": {"Prefix": "a/"}, "Expiration": {"Days": 30}}]
        },
    )

    check = the_failure(prepare(bucket=bucket), whole=True)
    assert (check.name, check.exit_code) == ("lifecycle", 6)
    assert "tidy" in check.sentence


def test_a_lifecycle_rule_by_a_tag_that_others_set(prepare: Prepare, bucket: str, s3_client: "S3Client") -> None:
    """We put no tags: who tags our newest segment lets a rule delete it."""
    scene = ArchiveScene(S3Store(s3_client, bucket), "a/")
    key = scene.segment("shardId-000000000000", SystemClock().now_ms() // 60_000).key
    rule = {
        "ID": "tidy",
        "Status": "Enabled",
        "Filter": {"Tag": {"Key": "keep", "Value": "no"}},
        "Expiration": {"Days": 1},
    }
    s3_client.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": [rule]})
    assert "FAIL" not in {check.outcome.name for check in run(prepare(bucket=bucket), whole=True)}

    tags = {"TagSet": [{"Key": "keep", "Value": "no"}]}
    s3_client.put_object_tagging(Bucket=bucket, Key=key, Tagging=tags)
    check = the_failure(prepare(bucket=bucket), whole=True)
    assert (check.name, check.exit_code) == ("lifecycle", 6)
    assert "tidy" in check.sentence


def test_a_lifecycle_rule_that_archives(prepare: Prepare, bucket: str, s3_client: "S3Client") -> None:
    """A warning with the day: the daemon may start, the nights will fail."""
    rule = {"ID": "cold", "Status": "Enabled", "Filter": {}, "Transitions": [{"Days": 9, "StorageClass": "GLACIER"}]}
    s3_client.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": [rule]})

    (check,) = (check for check in run(prepare(bucket=bucket), whole=True) if check.name == "lifecycle")
    assert check.outcome is CheckOutcome.WARN
    assert "cold (today's to GLACIER on " in check.sentence


def test_replication_that_began_late(prepare: Prepare) -> None:
    """The oldest objects are ours, the newest ones replicas: writes without a condition."""
    bucket = LaxBucket(replicas="a/2026/11/22/")
    for day in range(1, 23):
        key = f"a/2026/11/{day:02d}/10/16/shardId-000000000000/{day:056d}-0.jsonl.gz"
        bucket.objects[key] = (b"x", {})
    with serve(bucket) as endpoint:
        check = the_failure(prepare(s3_endpoint=endpoint), whole=True)

    assert (check.name, check.exit_code) == ("replication", 6)
    assert "a/2026/11/22/" in check.sentence


@pytest.mark.parametrize(
    "fault", [LaxBucket(ignores_condition=True), LaxBucket(checks_late=True), LaxBucket(keeps_deleted=True)]
)
def test_a_bucket_on_which_nothing_may_be_built(prepare: Prepare, fault: LaxBucket) -> None:
    """Servers that ignore the condition, that check it too early, or that block a deleted key: refused with 6."""
    with serve(fault) as endpoint:
        check = the_failure(prepare(s3_endpoint=endpoint), whole=True)

    assert (check.name, check.exit_code) == ("If-None-Match", 6)


@pytest.mark.parametrize("method", ["PUT", "GET"])
def test_missing_permission(prepare: Prepare, method: str) -> None:
    """A right that the protocol needs and does not have: 2, and the request that was refused is named."""
    with serve(LaxBucket(denies=frozenset({method}))) as endpoint:
        check = the_failure(prepare(s3_endpoint=endpoint), whole=True)

    assert check.exit_code == 2
    assert "AccessDenied" in check.sentence


def test_a_worker_needs_no_right_to_delete_and_leaves_nothing(prepare: Prepare) -> None:
    """What it finds out about the bucket it asks of the record that it needs itself, and of reads."""
    bucket = LaxBucket(denies=frozenset({"DELETE"}))
    with serve(bucket) as endpoint:
        loaded, clock = prepare(s3_endpoint=endpoint), SystemClock()
        checks = run(loaded)
        assert bucket.objects == {}
        settle_start(loaded.settings, stream_of(loaded.settings, clock), clock)
        begun = dict(bucket.objects)
        checks.append(settled(loaded, clock, new_random(), new_id))

    assert {check.outcome for check in checks} == {CheckOutcome.OK}
    assert checks[-1].name == "If-None-Match"
    assert bucket.objects == begun
    assert set(begun) == {"a/_application.json", "a/_shards/first.json"}


def test_a_compression_that_is_not_used_is_a_warning(prepare: Prepare, bucket: str) -> None:
    """The archive was begun with another one: nothing fails for that."""
    loaded, clock = prepare(bucket=bucket, compression=Compression.ZSTD), SystemClock()
    settle_start(loaded.settings, stream_of(loaded.settings, clock), clock)
    assert {check.outcome for check in run(loaded)} == {CheckOutcome.OK}
    told = [check for check in run(prepare(bucket=bucket, compression=Compression.GZIP)) if check.name == "prefix"]

    assert [(check.outcome, "holds an archive of zstd" in check.sentence) for check in told] == [
        (CheckOutcome.WARN, True)
    ]


def test_another_application_is_warned_of_and_not_refused(prepare: Prepare, bucket: str) -> None:
    """It archives each record once; whose properties the nightly job needs is said."""
    loaded, clock = prepare(bucket=bucket), SystemClock()
    settle_start(loaded.settings, stream_of(loaded.settings, clock), clock)
    (check,) = [check for check in run(prepare(bucket=bucket, application_name="other")) if check.name == "prefix"]
    assert check.outcome is CheckOutcome.WARN
    assert "properties of app alone" in check.next_step


def test_a_prefix_whose_record_is_gone_is_not_free(prepare: Prepare, bucket: str, s3_store: Any) -> None:  # noqa: ANN401 - S3Store
    """The archive was begun: its record is older than all else."""
    assert s3_store.put_if_absent("a/_shards/first.json", b"{}", {}, "application/json") is PutOutcome.CREATED

    check = the_failure(prepare(bucket=bucket))
    assert (check.exit_code, "is gone" in check.sentence) == (6, True)


def test_a_record_that_is_gone_is_no_proof(prepare: Prepare, bucket: str) -> None:
    """Nothing to ask with: that fails, and is not taken for a bucket that heeds the condition."""
    check = settled(prepare(bucket=bucket), SystemClock(), new_random(), new_id)

    assert (check.outcome, check.exit_code) == (CheckOutcome.FAIL, 1)
    assert "a/_application.json is missing" in check.sentence


def test_a_doctor_without_the_right_to_delete(prepare: Prepare) -> None:
    """A warning about the probes that stay."""
    with serve(LaxBucket(denies=frozenset({"DELETE"}))) as endpoint:
        checks = run(prepare(s3_endpoint=endpoint), whole=True)

    assert failed_checks_code(checks) == 0
    assert [check.outcome for check in checks if "probe objects stay" in check.sentence] == [CheckOutcome.WARN]
    assert [check.outcome for check in checks if "not tried after a deletion" in check.sentence] == [
        CheckOutcome.UNKNOWN
    ]


def test_a_wrong_clock(prepare: Prepare) -> None:
    """Minutes are told by clocks: hours of skew are refused with 6."""
    with serve(LaxBucket(date="Sat, 21 Nov 2020 10:16:00 GMT")) as endpoint:
        check = the_failure(prepare(s3_endpoint=endpoint))

    assert (check.name, check.exit_code) == ("clock", 6)
    assert "ahead of the bucket's" in check.sentence


@pytest.mark.parametrize("service", ["kinesis_endpoint", "s3_endpoint", "dynamodb_endpoint"])
def test_a_service_that_is_away(prepare: Prepare, bucket: str, unused_endpoint: str, service: str) -> None:
    """No answer is 5: it may pass, and whoever restarts us may try again."""
    assert the_failure(prepare(bucket=bucket, **{service: unused_endpoint})).exit_code == 5


def test_nothing_is_asked_after_a_failure(prepare: Prepare) -> None:
    """What builds on a failed check is unknown, not fine."""
    checks = [check for check in run(prepare(bucket="no-such-bucket")) if check.name in {"bucket", "prefix"}]

    assert [check.outcome for check in checks] == [CheckOutcome.FAIL, CheckOutcome.UNKNOWN, CheckOutcome.UNKNOWN]
    assert "2 more checks not run" in checks[1].sentence
    assert checks[-1].sentence == "not looked at: the bucket failed"


def write_file(folder: Path, loaded: LoadedSettings) -> Path:
    """Write the properties file of these settings."""
    settings = loaded.settings
    path = folder / "test.properties"
    path.write_text(
        f"streamName={settings.stream_name}\napplicationName=app\nregionName=us-east-1\nminutebook.prefix=a/\n"
        f"minutebook.bucket={settings.bucket}\nminutebook.s3Endpoint={settings.s3_endpoint}\n"
        f"kinesisEndpoint={settings.kinesis_endpoint}\ndynamoDBEndpoint={settings.dynamodb_endpoint}\n"
    )
    return path


def command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the front door."""
    return subprocess.run(
        [MINUTEBOOK, *arguments], capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
    )


def test_doctor_prints_json(prepare: Prepare, bucket: str, tmp_path: Path) -> None:
    """The command's JSON and its exit code agree."""
    answer = command("doctor", write_file(tmp_path, prepare(bucket=bucket)), "--json")

    assert answer.returncode == 0
    report = json.loads(answer.stdout)
    assert report["exit_code"] == 0
    left = [check for check in report["checks"] if check["outcome"] != "ok"]
    assert [(check["name"], check["outcome"]) for check in left] == [("table actions", "unknown")]


def test_doctor_shows_the_next_step(prepare: Prepare, tmp_path: Path) -> None:
    """A person sees what failed and what to do, and the shell the code."""
    answer = command("doctor", write_file(tmp_path, prepare(bucket="no-such-bucket")))

    assert answer.returncode == 2
    assert "FAIL" in answer.stdout
    assert "create it, or correct minutebook.bucket" in answer.stdout


def test_consume_refuses_before_it_starts_anything(prepare: Prepare, tmp_path: Path) -> None:
    """A bucket that ignores If-None-Match: an error line, code 6, no daemon, and the record is not replaced."""
    fault = LaxBucket(ignores_condition=True)
    with serve(fault) as endpoint:
        answer = command(
            "consume", write_file(tmp_path, prepare(s3_endpoint=endpoint)), "--state-dir", tmp_path / "s"
        )

    events = [json.loads(line) for line in answer.stderr.splitlines()]
    assert answer.returncode == 6
    assert [event["event"] for event in events] == ["preflight_passed", "first_shards_settled", "preflight_failed"]
    assert (events[-1]["check"], events[-1]["exit_code"]) == ("If-None-Match", 6)
    assert events[-1]["next_step"]
    assert set(fault.objects) == {"a/_application.json", "a/_shards/first.json"}


def _refuses(name: str) -> Callable[[Request], Refusal | None]:
    """Refuse a PUT with a header, and say nothing of it."""

    def refuse(request: Request) -> Refusal | None:
        named = [header for header in request.headers if header.startswith(name)]
        return Refusal(501, "NotImplemented", "no such thing") if request.method == "PUT" and named else None

    return refuse


@pytest.mark.parametrize(
    ("header", "sentence", "step"),
    [
        (
            "x-amz-checksum-",
            "does not take the checksum header x-amz-checksum-crc32; a PUT without it is taken",
            "AWS_REQUEST_CHECKSUM_CALCULATION",
        ),
        ("if-none-match", "has no conditional writes: it refuses If-None-Match", "whose conditional PUTs are exact"),
        ("content-length", "perhaps If-None-Match or the checksum", "storage class, tags and KMS key"),
    ],
)
def test_doctor_finds_the_header_that_a_store_does_not_name(
    prepare: Prepare, header: str, sentence: str, step: str
) -> None:
    """By sending the condition and the checksum apart: 2, and what to do about the one that it is."""
    bucket = LaxBucket(refuse=_refuses(header))
    with serve(bucket) as endpoint:
        check = the_failure(prepare(s3_endpoint=endpoint), whole=True)
    assert (check.name, check.exit_code) == ("bucket", 2)
    assert sentence in check.sentence
    assert step in check.next_step
    assert bucket.objects == {}


def test_doctor_is_content_where_the_environment_leaves_checksums_out(
    prepare: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store of that case is a store like any other then."""
    monkeypatch.setenv("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")
    with serve(LaxBucket(refuse=_refuses("x-amz-checksum-"))) as endpoint:
        assert failures(run(prepare(s3_endpoint=endpoint), whole=True)) == []


def test_doctor_names_the_region_of_the_bucket(prepare: Prepare) -> None:
    """S3 tells it with the redirect."""
    refusal = Refusal(301, headers={"x-amz-bucket-region": "eu-central-1"})
    with serve(LaxBucket(refuse=lambda _request: refusal)) as endpoint:
        check = the_failure(prepare(s3_endpoint=endpoint))
    assert check.exit_code == 2
    assert "the bucket lies in eu-central-1" in check.sentence
    assert "regionName" in check.next_step


def _stream_that_stamps(seconds: float) -> Callable[[Request], Refusal]:
    """Answer as Kinesis does for a stream of one shard, made in 2026, whose one record is stamped at `seconds`."""
    identity = {
        "StreamName": "s",
        "StreamARN": "arn:aws:kinesis:us-east-1:000000000000:stream/s",
        "StreamStatus": "ACTIVE",
        "RetentionPeriodHours": 24,
        "StreamCreationTimestamp": 1_795_000_000,
        "EnhancedMonitoring": [],
        "OpenShardCount": 1,
    }
    keys = {"StartingHashKey": "0", "EndingHashKey": str(2**128 - 1)}
    numbers = {"StartingSequenceNumber": "1"}
    record = {"SequenceNumber": "2", "ApproximateArrivalTimestamp": seconds, "Data": "YQ==", "PartitionKey": "p"}
    answers: dict[str, object] = {
        "DescribeStreamSummary": {"StreamDescriptionSummary": identity},
        "ListShards": {
            "Shards": [{"ShardId": "shardId-000000000000", "HashKeyRange": keys, "SequenceNumberRange": numbers}]
        },
        "GetShardIterator": {"ShardIterator": "i"},
        "GetRecords": {"Records": [record], "NextShardIterator": "j", "MillisBehindLatest": 0},
    }
    return lambda request: Refusal(200, body=json.dumps(answers[request.headers["x-amz-target"].rpartition(".")[2]]))


@pytest.mark.parametrize(
    ("seconds", "sentence"),
    [
        (1_795_256.161, "arrived at 1970-01-21T18:40:56.161Z by its stamp, as if it counted seconds"),
        (1_794_990_000, "arrived at 2026-11-18"),
        (1_794_999_000, None),
        (1_795_256_161, None),
    ],
)
def test_doctor_looks_at_the_stamp_of_the_oldest_record(
    prepare: Prepare, bucket: str, seconds: float, sentence: str | None
) -> None:
    """One from before the stream was made is in doubt: 1, as a processor ends with it."""
    with serve(LaxBucket(refuse=_stream_that_stamps(seconds))) as endpoint:
        checks = run(prepare(bucket=bucket, kinesis_endpoint=endpoint), whole=True)
    found = [check for check in failures(checks) if check.name == "stream"]
    assert [(sentence in check.sentence, check.exit_code) for check in found] == [(True, 1)] * bool(sentence)
