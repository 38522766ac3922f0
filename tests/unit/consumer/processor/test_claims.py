"""Claims of event ids: who holds one, for how long, and what is not the same event although its id is."""

import json
from collections.abc import Sequence

import pytest
from structlog.testing import capture_logs

from consumer.dedupe.claim_batches import Answer, EventClaim, Owner, StatementBatch
from tests.fakes.clock import ManualClock
from tests.fakes.dedupe_table import MemoryDedupeTable
from tests.fakes.dedupe_world import CLAIMS, DedupeWorld


class SlowTable(MemoryDedupeTable):
    """A table that takes 50 claims a second, or so many seconds for each."""

    def __init__(self, clock: ManualClock, seconds: float = 0.02) -> None:
        super().__init__()
        self._clock = clock
        self._seconds = seconds

    def claim(self, claim: EventClaim, *, expires: int, now: int) -> Owner:
        """Claim, in its time."""
        self._clock.advance(self._seconds)
        return super().claim(claim, expires=expires, now=now)

    def claim_batch(self, batch: StatementBatch) -> Sequence[Answer]:
        """Claim them, in their time."""
        self._clock.advance(self._seconds * len(batch.claims))
        return super().claim_batch(batch)


@pytest.mark.parametrize(("max_age", "seconds"), [(90, 0.2), (90, 0.02), (200, 0.02)])
def test_claims_that_are_held_back_do_not_outlive_their_buffer(max_age: int, seconds: float) -> None:
    """One delivery takes longer than a buffer may live, or one piece of its lines: it is committed between slices."""
    world = DedupeWorld(CLAIMS)
    world.table = SlowTable(world.clock, seconds)
    worker = world.started(max_segment_age_seconds=max_age)
    count = round((max_age + 100) / seconds)
    world.send(*range(count))
    worker.daemon.deliver()
    worker.daemon.request_shutdown()
    assert len(world.kept()) == count
    assert len(world.chain()) >= 2


def test_a_processor_that_claims_for_minutes_is_not_silent() -> None:
    """It says so all the while: its supervisor would take it for one that hangs."""
    world = DedupeWorld(CLAIMS)
    world.table = SlowTable(world.clock)
    worker = world.started()
    world.send(*range(10_000))
    with capture_logs() as logs:
        worker.daemon.deliver()
    assert len([line for line in logs if line["event"] == "progress"]) >= 200 / 10


def test_new_events_are_claimed_by_batches_alone() -> None:
    """25 in a request; an event that comes alone is asked for with the whole condition at once."""
    world = DedupeWorld(CLAIMS)
    world.send(*range(51))
    world.archive_all()
    assert world.table.requests == {"INSERT": 2, "claim": 1}
    assert len(world.kept()) == 51


def test_copies_are_found_in_batches() -> None:
    """So is what a life before has claimed: a restart costs as little as the life."""
    world = DedupeWorld(CLAIMS)
    world.send(*range(25))
    world.started().daemon.deliver()
    world.archive_all()
    assert world.table.requests == {"INSERT": 2, "UPDATE": 1}
    world.table.requests.clear()
    world.send(3, *range(25, 34), 1)
    world.archive_all()
    assert world.table.requests == {"INSERT": 1, "UPDATE": 1}
    assert world.kept() == list(range(34))
    assert world.dropped() == [3, 1]


def test_what_no_batch_decides_is_claimed_alone() -> None:
    """Claims that have run out: they are taken by the condition that looks at that."""
    world = DedupeWorld(CLAIMS)
    world.send(*range(4))
    world.archive_all()
    world.table.requests.clear()
    world.table.claims = {event_id: (owner, 1) for event_id, (owner, _) in world.table.claims.items()}
    world.send(*range(6))
    world.archive_all()
    assert world.table.requests == {"INSERT": 1, "UPDATE": 1, "claim": 4}
    assert world.kept() == [*range(4), *range(6)]


def test_of_two_copies_in_one_batch_the_earlier_owns() -> None:
    """On every delivery: the order is the shard's, not that of the requests."""
    world = DedupeWorld(CLAIMS)
    world.send(1, 2, 1, 3, 2, 1)
    world.archive_all()
    assert world.kept() == [1, 2, 3]
    first, second = (str(world.shard.everything[number].position) for number in (0, 1))
    owners = {event_id: owner.position.rpartition("/")[2] for event_id, (owner, _) in world.table.claims.items()}
    assert (owners[json.dumps("a-1")], owners[json.dumps("a-2")]) == (first, second)


