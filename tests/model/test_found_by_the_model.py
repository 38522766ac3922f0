"""Histories that the model found, played on the real processor."""

import pytest

from minutebook.errors import DeliveryDoubt
from minutebook.format.metadata import Continuity
from tests.fakes.world import World


def test_a_break_before_a_stored_range_is_reported() -> None:
    """The lease table is lost, and the oldest record left is behind the archived ones: a record is missing between.

    The chain went on from the stored range as if nothing could be missing: sequence numbers are not dense, so no
    audit of the archive could have seen it.
    """
    world = World()
    world.put()
    world.archive_all()
    world.put(2)
    world.lease.wipe()
    world.shard.trim_through(world.shard.everything[1].position)
    world.archive_all()
    assert world.spans() == [(0, 0), (2, 2)]
    assert world.metadata().continuity is Continuity.UNPROVEN


def test_a_reader_that_retention_has_passed_stops_and_its_next_start_reports_the_break() -> None:
    """Asleep for longer than retention: it read on at the oldest record left, and the chain looked whole."""
    world = World()
    world.put()
    sleeper = world.started(checkpoint_interval_seconds=0)
    sleeper.daemon.deliver()
    world.clock.advance(70)
    sleeper.daemon.tick()
    world.put()
    world.clock.advance(31 * 3600)
    world.put()
    world.shard.trim_through(world.shard.everything[1].position)
    with pytest.raises(DeliveryDoubt):
        sleeper.daemon.deliver()
    world.archive_all()
    assert world.spans() == [(0, 0), (2, 2)]
    assert world.metadata().continuity is Continuity.UNPROVEN
