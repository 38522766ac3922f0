"""What one stream of a fleet may take from the others."""

from collections.abc import Mapping
from typing import cast

import pytest
from structlog.testing import capture_logs

from consumer.fleet.bounds import MOST_SHARDS, MOST_STREAMS, OpenShards, check_fleet, check_stream
from consumer.settings.settings import LoadedSettings, Settings
from consumer.stream.port import ShardInfo, StreamFacts
from minutebook.errors import SettingsError

_PLAIN = Settings(stream_name="s", application_name="a", region="us-east-1", bucket="b")


class _Stream:
    """A stream with so many open shards, and one that is closed."""

    def __init__(self, shards: int) -> None:
        self.shards = shards

    def all_shards(self) -> Mapping[str, ShardInfo]:
        rows = [ShardInfo(f"s{number}", "0", "1", (), (), number == self.shards) for number in range(self.shards + 1)]
        return {row.shard_id: row for row in rows}


def _counted(*shards: int) -> OpenShards:
    counted = OpenShards()
    for number, each in enumerate(shards):
        counted.count(str(number), cast("StreamFacts", _Stream(each)))
    return counted


def test_a_closed_shard_does_not_count() -> None:
    """And a stream counts once, however often it is begun."""
    counted = _counted(3, 4)
    counted.count("0", cast("StreamFacts", _Stream(5)))
    assert counted.total() == 9


@pytest.mark.parametrize(("shards", "is_bounded"), [((4, 4), False), ((4, 5), True)])
def test_reads_are_small_where_many_shards_share_the_heap(shards: tuple[int, ...], *, is_bounded: bool) -> None:
    """Above eight open shards; then one that is behind is also asked more often, for its full rate."""
    lines = _counted(*shards).bound({"streamName": "s"})
    expected = {
        "maxRecords": "1000",
        "idleTimeBetweenReadsInMillis": "750",
        "millisBehindLatestThresholdForReducedTps": "1500",
    }
    assert lines == {"streamName": "s", **(expected if is_bounded else {})}


@pytest.mark.parametrize(("records", "expected"), [("400", "400"), ("1000", "1000"), ("10000", "1000")])
def test_a_users_reads_become_no_larger(records: str, expected: str) -> None:
    """Smaller ones stay, and so does a pause: others may read the shard."""
    given = {
        "maxRecords": records,
        "idleTimeBetweenReadsInMillis": "2000",
        "millisBehindLatestThresholdForReducedTps": "900",
    }
    assert _counted(9).bound(dict(given)) == {**given, "maxRecords": expected}


def test_too_many_shards_do_not_start() -> None:
    """With the way out."""
    _counted(MOST_SHARDS).check("streams/")
    with pytest.raises(SettingsError, match="65 open shards") as caught:
        _counted(60, 5).check("streams/")
    assert "second fleet" in caught.value.next_step


def test_a_fleet_that_has_grown_is_told_and_goes_on() -> None:
    """Streams are split by others: that must not end a stream which begins anew."""
    with capture_logs() as logs:
        _counted(60, 5)
    assert [log["event"] for log in logs] == ["fleet_too_large"]


def test_a_small_heap_is_told() -> None:
    """Eight MiB for each shard."""
    with capture_logs() as logs:
        _counted(8).check_heap(1)
        _counted(64).check_heap(512 << 20)
        _counted(64).check_heap((512 << 20) - 1)
    assert [log["event"] for log in logs] == ["fleet_heap_small"]


def test_too_many_streams_do_not_start() -> None:
    """Also if the files of some cannot be read."""
    check_fleet("streams/", {}, MOST_STREAMS)
    with pytest.raises(SettingsError, match="41 streams"):
        check_fleet("streams/", {}, MOST_STREAMS + 1)


def test_what_belongs_to_the_task_is_equal() -> None:
    """Both files are named."""
    other = Settings(stream_name="t", application_name="b", region="us-east-1", bucket="b", log_level="debug")
    with pytest.raises(SettingsError, match=r"minutebook.logLevel is info in one, debug in two"):
        check_fleet("streams/", {"one": _PLAIN, "two": other}, 2)


@pytest.mark.parametrize("name", ["timeoutInSeconds", "maxActiveThreads"])
def test_what_would_harm_the_others_is_refused(name: str) -> None:
    """It is KCL's, and one stream's file has it."""
    check_stream(LoadedSettings(_PLAIN, {}, {}))
    with pytest.raises(SettingsError, match=f"{name}=900 is refused"):
        check_stream(LoadedSettings(_PLAIN, {name: "900"}, {}))
