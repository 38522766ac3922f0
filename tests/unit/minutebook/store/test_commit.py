"""The commit protocol, row by row of the table in minutebook/store/commit.py."""

import random

import msgspec
import pytest
from structlog.testing import capture_logs

from minutebook.errors import (
    ForeignObject,
    FormatError,
    MinutebookError,
    ObjectVanished,
    StoreRefused,
    StoreUnavailable,
)
from minutebook.format.keys import segment_key
from minutebook.format.metadata import ChainStart, SegmentMetadata
from minutebook.format.position import Position
from minutebook.retry import Backoff
from minutebook.store.commit import AlreadyStored, Committed, commit_segment, stored_segment
from minutebook.store.retrying import RetryingStore
from tests.fakes.clock import ManualClock
from tests.fakes.memory_store import EndlessFault, Fault, MemoryBucket, MemoryStore, PlannedFaults

SHARD = "shardId-000000000000"
MINUTE = 29_920_936
FIRST = Position(5)
KEY = segment_key("", SHARD, MINUTE, FIRST)
UNKNOWN = [Fault.REFUSED_BEFORE, Fault.THROTTLED, Fault.CONFLICT, Fault.ANSWER_LOST, Fault.DELAYED]


def metadata(writer: str, last: int = 9) -> SegmentMetadata:
    """Describe a segment at KEY."""
    return SegmentMetadata(
        shard_id=SHARD,
        minute=MINUTE,
        first=FIRST,
        last=Position(last),
        after=ChainStart("TRIM_HORIZON"),
        records=1,
        dropped=0,
        payload_bytes=1,
        arrival_min_ms=MINUTE * 60_000,
        arrival_max_ms=MINUTE * 60_000,
        writer=writer,
    )


def commit(store: MemoryStore, writer: str = "me", *, budget: float = 300) -> Committed | AlreadyStored:
    """Commit a segment of `writer` at KEY; its body is the writer's name."""
    waits = Backoff(ManualClock(), random.Random(1), budget_seconds=budget)
    return commit_segment(store, KEY, writer.encode(), metadata(writer), waits)


@pytest.fixture
def bucket() -> MemoryBucket:
    """Return an empty bucket."""
    return MemoryBucket()


def held_by(bucket: MemoryBucket, writer: str, last: int = 9) -> None:
    """Let `writer` hold the slot already."""
    bucket.place(KEY, writer.encode(), metadata(writer, last).encode())


def test_200_is_committed(bucket: MemoryBucket) -> None:
    """One PUT and nothing else; body, metadata and type are there."""
    store = MemoryStore(bucket)
    assert commit(store) == Committed(attempts=1)
    assert store.log == [("PUT", KEY)]
    assert bucket.body(KEY) == b"me"
    assert SegmentMetadata.decode(bucket.metadata(KEY)) == metadata("me")
    assert bucket.content_type(KEY) == "application/gzip"


def test_412_with_our_writer_is_committed(bucket: MemoryBucket) -> None:
    """A PUT whose answer was lost is found again by HEAD, not written twice."""
    store = MemoryStore(bucket, PlannedFaults(Fault.ANSWER_LOST))
    assert commit(store) == Committed(attempts=2)
    assert store.log == [("PUT", KEY), ("PUT", KEY), ("HEAD", KEY)]


def test_412_with_another_writer_tells_how_far_it_got(bucket: MemoryBucket) -> None:
    """The winner's metadata comes back, its bytes stay."""
    held_by(bucket, "other", last=7)
    outcome = commit(MemoryStore(bucket))
    assert isinstance(outcome, AlreadyStored)
    assert outcome.winner.last == Position(7)
    assert bucket.body(KEY) == b"other"


def test_412_and_no_object_is_doubt(bucket: MemoryBucket) -> None:
    """PUT says it is there, HEAD says it is not: a delete marker, or someone deletes."""
    bucket.hide(KEY)
    with pytest.raises(ObjectVanished):
        commit(MemoryStore(bucket))


def test_an_object_deleted_between_put_and_head_is_doubt(bucket: MemoryBucket) -> None:
    """The winner vanished under us: its records may exist nowhere."""
    held_by(bucket, "other")
    store = MemoryStore(bucket)
    store.after = lambda verb, key: bucket.delete(key) if verb == "PUT" else None
    with pytest.raises(ObjectVanished):
        commit(store)


@pytest.mark.parametrize("fields", [{}, {"writer": "me"}, {"shard": SHARD, "x": "y"}])
def test_412_without_our_metadata_is_a_foreign_object(bucket: MemoryBucket, fields: dict[str, str]) -> None:
    """Also when it is torn, or carries fields that happen to be called like ours."""
    bucket.place(KEY, b"foreign", fields)
    with pytest.raises(ForeignObject):
        commit(MemoryStore(bucket))
    assert bucket.body(KEY) == b"foreign"


@pytest.mark.parametrize("change", [{"last": "x"}, {"minutebook-format": "2"}, {"last": "4:0"}, {"writer": ""}])
def test_412_with_metadata_that_does_not_parse_is_doubt(bucket: MemoryBucket, change: dict[str, str]) -> None:
    """The message names the key."""
    bucket.place(KEY, b"damaged", {**metadata("other").encode(), **change})
    with pytest.raises(FormatError, match=KEY):
        commit(MemoryStore(bucket))


@pytest.mark.parametrize(
    "change", [{"shard": "shardId-000000000009"}, {"minute": "2026-11-21T10:17Z"}, {"first": "6:0"}]
)
def test_412_with_the_metadata_of_another_segment_is_doubt(bucket: MemoryBucket, change: dict[str, str]) -> None:
    """An object that was copied to this key is not taken for the winner."""
    bucket.place(KEY, b"copied", {**metadata("other").encode(), **change})
    with pytest.raises(FormatError, match="another segment"):
        commit(MemoryStore(bucket))


