"""Objects that are none of ours, or gone, where a segment should be: the shard stops."""

import pytest

from minutebook.errors import (
    ForeignObject,
    FormatError,
    ObjectVanished,
)
from minutebook.format.keys import segment_key
from tests.fakes.archive_scene import PREFIX
from tests.fakes.world import World


@pytest.fixture
def world() -> World:
    """Return a shard with six records in one minute."""
    world = World()
    world.put(6)
    return world


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
