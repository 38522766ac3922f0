"""Fixtures of every ring: the embedded AWS, started once per session and only when a test asks for it."""

import shutil
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
import structlog

from archive.clock import new_id
from archive.store.s3 import S3Store
from demo.bootstrap import ensure_java
from demo.embedded import ACCESS_KEY, REGION, SECRET_KEY, EmbeddedAws
from tests.contract.race_gate import Endpoint, assert_exact, run_races

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_kinesis import KinesisClient
    from mypy_boto3_s3 import S3Client


@pytest.fixture(scope="session", autouse=True)
def ctrl_c() -> None:
    """Let tests send SIGINT to what they start: a shell's background jobs ignore it, and so would their children."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    """Undo what a test that runs a command in this process did to the logging: its stream is closed by now."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


@pytest.fixture(scope="session")
def aws_environment() -> Iterator[None]:
    """Give clients that ask botocore's own chain dummy credentials; take this machine's away.

    A machine without Java gets that of the wheel, as in the demo.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_CONTAINER_CREDENTIALS_FULL_URI"):
            patch.delenv(name, raising=False)
        patch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
        patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
        patch.setenv("AWS_REGION", REGION)
        patch.setenv("AWS_DEFAULT_REGION", REGION)
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        if shutil.which("java") is None:
            patch.setenv("JAVA_HOME", str(ensure_java().parents[1]))
        yield


@pytest.fixture(scope="session")
def embedded_aws(tmp_path_factory: pytest.TempPathFactory, aws_environment: None) -> Iterator[EmbeddedAws]:  # noqa: ARG001 - used for its effect
    """Real servers for Kinesis, S3 and DynamoDB; S3 has passed the race gate, else nothing built on it counts.

    Shared by the session: take a fresh bucket, stream or table name. A test that kills a server starts its own
    `EmbeddedAws`.
    """
    folder = tmp_path_factory.mktemp("aws")
    with EmbeddedAws(folder) as aws:
        client = aws.s3_client()
        client.create_bucket(Bucket="race-gate")
        races = run_races(Endpoint(aws.s3_endpoint, REGION, ACCESS_KEY, SECRET_KEY), "race-gate", "session/")
        assert_exact(races, client, "race-gate")
        yield aws
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def s3_client(embedded_aws: EmbeddedAws) -> "S3Client":
    """Return a client of the embedded S3."""
    return embedded_aws.s3_client()


@pytest.fixture(scope="session")
def kinesis_client(embedded_aws: EmbeddedAws) -> "KinesisClient":
    """Return a client of the embedded Kinesis."""
    return embedded_aws.kinesis_client()


@pytest.fixture(scope="session")
def dynamodb_client(embedded_aws: EmbeddedAws) -> "DynamoDBClient":
    """Return a client of the embedded DynamoDB."""
    return embedded_aws.dynamodb_client()


@pytest.fixture
def bucket(s3_client: "S3Client") -> str:
    """Return the name of a fresh, empty bucket."""
    name = f"test-{new_id()[:12]}"
    s3_client.create_bucket(Bucket=name)
    return name


@pytest.fixture
def s3_store(s3_client: "S3Client", bucket: str) -> S3Store:
    """Return the archive's own store on a fresh bucket of the embedded S3."""
    return S3Store(s3_client, bucket)
