"""Fixtures of every ring: the embedded AWS, started once per session and only when a test asks for it."""

import gc
import os
import shutil
import signal
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import structlog
from hypothesis import settings

from demo.embedded import ACCESS_KEY, REGION, SECRET_KEY, EmbeddedAws
from minutebook.clock import new_id
from minutebook.store.s3 import S3Store
from tests.contract.race_gate import Endpoint, assert_exact, run_races
from tests.quick_java import quick_java
from tests.shared_kinesis import SharedKinesis

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_kinesis import KinesisClient
    from mypy_boto3_s3 import S3Client


# How long one example takes says how busy the machine is, and nothing about the code.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

# A worker of xdist is given the width of its terminal; what a command prints into a pipe has none.
os.environ.pop("COLUMNS", None)

_WAITING = frozenset({"chaos", "e2e"})
"""Rings whose tests mostly wait: for JVMs, for leases, for the end of a minute."""
_LONGEST_WAITING = (
    "test_chaos",
    "test_boundaries",
    "test_dead_leader",
    "test_newcomer",
    "test_handover",
    "test_denied",
    "test_restore",
    "test_crashes",
    "test_zombie",
    "test_dedupe",
)
_LONGEST_FIRST = ("simulation", "model", "integration", "property", "fuzz", "contract")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Look for no cycles while thousands of tests are collected, and never again among what that leaves.

    It is half a million objects that live to the end; the collector took a fifth of the collection's time, and
    walked through them again while tests ran.
    """
    gc.disable()
    yield
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files that wait beside files that compute, and short files last.

    `make test` has more workers than a small machine has cores, and each takes the next file: the cores are busy
    while the daemons' tests wait, and no long file is left for the end. It tells xdist to keep this order: by itself
    xdist puts files of many tests first, and those of the daemons have few.
    """
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    waiting = sorted((path for path in files if _ring(path) in _WAITING), key=_wait)
    computing = sorted((path for path in files if _ring(path) not in _WAITING), key=_turn)
    order = [path for pair in zip_longest(waiting, computing) for path in pair if path is not None]
    items[:] = [item for path in order for item in files[path]]


def _ring(path: Path) -> str:
    return path.relative_to(Path(__file__).parent).parts[0]


def _wait(path: Path) -> int:
    return _LONGEST_WAITING.index(path.stem) if path.stem in _LONGEST_WAITING else len(_LONGEST_WAITING)


def _turn(path: Path) -> int:
    ring = _ring(path)
    return _LONGEST_FIRST.index(ring) if ring in _LONGEST_FIRST else len(_LONGEST_FIRST)


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


def set_credentials(patch: pytest.MonkeyPatch) -> None:
    """Give clients somebody to be, the same in all tests: the process's one session keeps what it found first."""
    patch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give clients somebody to be, where no server runs."""
    set_credentials(monkeypatch)


@pytest.fixture(scope="session")
def aws_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give clients that ask botocore's own chain dummy credentials; take this machine's away.

    Java is the machine's own or, as in the demo, the wheel's, and starts in half the time: see `tests.quick_java`.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_CONTAINER_CREDENTIALS_FULL_URI"):
            patch.delenv(name, raising=False)
        set_credentials(patch)
        patch.setenv("AWS_REGION", REGION)
        patch.setenv("AWS_DEFAULT_REGION", REGION)
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        for name, value in quick_java(tmp_path_factory.mktemp("java")).items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="session")
def embedded_aws(
    pytestconfig: pytest.Config,
    tmp_path_factory: pytest.TempPathFactory,
    aws_environment: None,  # noqa: ARG001 - used for its effect
) -> EmbeddedAws:
    """Real servers for Kinesis, S3 and DynamoDB; S3 has passed the race gate, else nothing built on it counts.

    Shared by the session, and Kinesis by all workers of a run: take a fresh bucket, stream or table name. A test that
    kills a server starts its own `EmbeddedAws`. The servers end with the worker, behind its last test, whose time
    would be over while the first worker waits for the others.
    """
    folder, base = tmp_path_factory.mktemp("aws"), tmp_path_factory.getbasetemp()
    shared = SharedKinesis((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "kinesis")
    aws = shared.join(lambda port: EmbeddedAws(folder, kinesis_port=port).__enter__())
    pytestconfig.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    pytestconfig.add_cleanup(lambda: shared.leave(aws))
    client = aws.s3_client()
    client.create_bucket(Bucket="race-gate")
    races = run_races(Endpoint(aws.s3_endpoint, REGION, ACCESS_KEY, SECRET_KEY), "race-gate", "session/", keys=10)
    assert_exact(races, client, "race-gate")
    return aws


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
