"""`minutebook status` against real servers that miss this or that."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from consumer.requests import StatusRequest
from consumer.status.command import run_status
from demo.embedded import EmbeddedAws
from minutebook.clock import new_id
from tests.witness.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient


def write_properties(aws: EmbeddedAws, folder: Path, *, stream: str, bucket: str) -> Path:
    """Write the file of an application."""
    path = folder / "test.properties"
    path.write_text(
        f"streamName={stream}\napplicationName=app-{stream}\nregionName=us-east-1\n"
        f"kinesisEndpoint={aws.kinesis_endpoint}\ndynamoDBEndpoint={aws.dynamodb_endpoint}\n"
        f"minutebook.bucket={bucket}\nminutebook.s3Endpoint={aws.s3_endpoint}\n"
    )
    return path


def report(
    aws: EmbeddedAws, folder: Path, capsys: pytest.CaptureFixture[str], *, stream: str, bucket: str
) -> tuple[int, dict[str, Any]]:
    """Return the exit code and the report."""
    path = write_properties(aws, folder, stream=stream, bucket=bucket)
    code = run_status(StatusRequest(path, as_json=True), {})
    return code, json.loads(capsys.readouterr().out)


@pytest.fixture
def stream(kinesis_client: "KinesisClient") -> str:
    """Return the name of a fresh stream of two shards."""
    name = f"test-{new_id()[:10]}"
    kinesis_client.create_stream(StreamName=name, ShardCount=2)
    kinesis_client.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 30})
    return name


def test_before_the_first_start_the_shards_are_shown(
    embedded_aws: EmbeddedAws, tmp_path: Path, capsys: pytest.CaptureFixture[str], stream: str, bucket: str
) -> None:
    """No table, no archive: two problems that are none, exit code 0."""
    code, found = report(embedded_aws, tmp_path, capsys, stream=stream, bucket=bucket)
    assert (code, len(found["shards"]), len(found["problems"])) == (0, 2, 2)


def test_a_missing_bucket_is_a_sentence(
    embedded_aws: EmbeddedAws, tmp_path: Path, capsys: pytest.CaptureFixture[str], stream: str
) -> None:
    """The shards are shown all the same."""
    code, found = report(embedded_aws, tmp_path, capsys, stream=stream, bucket="no-such-bucket-at-all")
    assert (code, len(found["shards"])) == (0, 2)
    assert any("NoSuchBucket" in problem["sentence"] for problem in found["problems"])


def test_a_missing_stream_is_a_sentence(
    embedded_aws: EmbeddedAws, tmp_path: Path, capsys: pytest.CaptureFixture[str], bucket: str
) -> None:
    """Nothing else is known either, and still there is no stack trace."""
    code, found = report(embedded_aws, tmp_path, capsys, stream="no-such-stream", bucket=bucket)
    assert (code, found["shards"]) == (0, [])
    assert "ResourceNotFoundException" in found["problems"][0]["sentence"]


def test_watching_prints_a_line_for_each_look_until_interrupted(
    embedded_aws: EmbeddedAws, tmp_path: Path, stream: str, bucket: str
) -> None:
    """Ctrl-C is the way to end it: exit code 0."""
    path = write_properties(embedded_aws, tmp_path, stream=stream, bucket=bucket)
    command = [
        str(Path(sys.executable).parent / "minutebook"),
        "status",
        str(path),
        "--watch",
        "--json",
        "--every",
        "1",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={"PATH": "", **embedded_aws.environment}) as process:
        assert process.stdout is not None
        try:
            looks = [json.loads(process.stdout.readline()) for _ in range(2)]
            process.send_signal(signal.SIGINT)
            code = process.wait(PATIENCE_SECONDS)
        finally:
            process.kill()
    assert (code, [len(look["shards"]) for look in looks]) == (0, [2, 2])
    assert looks[0]["at_ms"] < looks[1]["at_ms"]


def test_a_folder_is_a_row_for_each_stream(
    embedded_aws: EmbeddedAws, tmp_path: Path, capsys: pytest.CaptureFixture[str], stream: str, bucket: str
) -> None:
    """Of one that is there, one that is not, and one that names no bucket: the worst code, and each report whole."""
    folder = tmp_path / "streams"
    folder.mkdir()
    write_properties(embedded_aws, folder, stream=stream, bucket=bucket).rename(folder / "there.properties")
    write_properties(embedded_aws, folder, stream="no-such-stream", bucket=f"{bucket}-2").rename(
        folder / "absent.properties"
    )
    (folder / "wrong.properties").write_text("applicationName=app-wrong\n")
    code = run_status(StatusRequest(folder, as_json=True), {})
    told = json.loads(capsys.readouterr().out)
    assert (code, told["exit_code"], [row["stream"] for row in told["streams"]]) == (
        2,
        2,
        ["absent", "there", "wrong"],
    )
    absent, there, wrong = told["streams"]
    assert "ResourceNotFoundException" in absent["outcome"]
    assert (there["exit_code"], there["application"], len(there["report"]["shards"])) == (0, f"app-{stream}", 2)
    assert "report" not in wrong
    assert run_status(StatusRequest(folder, stream=stream), {}) == 0  # by the stream's name