@pytest.mark.parametrize("fault", UNKNOWN, ids=lambda fault: fault.name)
def test_an_unknown_outcome_sends_the_same_bytes_again(bucket: MemoryBucket, fault: Fault) -> None:
    """409, 5xx, throttling, time-outs: never taken for success, never for a lost race."""
    store = MemoryStore(bucket, PlannedFaults(fault, fault, fault))
    assert commit(store) == Committed(attempts=4)
    assert bucket.body(KEY) == b"me"


@pytest.mark.parametrize("fault", UNKNOWN, ids=lambda fault: fault.name)
def test_an_unknown_outcome_may_hide_another_winner(bucket: MemoryBucket, fault: Fault) -> None:
    """While we waited another writer took the slot: the second answer tells."""
    store = MemoryStore(bucket, PlannedFaults(fault))
    store.before = lambda verb, _key: held_by(bucket, "other") if verb == "PUT" and not bucket.keys() else None
    outcome = commit(store)
    assert isinstance(outcome, AlreadyStored)
    assert bucket.body(KEY) == b"other"


def test_a_delayed_put_that_lands_after_its_retry_changes_nothing(bucket: MemoryBucket) -> None:
    """The first request arrives at last and meets our own object."""
    assert commit(MemoryStore(bucket, PlannedFaults(Fault.DELAYED))) == Committed(attempts=2)
    assert bucket.land() == 0


def test_a_delayed_put_that_lands_before_its_retry_is_ours(bucket: MemoryBucket) -> None:
    """The retry gets 412, and HEAD shows our writer."""
    store = MemoryStore(bucket, PlannedFaults(Fault.DELAYED))

    def land_before_the_retry(_verb: str, _key: str) -> None:
        if store.requests["PUT"] == 2:
            bucket.land()

    store.before = land_before_the_retry
    assert commit(store) == Committed(attempts=2)
    assert store.requests == {"PUT": 2, "HEAD": 1}


@pytest.mark.parametrize(
    "fault", [fault for fault in UNKNOWN if fault is not Fault.DELAYED], ids=lambda fault: fault.name
)
def test_an_unknown_head_is_asked_again(bucket: MemoryBucket, fault: Fault) -> None:
    """Who holds the slot is never guessed."""
    held_by(bucket, "other")
    outcome = commit(MemoryStore(bucket, PlannedFaults(fault, fault, verb="HEAD")))
    assert isinstance(outcome, AlreadyStored)


@pytest.mark.parametrize("verb", ["PUT", "HEAD"])
def test_an_outage_ends_with_the_budget(bucket: MemoryBucket, verb: str) -> None:
    """Exit code 5; the error names the request and the next step."""
    held_by(bucket, "other")
    with pytest.raises(StoreUnavailable, match=f"{verb} {KEY}") as caught:
        commit(MemoryStore(bucket, EndlessFault(Fault.THROTTLED, [verb])), budget=60)
    assert caught.value.exit_code == 5
    assert caught.value.next_step


@pytest.mark.parametrize("verb", ["PUT", "HEAD"])
def test_a_refusal_is_not_repeated(bucket: MemoryBucket, verb: str) -> None:
    """Access denied is configuration: exit code 2 after one request."""
    held_by(bucket, "other")
    store = MemoryStore(bucket, PlannedFaults(Fault.REFUSED, verb=verb))
    with pytest.raises(StoreRefused) as caught:
        commit(store)
    assert store.requests[verb] == 1
    assert caught.value.exit_code == 2


def test_an_outage_is_heard_at_once_and_does_not_flood_the_log(bucket: MemoryBucket) -> None:
    """The first unknown outcome is logged with its next step, then one in ten."""
    with capture_logs() as logs, pytest.raises(StoreUnavailable):
        commit(MemoryStore(bucket, EndlessFault(Fault.THROTTLED)))
    told = [entry for entry in logs if entry["event"] == "outcome_unknown"]
    assert [entry["attempts"] for entry in told] == list(range(1, told[-1]["attempts"] + 1, 10))
    assert len(told) > 1
    assert told[0]["next_step"]


def look_up(bucket: MemoryBucket) -> SegmentMetadata:
    """Read the listed segment at KEY."""
    waits = Backoff(ManualClock(), random.Random(1), budget_seconds=9)
    return stored_segment(RetryingStore(MemoryStore(bucket), lambda: waits), "", KEY)


def test_a_listed_segment_is_read_by_its_head(bucket: MemoryBucket) -> None:
    """Key and metadata agree."""
    held_by(bucket, "other")
    assert look_up(bucket) == metadata("other")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ForeignObject),
        (msgspec.structs.replace(metadata("o"), first=Position(6)).encode(), FormatError),
        (msgspec.structs.replace(metadata("o"), minute=MINUTE + 1).encode(), FormatError),
        (msgspec.structs.replace(metadata("o"), shard_id="other").encode(), FormatError),
    ],
)
def test_a_listed_object_that_is_not_its_key_is_doubt(
    bucket: MemoryBucket, fields: dict[str, str], expected: type[MinutebookError]
) -> None:
    """Foreign, torn or copied: its range is not trusted."""
    bucket.place(KEY, b"", fields)
    with pytest.raises(expected):
        look_up(bucket)


def test_a_listed_object_that_is_gone_is_doubt(bucket: MemoryBucket) -> None:
    """Somebody deletes under our feet."""
    with pytest.raises(ObjectVanished):
        look_up(bucket)
