"""The markers of skipped batches: stored before anything is read on, or nothing is read on."""

import random

import pytest
from structlog.testing import capture_logs

from consumer.archived.skipped import SkippedBatches
from minutebook.errors import FormatError, StoreRefused, StoreUnavailable
from minutebook.format.coverage_markers import SkippedMarker, decode_coverage_marker, parse_skipped_key
from minutebook.retry import Backoff
from minutebook.store.retrying import RetryingStore
from tests.fakes.clock import START_MS, ManualClock
from tests.fakes.memory_store import Fault, MemoryBucket, MemoryStore, PlannedFaults

PREFIX = "raw/"
SHARD, OTHER = "shardId-000000000000", "shardId-000000000001"
BUDGET_SECONDS = 20


class Scene:
    """Skipped batches, and the bucket that their markers go to."""

    def __init__(self, *faults: Fault) -> None:
        self.clock = ManualClock()
        self.bucket = MemoryBucket(self.clock)
        store = MemoryStore(self.bucket, PlannedFaults(*faults))
        ids = iter(f"w{number}" for number in range(100))
        retrying = RetryingStore(store, lambda: Backoff(self.clock, random.Random(1), budget_seconds=BUDGET_SECONDS))
        self.skipped = SkippedBatches(retrying, PREFIX, self.clock, lambda: next(ids))

    def markers(self) -> dict[str, SkippedMarker]:
        """Return what the bucket holds."""
        return {
            key: decode_coverage_marker(self.bucket.body(key), SkippedMarker, key) for key in self.bucket.keys("")
        }


def test_each_batch_that_is_told_has_a_marker() -> None:
    """Under the day and with the time of its line, not of the request."""
    scene = Scene()
    scene.skipped.note(SHARD, "java.lang.Error: x")
    scene.skipped.note(OTHER, "java.lang.Error: y")
    scene.clock.advance(5)
    scene.skipped.store()
    found = scene.markers()
    assert {marker.shard: (marker.logged_at_ms, marker.message) for marker in found.values()} == {
        SHARD: (START_MS, "java.lang.Error: x"),
        OTHER: (START_MS, "java.lang.Error: y"),
    }
    assert {parse_skipped_key(PREFIX, key).shard_id for key in found} == {SHARD, OTHER}


def test_a_marker_is_stored_once() -> None:
    """The next start does not repeat it."""
    scene = Scene()
    scene.skipped.note(SHARD, "x")
    scene.skipped.store()
    scene.skipped.store()
    assert len(scene.markers()) == 1


def test_a_marker_whose_outcome_is_unknown_is_sent_again() -> None:
    """At the same key: an answer that was lost makes no second one."""
    scene = Scene(Fault.ANSWER_LOST, Fault.THROTTLED)
    scene.skipped.note(SHARD, "x")
    scene.skipped.store()
    assert len(scene.markers()) == 1


@pytest.mark.parametrize(
    ("faults", "error"),
    [([Fault.REFUSED], StoreRefused), ([Fault.THROTTLED] * 100, StoreUnavailable)],
    ids=["refused", "unavailable"],
)
def test_a_marker_that_cannot_be_stored_is_loud(faults: list[Fault], error: type[Exception]) -> None:
    """Bounded, at error level, with all that a person needs to store it by hand; and tried again by the next call."""
    scene = Scene(*faults)
    scene.skipped.note(SHARD, "x")
    with capture_logs() as logs, pytest.raises(error):
        scene.skipped.store()
    assert sum(scene.clock.slept) <= BUDGET_SECONDS
    (told,) = [event for event in logs if event["event"] == "skip_not_recorded"]
    assert told["log_level"] == "error"
    by_hand = decode_coverage_marker(told["content"].encode(), SkippedMarker, told["key"])
    assert (by_hand.shard, parse_skipped_key(PREFIX, told["key"]).writer) == (SHARD, by_hand.writer)
    while not scene.markers():
        scene.clock.advance(60)
        try:
            scene.skipped.store()
        except StoreUnavailable:
            continue
    assert list(scene.markers()) == [told["key"]]


def test_a_line_of_no_shard_is_a_doubt() -> None:
    """It is raised where the supervisor looks for it, not in the thread that reads the log."""
    scene = Scene()
    scene.skipped.note("no/shard", "x")
    with pytest.raises(FormatError):
        scene.skipped.store()
