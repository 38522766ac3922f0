"""Duplicates that wrong clocks caused, found by the simulation."""

from tests.fakes.clock import SkewedClock
from tests.fakes.world import World


def test_a_clock_that_was_wrong_at_the_start_doubles_nothing() -> None:
    """A machine boots an hour behind, the processor starts inside a stored span, and NTP steps the clock.

    The minute looked as if it had begun long after the start, so nobody asked what was stored of it.
    """
    world = World()
    world.put(4)
    world.archive_all()
    world.lease.wipe()
    world.lease.checkpoint = world.shard.everything[1].position
    clock = SkewedClock(world.clock, -3_600_000)
    second = world.started(clock=clock)
    clock.skew_ms = 0
    second.daemon.deliver()
    second.daemon.request_shutdown()
    assert world.spans() == [(0, 3)]
