"""Checkpoints follow the archive, at most one per interval, legal by KCL's own rule."""

import pytest

from minutebook.errors import CheckpointFailed, StoreUnavailable
from tests.fakes.archive_scene import PREFIX
from tests.fakes.memory_store import EndlessFault, Fault
from tests.fakes.world import Worker, World


@pytest.fixture
def world() -> World:
    """Return a shard at the beginning of a minute."""
    return World()


def archived(world: World, worker: Worker, count: int = 3) -> None:
    """Let `count` records arrive, and let their minute be committed."""
    world.put(count)
    worker.daemon.deliver()
    world.clock.advance(66)
    worker.daemon.tick()


def test_a_checkpoint_is_the_end_of_a_committed_segment(world: World) -> None:
    """Not the last delivered record, of which S3 knows nothing yet."""
    worker = world.started()
    world.put(3)
    worker.daemon.deliver()
    world.clock.advance(60)
    world.put(2)
    worker.daemon.deliver()
    assert world.lease.written == [world.shard.everything[2].position]


def test_nothing_is_checkpointed_before_it_is_durable(world: World) -> None:
    """At the moment of each checkpoint every record up to it is readable."""
    worker = world.started(checkpoint_interval_seconds=0)
    for _ in range(5):
        world.put(2)
        worker.daemon.deliver()
        if world.lease.written:
            assert world.lease.written[-1] == world.metadata().last
        world.clock.advance(40)


def test_no_checkpoint_before_the_interval(world: World) -> None:
    """At most one per checkpointIntervalSeconds, however many segments there are."""
    worker = world.started(checkpoint_interval_seconds=30, flush_seconds=1)
    for _ in range(120):
        world.put()
        worker.daemon.deliver()
        world.clock.advance(1)
    assert 3 <= len(worker.daemon.requests) <= 4


def test_a_checkpoint_names_its_sub_sequence_number(world: World) -> None:
    """Without it KCL takes 0 and delivers the rest of the aggregate again."""
    worker = world.started()
    world.shard.put_aggregate([b"a", b"b", b"c"], world.clock.now_ms())
    worker.daemon.deliver()
    worker.daemon.request_shutdown()
    assert world.lease.checkpoint == world.shard.everything[2].position
    again = world.started()
    assert again.daemon.deliver() == []


def test_a_consumer_killed_inside_an_aggregate_goes_on_behind_it(world: World) -> None:
    """The aggregate is fetched again; what is archived of it is dropped by its sub-sequence number."""
    worker = world.started(max_segment_bytes=1)
    world.shard.put_aggregate([b"a", b"b", b"c", b"d"], world.clock.now_ms())
    worker.daemon.deliver(3)
    world.clock.advance(31)
    worker.daemon.tick()
    assert world.lease.checkpoint == world.shard.everything[1].position
    world.archive_all()
    world.check_everything_archived()


def test_nothing_new_is_not_checkpointed(world: World) -> None:
    """An idle shard writes nothing to DynamoDB."""
    worker = world.started()
    archived(world, worker)
    for _ in range(100):
        world.clock.advance(31)
        worker.daemon.tick()
    assert len(worker.daemon.requests) == 1


@pytest.mark.parametrize("error", ["ThrottlingException", "KinesisClientLibDependencyException"])
def test_a_throttled_checkpoint_is_repeated(world: World, error: str) -> None:
    """With backoff, inside the same callback."""
    worker = world.started()
    worker.daemon.checkpoint_errors = [error] * 3
    archived(world, worker)
    assert [request.error for request in worker.daemon.requests] == [error] * 3 + [None]
    assert len(world.clock.slept) == 3


def test_checkpoints_that_keep_being_throttled_end_the_process(world: World) -> None:
    """Exit code 5; what is archived stays archived and is not archived again."""
    worker = world.started(store_timeout_seconds=60)
    worker.daemon.checkpoint_errors = ["ThrottlingException"] * 1000
    with pytest.raises(StoreUnavailable) as caught:
        archived(world, worker)
    assert caught.value.exit_code == 5
    world.archive_all()
    world.check_everything_archived()


