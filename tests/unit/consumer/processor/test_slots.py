"""Who holds a slot: several writers of one shard, lost answers, and objects that are none of ours."""

import pytest

from minutebook.errors import (
    DeliveryDoubt,
    ForeignObject,
    FormatError,
    ObjectVanished,
    StoreRefused,
    StoreUnavailable,
)
from minutebook.format.keys import segment_key
from tests.fakes.archive_scene import PREFIX
from tests.fakes.memory_store import EndlessFault, Fault, MemoryStore, PlannedFaults
from tests.fakes.world import World


@pytest.fixture
def world() -> World:
    """Return a shard with six records in one minute."""
    world = World()
    world.put(6)
    return world


def test_a_slot_lost_to_an_equal_segment_costs_nothing(world: World) -> None:
    """The zombie learns that all of it is archived."""
    zombie, owner = world.holding(6), world.holding(6)
    owner.daemon.request_shutdown()
    zombie.daemon.request_shutdown()
    assert world.spans() == [(0, 5)]
    world.check_everything_archived()


def test_a_slot_lost_to_a_shorter_segment_leaves_the_rest(world: World) -> None:
    """The records behind the winner's end go to the next slot."""
    zombie, owner = world.holding(6), world.holding(2)
    owner.daemon.request_shutdown()
    zombie.daemon.request_shutdown()
    assert world.spans() == [(0, 1), (2, 5)]
    world.check_everything_archived()


def test_a_slot_lost_to_a_longer_segment_skips_what_it_holds(world: World) -> None:
    """Deliveries up to the winner's end are skipped, then the chain goes on."""
    zombie, owner = world.holding(2), world.holding(5)
    owner.daemon.request_shutdown()
    zombie.daemon.deliver(1)
    zombie.daemon.request_shutdown()
    zombie.daemon.deliver()
    zombie.daemon.request_shutdown()
    assert world.spans() == [(0, 4), (5, 5)]
    world.check_everything_archived()


def test_slots_are_lost_one_after_another(world: World) -> None:
    """Every rest contends again."""
    zombie = world.holding(6)
    for count in (1, 3):
        owner = world.started()
        owner.daemon.deliver(count)
        owner.daemon.request_shutdown()
    zombie.daemon.request_shutdown()
    assert world.spans() == [(0, 0), (1, 3), (4, 5)]
    assert [verb for verb, key in zombie.store.log if key.endswith(".gz")] == ["PUT", "HEAD"] * 2 + ["PUT"]


def test_a_slot_is_lost_in_the_middle_of_an_aggregate() -> None:
    """The rest begins at the next sub-sequence number."""
    world = World()
    world.shard.put_aggregate([b"a", b"b", b"c", b"d"], world.clock.now_ms())
    zombie, owner = world.holding(4), world.holding(2)
    owner.daemon.request_shutdown()
    zombie.daemon.request_shutdown()
    assert world.spans() == [(0, 1), (2, 3)]
    world.check_everything_archived()


def test_after_a_longer_winner_no_checkpoint_lies_inside_its_span(world: World) -> None:
    """KCL has not delivered the winner's end, and a checkpoint is only ever a segment's end."""
    zombie = world.holding(2)
    owner = world.holding(5)
    owner.daemon.request_shutdown()
    world.lease.wipe()
    again = world.started(checkpoint_interval_seconds=0)
    again.daemon.deliver(3)
    assert again.daemon.requests == []
    again.daemon.deliver(2)
    assert [request.asked for request in again.daemon.requests] == [world.shard.everything[4].position]
    zombie.daemon.request_shutdown()
    assert [request.error for request in zombie.daemon.requests] == []


def test_a_shutdown_just_after_losing_to_a_longer_segment_skips_the_checkpoint(world: World) -> None:
    """Nothing legal is left to say; the next start finds the segment by LIST."""
    zombie, owner = world.holding(2), world.holding(6)
    owner.daemon.request_shutdown()
    zombie.daemon.request_shutdown()
    assert zombie.daemon.requests == []


def test_a_restart_after_the_put_and_before_the_checkpoint_adds_nothing(world: World) -> None:
    """The same records come again, and are found archived."""
    killed = world.started(checkpoint_interval_seconds=3600)
    killed.daemon.deliver()
    world.clock.advance(70)
    killed.daemon.tick()
    assert world.spans() == [(0, 5)]
    assert killed.daemon.requests == []
    again = world.archive_all()
    assert world.spans() == [(0, 5)]
    assert "PUT" not in again.store.requests
    assert world.lease.checkpoint == world.shard.everything[5].position


def test_a_wiped_lease_table_adds_nothing(world: World) -> None:
    """From TRIM_HORIZON everything is found by one LIST a minute; then the chain goes on."""
    first = world.holding(6)
    first.daemon.request_shutdown()
    world.lease.wipe()
    world.clock.advance(60)
    world.put(2)
    world.archive_all()
    assert world.spans() == [(0, 5), (6, 7)]
    world.check_everything_archived()


def test_a_checkpoint_inside_a_stored_span_is_found_by_list(world: World) -> None:
    """Also a start at a sequence number LISTs: a restore may have put the checkpoint anywhere."""
    first = world.holding(6)
    first.daemon.request_shutdown()
    world.lease.checkpoint = world.shard.everything[2].position
    world.archive_all()
    assert world.spans() == [(0, 5)]


def test_a_start_inside_a_stored_span_after_trimming_is_found_by_list(world: World) -> None:
    """The first record left lies inside a segment: nothing of it is written again."""
    first = world.holding(4)
    first.daemon.request_shutdown()
    world.lease.wipe()
    world.shard.trim_through(world.shard.everything[1].position)
    world.archive_all()
    assert world.spans() == [(0, 3), (4, 5)]
    world.check_everything_archived()


