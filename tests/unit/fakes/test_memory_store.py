"""The bucket double fails where it is told to, and the archive scene in it breaks exactly what it is asked to."""

import random

import pytest

from demo.readback import broken_links, read_archive
from minutebook.errors import OutcomeUnknown, StoreRefused
from minutebook.format.position import Position
from minutebook.format.record import Record
from minutebook.store.objects import PutOutcome
from tests.fakes.archive_scene import PREFIX, MemoryScene
from tests.fakes.clock import ManualClock
from tests.fakes.memory_store import EndlessFault, Fault, MemoryBucket, MemoryStore, PlannedFaults, RandomFaults


@pytest.fixture
def bucket() -> MemoryBucket:
    """Return an empty bucket."""
    return MemoryBucket(ManualClock())


def put(store: MemoryStore, key: str = "k", body: bytes = b"x") -> PutOutcome:
    """Send one PUT."""
    return store.put_if_absent(key, body, {}, "t")


@pytest.mark.parametrize("fault", [Fault.REFUSED_BEFORE, Fault.THROTTLED, Fault.CONFLICT])
def test_refused_before_is_not_applied(bucket: MemoryBucket, fault: Fault) -> None:
    """The client does not know that."""
    with pytest.raises(OutcomeUnknown):
        put(MemoryStore(bucket, PlannedFaults(fault)))
    assert bucket.keys() == []


def test_a_lost_answer_is_applied(bucket: MemoryBucket) -> None:
    """The client does not know that either."""
    store = MemoryStore(bucket, PlannedFaults(Fault.ANSWER_LOST))
    with pytest.raises(OutcomeUnknown):
        put(store)
    assert put(store) is PutOutcome.EXISTS


def test_a_delayed_put_is_applied_when_it_lands(bucket: MemoryBucket) -> None:
    """Behind whatever others wrote in the meantime."""
    slow = MemoryStore(bucket, PlannedFaults(Fault.DELAYED, Fault.DELAYED))
    for key in ("k", "other"):
        with pytest.raises(OutcomeUnknown):
            put(slow, key, b"slow")
    put(MemoryStore(bucket), "k", b"fast")
    assert bucket.land() == 1
    assert (bucket.body("k"), bucket.body("other")) == (b"fast", b"slow")


def test_a_refusal_is_for_good(bucket: MemoryBucket) -> None:
    """And not applied."""
    with pytest.raises(StoreRefused):
        put(MemoryStore(bucket, EndlessFault(Fault.REFUSED)))
    assert bucket.keys() == []


def test_hooks_run_around_the_moment_of_effect(bucket: MemoryBucket) -> None:
    """`before` may win the race, `after` may delete the winner."""
    store = MemoryStore(bucket)
    store.before = lambda _verb, key: bucket.place(key, b"first")
    assert put(store) is PutOutcome.EXISTS
    store.before, store.after = None, lambda _verb, key: bucket.delete(key)
    assert put(store) is PutOutcome.EXISTS
    assert bucket.keys() == []


def test_a_hidden_key_exists_for_put_only(bucket: MemoryBucket) -> None:
    """As behind a delete marker."""
    bucket.hide("k")
    store = MemoryStore(bucket)
    assert put(store) is PutOutcome.EXISTS
    assert store.head("k") is None
    assert store.get("k") is None


def test_requests_are_counted_by_verb(bucket: MemoryBucket) -> None:
    """Those that failed too; a LIST counts its pages."""
    store = MemoryStore(bucket, PlannedFaults(Fault.THROTTLED))
    with pytest.raises(OutcomeUnknown):
        put(store)
    for number in range(1001):
        put(store, f"p/{number}")
    list(store.list_objects("p/"))
    store.head("k")
    assert store.requests == {"PUT": 1002, "LIST": 2, "HEAD": 1}


@pytest.mark.parametrize(
    ("key", "fields"), [("k", {"a": "x" * 2048}), ("k", {"a": "\u00e9"}), ("x" * 1025, {}), ("", {})]
)
def test_the_fake_is_no_kinder_than_s3(bucket: MemoryBucket, key: str, fields: dict[str, str]) -> None:
    """Long metadata, text that is not ASCII, long and empty keys."""
    with pytest.raises(StoreRefused):
        MemoryStore(bucket).put_if_absent(key, b"", fields, "t")


def test_random_faults_follow_their_seed() -> None:
    """Equal seeds, equal days; rate 0 is a good one and rate 1 an outage."""
    days = [[faults.next("PUT", "k") for _ in range(50)] for faults in (RandomFaults(random.Random(7), 0.5),) * 1]
    again = RandomFaults(random.Random(7), 0.5)
    assert days[0] == [again.next("PUT", "k") for _ in range(50)]
    assert not any(RandomFaults(random.Random(7), 0).next("PUT", "k") for _ in range(50))
    assert all(RandomFaults(random.Random(7), 1).next("PUT", "k") for _ in range(50))


def test_last_modified_is_the_clock_of_the_bucket() -> None:
    """At the moment a PUT is applied, not sent."""
    clock = ManualClock()
    bucket = MemoryBucket(clock)
    store = MemoryStore(bucket, PlannedFaults(Fault.DELAYED))
    with pytest.raises(OutcomeUnknown):
        put(store)
    clock.advance(60)
    bucket.land()
    head = store.head("k")
    assert head is not None
    assert head.last_modified_ms == clock.now_ms()


SHARD = "shardId-000000000000"


@pytest.fixture
def scene() -> MemoryScene:
    """Return an empty archive."""
    return MemoryScene()


def test_a_chain_reads_back_whole(scene: MemoryScene) -> None:
    """Keys, metadata and bodies agree, and each segment names the one before it."""
    lasts = scene.chain(SHARD, [3, 1, 2])
    found = sorted(read_archive(scene.store, PREFIX), key=lambda segment: segment.metadata.first)
    assert [segment.metadata.minute for segment in found] == [3, 1, 2]
    assert [segment.metadata.last for segment in found] == lasts
    assert broken_links(segment.metadata for segment in found) == []


def test_a_missing_segment_leaves_a_broken_link(scene: MemoryScene) -> None:
    """The one after it still names it."""
    lasts = scene.chain(SHARD, [1, 2, 3], missing=[1])
    (wrong,) = broken_links(segment.metadata for segment in read_archive(scene.store, PREFIX))
    assert f"follows {lasts[1]}" in wrong


def test_dropped_lines_lie_beside_their_segment(scene: MemoryScene) -> None:
    """The reader finds them, and the span counts them."""
    records = [Record(str(number), 0, "p", 60_000 + number, b"x") for number in (1, 2)]
    scene.segment(SHARD, 1, records, duplicate_of={Position(2): "the first"})
    (found,) = read_archive(scene.store, PREFIX)
    assert [record.duplicate_of for record in found.dropped] == ["the first"]
    assert found.metadata.last == Position(2)


def test_another_object_at_a_key_is_never_passed_over(scene: MemoryScene) -> None:
    """A scene that is written twice must say the same, or a test would look at the wrong one."""
    scene.begin(SHARD)
    scene.begin(SHARD)
    with pytest.raises(AssertionError, match="something else"):
        scene.begin(SHARD, first="7:0")
