"""The retrying store: each request again while its outcome is unknown, and never a guess."""

import random

import pytest

from minutebook.errors import ObjectVanished, StoreRefused, StoreUnavailable
from minutebook.retry import Backoff
from minutebook.store.objects import PutOutcome
from minutebook.store.retrying import RetryingStore
from tests.fakes.clock import ManualClock
from tests.fakes.memory_store import EndlessFault, Fault, Faults, MemoryBucket, MemoryStore, PlannedFaults

KEY = "archive/_application.json"


def make(bucket: MemoryBucket, faults: Faults | None = None) -> RetryingStore:
    """Return a store with a budget of a minute for each request."""
    clock = ManualClock()
    return RetryingStore(MemoryStore(bucket, faults), lambda: Backoff(clock, random.Random(1), budget_seconds=60))


@pytest.mark.parametrize("fault", [Fault.REFUSED_BEFORE, Fault.THROTTLED, Fault.CONFLICT, Fault.ANSWER_LOST])
def test_a_put_is_sent_again_until_its_outcome_is_known(fault: Fault) -> None:
    """The object is there once; EXISTS where the first attempt was applied and its answer lost."""
    bucket = MemoryBucket()
    outcome = make(bucket, PlannedFaults(fault)).put_if_absent(KEY, b"ours")
    assert outcome is (PutOutcome.EXISTS if fault is Fault.ANSWER_LOST else PutOutcome.CREATED)
    assert bucket.body(KEY) == b"ours"


@pytest.mark.parametrize("verb", ["HEAD", "GET", "LIST"])
def test_a_read_is_sent_again(verb: str) -> None:
    """Two faults on each kind of read, and the answer is whole."""
    bucket = MemoryBucket()
    bucket.place(KEY, b"there")
    faults = PlannedFaults(Fault.THROTTLED, Fault.ANSWER_LOST, verb=verb)
    store = make(bucket, faults)
    answers = {"HEAD": store.head, "GET": store.get, "LIST": store.keys}
    assert answers[verb](KEY)


def test_an_outage_ends_with_the_budget_and_names_the_request() -> None:
    """Method and key are in the message; nothing is guessed."""
    with pytest.raises(StoreUnavailable, match=f"gave up on GET {KEY}"):
        make(MemoryBucket(), EndlessFault(Fault.THROTTLED)).get(KEY)


def test_a_refusal_is_not_repeated() -> None:
    """403 is an answer."""
    with pytest.raises(StoreRefused):
        make(MemoryBucket(), EndlessFault(Fault.REFUSED)).head(KEY)


def test_put_or_read_returns_what_another_writer_put() -> None:
    """The winner's bytes, and ours are nowhere."""
    bucket = MemoryBucket()
    bucket.place(KEY, b"theirs")
    found = make(bucket).put_or_read(KEY, b"ours")
    assert found is not None
    assert found.body == b"theirs"


def test_put_or_read_knows_its_own_put_whose_answer_was_lost() -> None:
    """The same bytes are there: that is as good as having put them."""
    assert make(MemoryBucket(), PlannedFaults(Fault.ANSWER_LOST)).put_or_read(KEY, b"ours") is None


@pytest.mark.parametrize("fault", [Fault.CUT, Fault.MISSED])
def test_put_or_read_believes_no_single_answer(fault: Fault) -> None:
    """Ours, as it was put before, read short or as 404 once: no other writer's, and not gone."""
    bucket = MemoryBucket()
    bucket.place(KEY, b'{"ours": 1}')
    assert make(bucket, PlannedFaults(fault, verb="GET")).put_or_read(KEY, b'{"ours": 1}') is None


def test_put_or_read_stops_at_an_object_that_hides() -> None:
    """412 and 404 on one key: a delete marker, or somebody who deletes."""
    bucket = MemoryBucket()
    bucket.hide(KEY)
    with pytest.raises(ObjectVanished, match="exists for PUT"):
        make(bucket).put_or_read(KEY, b"ours")