def test_a_segment_never_spans_a_stored_range(world: World) -> None:
    """A buffer that began before a stored range ends where that begins, here after the first segment was deleted."""
    for count in (2, 4):
        world.holding(count).daemon.request_shutdown()
    early, late = world.chain()
    world.bucket.delete(early.key)
    world.lease.wipe()
    world.archive_all()
    assert world.spans() == [(0, 1), (2, 5)]
    assert world.chain()[1] == late
    world.check_everything_archived()


@pytest.mark.parametrize(
    "fault", [Fault.REFUSED_BEFORE, Fault.THROTTLED, Fault.CONFLICT, Fault.ANSWER_LOST, Fault.DELAYED]
)
def test_an_unknown_outcome_is_asked_again_until_it_is_known(world: World, fault: Fault) -> None:
    """One segment, whatever happened to the first three requests."""
    worker = world.holding(6)
    worker.store.faults = PlannedFaults(fault, fault, fault)
    worker.daemon.request_shutdown()
    world.bucket.land()
    assert world.spans() == [(0, 5)]
    world.check_everything_archived()


def test_an_outage_ends_the_process_without_a_checkpoint(world: World) -> None:
    """After storeTimeoutSeconds: exit code 5, and the records come again."""
    worker = world.holding(6)
    worker.store.faults = EndlessFault(Fault.THROTTLED)
    before = world.clock.monotonic()
    world.clock.advance(70)
    with pytest.raises(StoreUnavailable) as caught:
        worker.daemon.tick()
    assert caught.value.exit_code == 5
    assert world.clock.monotonic() - before == pytest.approx(70 + 300)
    assert worker.daemon.requests == []
    world.archive_all()
    world.check_everything_archived()


def test_a_refusal_ends_the_process_at_once(world: World) -> None:
    """Access denied: exit code 2 after one PUT, no checkpoint."""
    worker = world.holding(6)
    worker.store.faults = EndlessFault(Fault.REFUSED)
    with pytest.raises(StoreRefused) as caught:
        worker.daemon.request_shutdown()
    assert caught.value.exit_code == 2
    assert worker.daemon.requests == []


def test_a_record_out_of_order_stops_the_shard(world: World) -> None:
    """The daemon never delivers backwards; going on could lose what lies between."""
    worker = world.started()
    records = world.shard.everything
    with pytest.raises(DeliveryDoubt):
        worker.daemon.redeliver([records[0], records[2], records[1]])
    assert worker.daemon.requests == []


def test_a_record_twice_in_one_consumer_stops_the_shard(world: World) -> None:
    """A redelivery only ever comes to a new consumer."""
    worker = world.started()
    records = world.shard.everything
    worker.daemon.redeliver(records[:2])
    with pytest.raises(DeliveryDoubt):
        worker.daemon.redeliver(records[1:3])


def test_a_lost_race_while_waiting_is_found_by_the_retry(world: World) -> None:
    """During our backoff the owner commits less than we hold."""
    zombie = world.holding(6)
    owner = world.holding(3)
    zombie.store.faults = PlannedFaults(Fault.THROTTLED)

    def owner_works(_seconds: float) -> None:
        if owner.daemon.alive and not world.bucket.keys(f"{PREFIX}20"):
            owner.daemon.request_shutdown()

    world.clock.on_sleep = owner_works
    zombie.daemon.request_shutdown()
    assert world.spans() == [(0, 2), (3, 5)]
    world.check_everything_archived()


def test_two_stores_of_one_bucket_meet_at_one_slot(world: World) -> None:
    """The double's own race: whichever PUT is applied first wins."""
    a, b = MemoryStore(world.bucket), MemoryStore(world.bucket)
    b.put_if_absent("k", b"b", {}, "t")
    a.put_if_absent("k", b"a", {}, "t")
    assert world.bucket.body("k") == b"b"


def slot(world: World) -> str:
    """Return the key of the slot of the first record."""
    first = world.shard.everything[0]
    return segment_key(PREFIX, world.shard.shard_id, first.arrival_ms // 60_000, first.position)


def test_a_foreign_object_at_the_slot_stops_the_shard(world: World) -> None:
    """Exit code 1 with the key; nothing is overwritten, nothing is checkpointed."""
    worker = world.holding(6)
    world.bucket.place(slot(world), b"foreign")
    with pytest.raises(ForeignObject, match=slot(world)):
        worker.daemon.request_shutdown()
    assert world.bucket.body(slot(world)) == b"foreign"
    assert worker.daemon.requests == []


def test_a_foreign_object_among_the_listed_stops_the_shard(world: World) -> None:
    """Its range is unknown, so nothing can be subtracted."""
    world.bucket.place(slot(world), b"foreign")
    worker = world.started()
    with pytest.raises(ForeignObject):
        worker.daemon.deliver()


def test_an_object_in_the_folder_that_is_no_segment_stops_the_shard(world: World) -> None:
    """The key does not parse: exit code 1 with the key."""
    world.bucket.place(slot(world).replace(".jsonl.gz", ".txt"), b"note")
    worker = world.started()
    with pytest.raises(FormatError, match=r"\.txt"):
        worker.daemon.deliver()


def test_a_slot_that_hides_behind_a_delete_marker_stops_the_shard(world: World) -> None:
    """412 and no object: someone deletes raw objects."""
    worker = world.holding(6)
    world.bucket.hide(slot(world))
    with pytest.raises(ObjectVanished):
        worker.daemon.request_shutdown()
    assert worker.daemon.requests == []
