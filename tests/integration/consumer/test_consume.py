"""The steps of `consume` before the daemon: the start that all agree on, the log configuration, the counters."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from consumer.connections import stream_of
from consumer.daemon.consume import daemon_environment, find_logback
from consumer.daemon.start import as_settled, settle_start
from consumer.settings.settings import LoadedSettings, Settings
from minutebook.aws.access import PLAIN, Access
from minutebook.clock import SystemClock, new_id
from minutebook.compression import Compression
from minutebook.errors import SafetyRefusal
from minutebook.format.markers import ApplicationRecord

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

    from demo.embedded import EmbeddedAws
    from minutebook.settings.values import Start

START_MS = 1_795_256_160_000


@pytest.fixture
def stream_name(kinesis_client: "KinesisClient") -> str:
    """Return the name of a fresh, active stream."""
    name = f"consume-{new_id()[:8]}"
    kinesis_client.create_stream(StreamName=name, ShardCount=1)
    kinesis_client.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1})
    return name


def settings(
    aws: "EmbeddedAws", bucket: str, stream_name: str, start: "Start", compression: Compression | None = None
) -> Settings:
    """Return the settings of a run on the embedded servers."""
    return Settings(
        stream_name=stream_name,
        application_name="app",
        region="us-east-1",
        bucket=bucket,
        kinesis_endpoint=aws.kinesis_endpoint,
        dynamodb_endpoint=aws.dynamodb_endpoint,
        s3_endpoint=aws.s3_endpoint,
        start=start,
        compression=compression,
    )


def settle(chosen: Settings) -> ApplicationRecord:
    """Settle the start as `consume` does."""
    clock = SystemClock()
    return settle_start(chosen, stream_of(chosen, clock), clock)


def test_the_first_start_is_everybodys(embedded_aws: "EmbeddedAws", bucket: str, stream_name: str) -> None:
    """Whoever comes later, with whatever setting, gets the start that the first one stored."""
    first = settle(settings(embedded_aws, bucket, stream_name, "oldest"))
    later = settle(settings(embedded_aws, bucket, stream_name, "now"))

    assert (first.start_at_ms, later) == (None, first)


def test_the_first_compression_is_everybodys(embedded_aws: "EmbeddedAws", bucket: str, stream_name: str) -> None:
    """Another setting is reported, with what to do; the daemon's processors are told what is stored."""
    first = settle(settings(embedded_aws, bucket, stream_name, "oldest", Compression.ZSTD))
    with capture_logs() as logs:
        later = settle(settings(embedded_aws, bucket, stream_name, "oldest", Compression.GZIP))

    assert (first.compression, later) == (Compression.ZSTD, first)
    told = [line for line in logs if line["event"] == "compression_settled_earlier"]
    assert [(line["setting"], line["stored"]) for line in told] == [("gzip", "zstd")]
    loaded = LoadedSettings(settings(embedded_aws, bucket, stream_name, "oldest"), {}, {"compression": "gzip"})
    assert as_settled(loaded, later).ours == {"compression": "zstd"}
    assert as_settled(loaded._replace(ours={}), later).ours == {}


def test_now_is_resolved_once(embedded_aws: "EmbeddedAws", bucket: str, stream_name: str) -> None:
    """`now` is the second in which it was said first, for every later start too."""
    first = settle(settings(embedded_aws, bucket, stream_name, "now"))

    assert first.start_at_ms is not None
    assert settle(settings(embedded_aws, bucket, stream_name, START_MS)) == first


def test_another_stream_is_refused(
    embedded_aws: "EmbeddedAws", bucket: str, stream_name: str, kinesis_client: "KinesisClient"
) -> None:
    """One prefix belongs to one stream."""
    settle(settings(embedded_aws, bucket, stream_name, "oldest"))
    other = f"other-{new_id()[:8]}"
    kinesis_client.create_stream(StreamName=other, ShardCount=1)
    kinesis_client.get_waiter("stream_exists").wait(StreamName=other, WaiterConfig={"Delay": 1})

    with pytest.raises(SafetyRefusal, match="belongs to the stream"):
        settle(settings(embedded_aws, bucket, other, "oldest"))


def test_a_logback_beside_the_file_wins(tmp_path: Path) -> None:
    """The user's own log configuration comes before the one shipped."""
    shipped = find_logback(tmp_path / "x.properties")
    (tmp_path / "logback.xml").write_text("<configuration/>")

    assert shipped.is_file()
    assert find_logback(tmp_path / "x.properties") == tmp_path / "logback.xml"


def test_without_a_file_the_shipped_logback_is_taken() -> None:
    """As where the environment holds the settings."""
    assert find_logback(None).is_file()


def test_the_daemon_sees_the_effective_file_alone() -> None:
    """A processor would refuse a file beside a text; what else the environment holds stays."""
    environ = {"MINUTEBOOK_PROPERTIES_TEXT": "streamName = s", "MINUTEBOOK_PROPERTIES": "mine", "AWS_REGION": "r"}

    assert daemon_environment(environ, Path("effective"), PLAIN) == {
        "AWS_REGION": "r",
        "PYTHONUTF8": "1",
        "MINUTEBOOK_PROPERTIES": "effective",
        "MINUTEBOOK_SUPERVISED": "1",
    }


def test_the_daemon_asks_the_endpoints_that_we_ask() -> None:
    """The AWS SDK for Java reads these variables; KCL has no property."""
    found = daemon_environment({}, Path("effective"), Access(use_fips=True, use_dualstack=True))

    assert (found["AWS_USE_FIPS_ENDPOINT"], found["AWS_USE_DUALSTACK_ENDPOINT"]) == ("true", "true")
