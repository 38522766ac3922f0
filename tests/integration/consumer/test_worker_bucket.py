"""What a worker asks a bucket before it starts: nothing is written for it, and nothing needs to be deleted."""

import os
import socket

import pytest

from consumer.preflight.check import CheckOutcome
from consumer.preflight.preflight import preflight, settled
from consumer.settings.settings import LoadedSettings, Settings
from minutebook.clock import SystemClock, new_id, new_random
from tests.fakes.lax_s3 import LaxBucket, serve

pytestmark = pytest.mark.usefixtures("credentials")
_RECORD = {"a/_application.json": (b"{}", {})}


def _loaded(s3_endpoint: str, elsewhere: str = "http://127.0.0.1:9") -> LoadedSettings:
    settings = Settings(
        stream_name="stream",
        application_name="app",
        region="us-east-1",
        bucket="archive",
        prefix="a/",
        kinesis_endpoint=elsewhere,
        dynamodb_endpoint=elsewhere,
        s3_endpoint=s3_endpoint,
    )
    return LoadedSettings(settings, {}, {})


def test_nothing_is_written() -> None:
    """A worker may not delete, so what it wrote would stay. Whose the prefix is, is unknown without the stream."""
    bucket = LaxBucket(denies=frozenset({"DELETE"}))
    with serve(bucket) as endpoint, socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        loaded = _loaded(endpoint, f"http://127.0.0.1:{reserved.getsockname()[1]}")
        checks = list(
            preflight(
                loaded,
                os.environ,
                whole=False,
                clock=SystemClock(),
                rng=new_random(),
                new_id=new_id,
                patience_seconds=0.1,
            )
        )

    asked = [check.outcome for check in checks if check.name in {"bucket", "clock", "prefix"}]
    assert asked == [*[CheckOutcome.OK] * 3, CheckOutcome.UNKNOWN]
    assert bucket.objects == {}


@pytest.mark.parametrize(("fault", "outcome"), [(False, CheckOutcome.OK), (True, CheckOutcome.FAIL)])
def test_the_record_is_put_over_itself(*, fault: bool, outcome: CheckOutcome) -> None:
    """It must be refused; where it is not, the record is what it was."""
    bucket = LaxBucket(ignores_condition=fault, objects=dict(_RECORD))
    with serve(bucket) as endpoint:
        check = settled(_loaded(endpoint), SystemClock(), new_random(), new_id)

    assert (check.outcome, check.exit_code) == (outcome, 6 if fault else 0)
    assert bucket.objects == _RECORD
