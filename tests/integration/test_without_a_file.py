"""Every command that reads settings takes them from the environment, on the embedded servers and without FILE."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from demo.embedded import REGION
from minutebook.clock import new_id
from tests.witness.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

    from demo.embedded import EmbeddedAws

MINUTEBOOK: Final = Path(sys.executable).with_name("minutebook")


@pytest.fixture(scope="module")
def environ(embedded_aws: "EmbeddedAws", kinesis_client: "KinesisClient") -> Mapping[str, str]:
    """Return the environment of a task: a stream and a bucket by variables, the rest as a text."""
    name = f"text-{new_id()[:8]}"
    kinesis_client.create_stream(StreamName=name, ShardCount=1)
    kinesis_client.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1})
    embedded_aws.s3_client().create_bucket(Bucket=name)
    text = (
        "streamName = replaced\nminutebook.prefix = raw/\n"
        f"kinesisEndpoint = {embedded_aws.kinesis_endpoint}\ndynamoDBEndpoint = {embedded_aws.dynamodb_endpoint}\n"
        f"minutebook.s3Endpoint = {embedded_aws.s3_endpoint}\n"
    )
    return {
        **os.environ,
        "MINUTEBOOK_PROPERTIES_TEXT": text,
        "MINUTEBOOK_STREAM_NAME": name,
        "MINUTEBOOK_APPLICATION_NAME": name,
        "MINUTEBOOK_REGION_NAME": REGION,
        "MINUTEBOOK_BUCKET": name,
    }


@pytest.mark.parametrize(
    ("command", "code", "says"),
    [
        ("doctor --json", 0, '"exit_code": 0'),
        ("status --json", 0, "NAME"),
        ("restore", 6, "no archive begins at prefix 'raw/'"),
        ("expire --older-than 30d --published s3://NAME/parquet/", 6, "raw/"),
        ("audit --date yesterday --json", 4, '"verdict": "unknown"'),
        ("compact --date yesterday --dry-run", 0, "0 segments"),
        ("compact --due 3d --dry-run", 2, "nothing is archived"),
        ("compact --date yesterday --dry-run --json", 0, '"segments":0'),
        ("health", 7, "no daemon runs"),
        ("status --json --max-behind 5m", 4, "NAME"),
        ("status --max-behind 5", 4, "not known how far behind: shardId-000000000000"),
        ("status --max-behind soon", 2, "not a span of time: 'soon'"),
    ],
)
def test_a_command_without_a_file(
    environ: Mapping[str, str], tmp_path: Path, command: str, code: int, says: str
) -> None:
    """It reaches the stream and the bucket that the variables name, and answers as with a file."""
    name = environ["MINUTEBOOK_STREAM_NAME"]
    done = subprocess.run(
        [MINUTEBOOK, *command.replace("NAME", name).split()],
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )

    said = done.stdout + done.stderr
    assert (done.returncode, says.replace("NAME", name) in said) == (code, True), said
    if "--json" in command:
        json.loads(done.stdout)
