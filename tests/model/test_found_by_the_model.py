"""Histories that the model found, played on the real processor."""

from tests.fakes.world import World


def test_a_break_before_a_stored_range_is_reported() -> None:
    """The lease table is lost, and the oldest record left is behind the archived ones: a record is missing between.

    The chain went on from the stored range as if nothing could be missing: sequence numbers are not dense, so no
    audit of the archive could have seen it.
    """
    world = World()
    world.put()
    first = world.started()
    first.daemon.deliver()
    first.daemon.request_shutdown()
    world.put(2)
    world.lease.wipe()
    world.shard.trim_through(world.shard.everything[1].position)
    second = world.started()
    second.daemon.deliver()
    second.daemon.request_shutdown()
    assert world.spans() == [(0, 0), (2, 2)]
    assert world.metadata().continuity == "unproven"
