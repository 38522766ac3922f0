"""Defects that the simulation found where two deliveries of one aggregate differ, each by itself.

KCL leaves an aggregate of another shard out by the shard's hash keys, and delivers it where it does not know them.
"""

import msgspec
import pytest

from archive.errors import SafetyRefusal
from archive.format.aggregate import HashRange
from archive.format.keys import end_marker_key
from archive.format.markers import EndMarker, decode_marker, encode_marker
from tests.fakes.archive_scene import PREFIX
from tests.fakes.daemon_double import SHARD_END
from tests.fakes.world import World

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
