"""Defects that the simulation found where two deliveries of one aggregate differ, each by itself.

KCL leaves an aggregate of another shard out by the shard's hash keys, and delivers it where it does not know them.
"""

import msgspec
import pytest

from minutebook.errors import SafetyRefusal, StoreRefused
from minutebook.format.aggregate import EVERY_HASH_KEY, HashRange
from minutebook.format.keys import end_marker_key
from minutebook.format.markers import EndMarker, decode_marker, encode_marker
from minutebook.format.metadata import Continuity
from tests.fakes.archive_scene import PREFIX
from tests.fakes.daemon_double import SHARD_END
from tests.fakes.memory_store import Fault, MemoryStore, PlannedFaults
from tests.fakes.world import World
from tests.witness.readback import check_holds, read_shard

_NARROW = HashRange(0, 0)
_END = end_marker_key(PREFIX, "shardId-000000000000")


def ended_world() -> World:
    """Return a closed shard of two records, one of them archived, and an aggregate of another shard's."""
    world = World()
    world.shard.hash_range = HashRange(0, 0)
    world.put(1)
    world.archive_all()
    world.put(1)
    world.clock.advance(60)
    world.shard.put_aggregate([b"a", b"b"], world.clock.now_ms())
    world.shard.close()
    return world


def end_behind(world: World, records: int) -> None:
    """Let a worker archive so many more records, and end the shard; it dies before KCL knows."""
    checkpoint = world.lease.checkpoint
    worker = world.started()
    worker.daemon.deliver(records)
    worker.daemon.end_shard()
    world.lease.wipe()
    world.lease.checkpoint = checkpoint


@pytest.mark.parametrize(("first", "second"), [(1, 3), (3, 1)])
def test_an_aggregate_that_only_one_delivery_brought_does_not_keep_a_shard_from_ending(
    first: int, second: int
) -> None:
    """One processor proved the end before the aggregate, which it named as undelivered, the other one behind it.

    Whoever came second was refused at each restart, and the shard's children never began.
    """
    world = ended_world()
    end_behind(world, first)
    worker = world.started()
    worker.daemon.deliver(second)
    worker.daemon.end_shard()
    assert world.lease.checkpoint == SHARD_END


@pytest.mark.parametrize(("first", "second"), [(1, 3), (3, 1)])
def test_an_end_elsewhere_is_still_refused_beside_what_is_named(first: int, second: int) -> None:
    """What neither names contradicts."""
    world = ended_world()
    end_behind(world, first)
    marker = decode_marker(world.bucket.body(_END), EndMarker, _END)
    assert marker.last is not None
    further = int(marker.last.partition(":")[0]) + (1 if second > first else 10**6)
    elsewhere = msgspec.structs.replace(marker, last=f"{further}:0", undelivered=["7"])
    world.bucket.place(_END, encode_marker(elsewhere))
    worker = world.started()
    worker.daemon.deliver(second)
    with pytest.raises(SafetyRefusal):
        worker.daemon.end_shard()


def begun_world() -> World:
    """Return a shard that an aggregate of another shard's begins; whoever was delivered it died behind start.json."""
    world = World()
    world.shard.hash_range = HashRange(0, 0)
    world.shard.put_aggregate([b"a", b"b"], world.clock.now_ms())
    first = world.started()
    first.daemon.deliver()
    first.store.faults = PlannedFaults(None, Fault.REFUSED)
    with pytest.raises(StoreRefused):
        first.daemon.request_shutdown()
    return world


def test_an_aggregate_that_only_one_delivery_brought_does_not_keep_a_shard_from_beginning() -> None:
    """`start.json` named it, and whoever began at the record behind it was refused at each restart."""
    world = begun_world()
    world.clock.advance(60)
    world.put(2)
    second = world.started()
    second.daemon.redeliver(world.shard.everything[2:])
    second.daemon.request_shutdown()
    assert [segment.metadata.continuity for segment in world.chain()] == [Continuity.UNPROVEN]
    assert len(world.bucket.keys(f"{PREFIX}_undelivered/")) == 1


def test_a_record_before_the_beginning_is_still_refused() -> None:
    """Between start.json and the first delivery lies a record that KCL would deliver."""
    world = begun_world()
    world.clock.advance(60)
    world.put(2)
    second = world.started()
    second.daemon.redeliver(world.shard.everything[3:])
    with pytest.raises(SafetyRefusal):
        second.daemon.request_shutdown()


def filtered_world(archived: int, later_seconds: int, hash_range: HashRange = _NARROW) -> World:
    """Return a shard whose first writer was delivered no aggregate of another shard's, and whose checkpoint is lost.

    It holds `archived` records, such an aggregate of two user records, and a later record.
    """
    world = World()
    world.shard.hash_range = hash_range
    world.put(archived)
    if archived:
        world.archive_all()
    checkpoint = world.lease.checkpoint
    world.shard.put_aggregate([b"a", b"b"], world.clock.now_ms())
    world.clock.advance(later_seconds)
    world.put(1)
    first = world.started()
    first.daemon.redeliver(world.shard.everything[archived + 2 :])
    first.daemon.request_shutdown()
    world.lease.wipe()
    world.lease.checkpoint = checkpoint
    return world


@pytest.mark.parametrize("archived", [0, 1])
@pytest.mark.parametrize("later_seconds", [0, 60])
@pytest.mark.parametrize("batch", [1, 2, None])
def test_an_aggregate_that_was_withheld_from_the_first_writer_lies_beside_no_chain(
    archived: int, later_seconds: int, batch: int | None
) -> None:
    """It got a segment of its own, and the audit called the chain forked; at a shard's beginning it was refused."""
    world = filtered_world(archived, later_seconds)
    second = world.started()
    while second.daemon.waiting():
        second.daemon.deliver(batch)
    second.daemon.request_shutdown()
    assert world.spans() == ([(0, 0), (3, 3)] if archived else [(2, 2)])
    assert len(world.bucket.keys(f"{PREFIX}_undelivered/")) == 1


def test_a_record_that_the_first_writer_should_have_had_is_still_archived() -> None:
    """Its own aggregate: only what KCL withholds by the shard's hash keys is left out, and a gap is filled."""
    world = filtered_world(1, 0, EVERY_HASH_KEY)
    second = world.started()
    second.daemon.deliver()
    second.daemon.request_shutdown()
    found = read_shard(MemoryStore(world.bucket), PREFIX, world.shard.shard_id)
    check_holds(found, world.shard.everything)
