"""What the supervisor keeps of a batch that KCL skipped, on the embedded S3, before anything is read on."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from demo.embedded import ACCESS_KEY, LOOPBACK, SECRET_KEY, free_ports
from minutebook.format.coverage_markers import SKIPPED, SkippedMarker, decode_coverage_marker, parse_skipped_key
from tests.integration.supervised import Supervised, end

if TYPE_CHECKING:
    from demo.embedded import EmbeddedAws
    from minutebook.store.s3 import S3Store

_SHARD = "shardId-000000000000"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Return a folder for the daemon's files; whatever is left of it is killed."""
    yield tmp_path
    for path in tmp_path.iterdir():
        end(int(path.read_text()))


def test_the_marker_comes_before_the_next_daemon(
    embedded_aws: "EmbeddedAws", s3_store: "S3Store", folder: Path
) -> None:
    """It names the shard, the time of the line and KCL's error; a clean stop follows."""
    supervised = Supervised(
        folder, ("log:batch.json", "run"), TEST_S3=embedded_aws.s3_endpoint, TEST_BUCKET=s3_store.bucket
    )
    with supervised.process:
        supervised.wait_for("daemon_restarting")
        supervised.wait_for("fake_started")
        supervised.process.terminate()
        assert supervised.finish() == 0

    names = [name for name in supervised.names() if name in {"kcl_skipped", "skip_recorded", "daemon_started"}]
    assert names == ["daemon_started", "kcl_skipped", "skip_recorded", "daemon_started"]
    (row,) = s3_store.list_objects(f"raw/{SKIPPED}")
    found = s3_store.get(row.key)
    assert found is not None
    marker = decode_coverage_marker(found.body, SkippedMarker, row.key)
    assert parse_skipped_key("raw/", row.key) == (_SHARD, marker.logged_at_ms, marker.writer)
    assert (marker.shard, marker.message.partition(":")[0]) == (_SHARD, "java.lang.NoClassDefFoundError")


def test_no_daemon_is_started_while_the_marker_cannot_be_stored(folder: Path) -> None:
    """It is tried again, a few times; then the task ends with 5, and says what would have been stored."""
    (port,) = free_ports(1)
    keys = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
    address = {"TEST_S3": f"http://{LOOPBACK}:{port}", "TEST_BUCKET": "b"}
    supervised = Supervised(folder, ("log:batch.json", "run"), **address, **keys)
    with supervised.process:
        assert supervised.finish() == 5

    assert supervised.starts() == 1
    told = [event for event in supervised.events if event["event"] == "skip_not_recorded"]
    assert len(told) == 3
    assert {event["key"] for event in told} == {told[0]["key"]}
    decode_coverage_marker(told[0]["content"].encode(), SkippedMarker, told[0]["key"])
    assert supervised.names()[-1] == "gave_up"


def test_a_task_that_gives_up_has_stored_its_markers(
    embedded_aws: "EmbeddedAws", s3_store: "S3Store", folder: Path
) -> None:
    """One for each run that skipped: the next task cannot know."""
    supervised = Supervised(
        folder, ("log:batch.json",), TEST_S3=embedded_aws.s3_endpoint, TEST_BUCKET=s3_store.bucket
    )
    with supervised.process:
        assert supervised.finish() == 1
    assert len(list(s3_store.list_objects(f"raw/{SKIPPED}"))) == supervised.starts() == 3