@pytest.mark.parametrize("error", ["IllegalArgumentException", "InvalidStateException", "NullPointerException"])
def test_any_other_refusal_ends_the_process(world: World, error: str) -> None:
    """No retry mends it: exit code 1, with KCL's name in the message."""
    worker = world.started()
    worker.daemon.checkpoint_errors = [error]
    with pytest.raises(CheckpointFailed, match=error):
        archived(world, worker)
    assert len(worker.daemon.requests) == 1


def test_after_a_refused_checkpoint_for_a_lost_lease_nothing_is_committed(world: World) -> None:
    """Whatever is still delivered: no request to any service, and every message is answered."""
    zombie = world.started()
    archived(world, zombie)
    world.put(2)
    zombie.daemon.deliver()
    world.started()
    world.clock.advance(66)
    zombie.daemon.tick()
    assert zombie.daemon.requests[-1].error == "ShutdownException"
    zombie.store.requests.clear()
    asked, seen = len(zombie.daemon.requests), len(world.stream.requests)
    for _ in range(5):
        world.put(2)
        world.clock.advance(70)
        zombie.daemon.deliver()
        zombie.daemon.tick()
    zombie.daemon.request_shutdown()
    zombie.daemon.lose_lease()
    assert not zombie.store.requests
    assert (len(zombie.daemon.requests), len(world.stream.requests)) == (asked, seen)


def test_a_lost_lease_drops_the_buffer(world: World) -> None:
    """No PUT, then or later; the new owner reads the records again."""
    zombie = world.started()
    world.put(4)
    zombie.daemon.deliver()
    zombie.daemon.lose_lease()
    world.clock.advance(70)
    assert not [key for verb, key in zombie.store.log if verb == "PUT"]
    assert world.bucket.keys(f"{PREFIX}20") == []
    world.archive_all()
    world.check_everything_archived()


def test_a_shutdown_commits_and_checkpoints_what_is_held(world: World) -> None:
    """The next consumer starts behind it."""
    worker = world.started()
    world.put(4)
    worker.daemon.deliver()
    worker.daemon.request_shutdown()
    worker.daemon.lose_lease()
    assert world.spans() == [(0, 3)]
    assert world.lease.checkpoint == world.shard.everything[3].position


def test_a_shutdown_with_nothing_held_checkpoints_the_tail(world: World) -> None:
    """Also when the interval has not passed."""
    worker = world.started(checkpoint_interval_seconds=3600)
    archived(world, worker)
    worker.daemon.request_shutdown()
    assert world.lease.checkpoint == world.shard.everything[2].position


def test_a_shutdown_with_nothing_delivered_asks_for_nothing(world: World) -> None:
    """No checkpoint at a sentinel."""
    worker = world.started()
    worker.daemon.request_shutdown()
    assert worker.daemon.requests == []


def test_a_shutdown_during_an_outage_ends_within_the_grace(world: World) -> None:
    """The daemon gives 25 s: the process gives up before, exits non-zero, and nothing is checkpointed."""
    worker = world.started()
    world.put(4)
    worker.daemon.deliver()
    worker.store.faults = EndlessFault(Fault.THROTTLED)
    before = world.clock.monotonic()
    with pytest.raises(StoreUnavailable):
        worker.daemon.request_shutdown()
    assert world.clock.monotonic() - before < 25
    assert worker.daemon.requests == []


def test_a_shutdown_that_loses_a_slot_into_an_outage_ends_within_the_grace(world: World) -> None:
    """The grace is for all of it, not for each request."""
    worker = world.started()
    world.put(4)
    worker.daemon.deliver()
    other = world.started()
    other.daemon.deliver(1)
    other.daemon.request_shutdown()
    before = world.clock.monotonic()

    class SlowThenDown:
        """The first answer takes 15 s, and after the lost slot every PUT fails."""

        def next(self, verb: str, key: str) -> Fault | None:
            if worker.store.requests["HEAD"]:
                return Fault.THROTTLED if verb == "PUT" else None
            world.clock.advance(15 if key.endswith(".gz") else 0)
            return None

    worker.store.faults = SlowThenDown()
    with pytest.raises(StoreUnavailable):
        worker.daemon.request_shutdown()
    assert world.clock.monotonic() - before < 25
    assert world.spans() == [(0, 0)]
