"""Copies that producers sent and that were kept, found by the simulation of the dedupe modes."""

import json

from tests.fakes.daemon_double import Lease
from tests.fakes.dedupe_world import CLAIMS, WATERMARK, DedupeWorld
from tests.fakes.shard import FakeShard

_GRANDPARENT, _PARENT, _CHILD = (f"shardId-{number:012d}" for number in range(3))


def end_shard(world: DedupeWorld, child: str) -> None:
    """Archive what the shard holds, close it and end it."""
    worker = world.started()
    worker.daemon.deliver()
    world.shard.close(child)
    worker.daemon.end_shard()


def move_on(world: DedupeWorld, shard_id: str) -> None:
    """Let the world be that of the child of its shard."""
    child = FakeShard(shard_id, first_sequence=world.shard.everything[-1].position.sequence + 1000)
    _succeed(world, child)


def _succeed(world: DedupeWorld, child: FakeShard) -> None:
    child.parents = (world.shard.shard_id,)
    world.stream.shards[child.shard_id] = world.shard = child
    world.lease = Lease(child)


def test_a_child_inherits_through_a_parent_that_ended_empty() -> None:
    """A shard was split twice in a row, and the one in the middle got no record: what was seen ended there."""
    world = DedupeWorld(WATERMARK)
    world.send(1, 2)
    end_shard(world, _PARENT)
    move_on(world, _PARENT)
    end_shard(world, _CHILD)
    _succeed(world, FakeShard(_CHILD, first_sequence=10**60))
    world.send(2, 3)
    world.archive_all()
    assert (world.kept(), world.dropped()) == ([3], [2])


def test_a_claim_lives_as_long_as_a_raised_retention_needs() -> None:
    """The retention was raised while the processor lived, and its claims went on ending a day after the old one."""
    world = DedupeWorld(CLAIMS)
    world.send(1)
    worker = world.started()
    worker.daemon.deliver()
    world.clock.advance(70)
    worker.daemon.tick()
    world.stream.retention_ms *= 7
    world.clock.advance(3700)
    world.send(2)
    worker.daemon.deliver()
    _, expires = world.table.claims[json.dumps("a-2")]
    assert expires * 1000 >= world.clock.now_ms() + world.stream.retention_ms


def test_a_raise_of_the_retention_is_seen_after_a_sleep_at_the_start() -> None:
    """The machine slept after the stream had been asked for its retention, and the answer counted as fresh."""
    world = DedupeWorld(CLAIMS)
    world.send(1)
    worker = world.worker()

    def sleep(_verb: str, _key: str) -> None:
        worker.store.after = None
        world.stream.retention_ms *= 7
        world.clock.advance(10 * 3600)

    worker.store.after = sleep
    worker.daemon.start()
    worker.daemon.deliver()
    _, expires = world.table.claims[json.dumps("a-1")]
    assert expires * 1000 >= world.clock.now_ms() + world.stream.retention_ms