@pytest.mark.parametrize("fault", ["throttle_statements", "fail_statements", "lose_answers", "refuse_before"])
@pytest.mark.parametrize("count", [1, 3, 20])
def test_what_a_batch_left_undecided_is_asked_again(fault: str, count: int) -> None:
    """Throttled, or applied without saying so: each event has one owner, and it is the right one."""
    world = DedupeWorld(CLAIMS)
    world.send(*range(5))
    world.archive_all()
    setattr(world.table, fault, count)
    world.send(*range(30))
    world.archive_all()
    assert getattr(world.table, fault) == 0
    assert world.kept() == list(range(30))
    assert world.dropped() == list(range(5))
    assert len(world.table.claims) == 30


def test_an_event_under_the_id_of_another_is_kept_and_told() -> None:
    """Or one producer could make the events of others disappear: a copy says the same, byte for byte."""
    world = DedupeWorld(CLAIMS)
    theirs, ours = b'{"id":"order-17","n":1}', b'{"id":"order-17","n":2}'
    with capture_logs() as logs:
        for data in (theirs, ours, theirs, ours):
            world.shard.put(data, world.clock.now_ms())
        world.archive_all()
    assert world.kept() == [1, 2, 2]
    assert world.dropped() == [1]
    (told,) = [line for line in logs if line["event"] == "id_conflict"]
    assert (told["log_level"], told["shard"], told["records"]) == ("warning", world.shard.shard_id, 2)
    assert told["owner"] == f"flights/{world.shard.shard_id}/{world.shard.everything[0].position}"
    assert told["next_step"]


def test_conflicts_are_told_once_a_minute() -> None:
    """A producer that goes on and on fills no log; none is left out of the count."""
    world = DedupeWorld(CLAIMS)
    with capture_logs() as logs:
        worker = world.started()
        for number in range(9):
            world.shard.put(b'{"id":"order-17","n":%d}' % number, world.clock.now_ms())
            worker.daemon.deliver()
            world.clock.advance(20)
        world.clock.advance(30)
        worker.daemon.request_shutdown()
    told = [line["records"] for line in logs if line["event"] == "id_conflict"]
    assert told == [1, 3, 3, 1]


def test_conflicts_of_a_shard_that_falls_quiet_are_told_when_the_minute_is_over() -> None:
    """Nothing has to come first."""
    world = DedupeWorld(CLAIMS)
    with capture_logs() as logs:
        worker = world.started(flush_seconds=1)
        for number in range(4):
            world.shard.put(b'{"id":"order-17","n":%d}' % number, world.clock.now_ms())
            worker.daemon.deliver()
        for seconds in (2, 61):
            world.clock.advance(seconds)
            worker.daemon.tick()
    assert [line["records"] for line in logs if line["event"] == "id_conflict"] == [1, 2]


@pytest.mark.parametrize("end", ["request_shutdown", "end_shard", "lose_lease"])
def test_no_conflict_is_left_untold_at_the_end(end: str) -> None:
    """Within the minute, too: nobody would tell of it any more."""
    world = DedupeWorld(CLAIMS)
    with capture_logs() as logs:
        worker = world.started()
        for number in range(4):
            world.shard.put(b'{"id":"order-17","n":%d}' % number, world.clock.now_ms())
            worker.daemon.deliver()
        world.shard.close()
        getattr(worker.daemon, end)()
    assert [line["records"] for line in logs if line["event"] == "id_conflict"] == [1, 2]


def test_a_claim_without_a_digest_is_believed() -> None:
    """Those of versions before have none: they keep what they kept."""
    world = DedupeWorld(CLAIMS)
    world.table.claims[json.dumps("a-1")] = (Owner("flights/shardId-000000000000/1:0", None), 1 << 40)
    world.send(1)
    world.archive_all()
    assert world.dropped() == [1]


def test_ids_that_differ_behind_the_point_are_two_events() -> None:
    """As doubles they are one: they are no ids, and nothing is dropped."""
    world = DedupeWorld(CLAIMS)
    for number in (b"1795256161.123456781", b"1795256161.123456789"):
        world.shard.put(b'{"id":%b,"n":1}' % number, world.clock.now_ms())
    world.archive_all()
    assert world.metadata().records == 2
    assert world.table.claims == {}


def test_an_expired_claim_is_taken_over() -> None:
    """DynamoDB deletes expired items late; the condition does not wait for it."""
    table = MemoryDedupeTable()
    one, two = EventClaim("x", "one", "d1"), EventClaim("x", "two", "d2")
    assert table.claim(one, expires=10, now=0) == Owner("one", "d1")
    assert table.claim(two, expires=20, now=10) == Owner("one", "d1")
    assert table.claim(two, expires=20, now=11) == Owner("two", "d2")
