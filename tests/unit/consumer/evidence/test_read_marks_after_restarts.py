"""Read marks of a quiet shard after a restart: what they stand on, and what an outage leaves of it."""

from itertools import pairwise

import pytest

from minutebook.format.day import day_of_ms
from minutebook.format.metadata import Continuity
from minutebook.format.read_mark import MarkKind, ReadMark, encode_read_mark, read_mark_key
from tests.fakes.archive_scene import PREFIX
from tests.fakes.clock import START_MS
from tests.fakes.quiet_shard import Tried, marks, quiet_shard, wait
from tests.fakes.shard import SHARD
from tests.fakes.stream import DAY_MS
from tests.fakes.world import World

MINUTE_MS = 60_000


@pytest.fixture
def quiet() -> Tried:
    """Return a worker that has archived all four records a minute ago."""
    return quiet_shard()


def test_a_restart_does_not_mark_what_was_marked_lately(quiet: Tried) -> None:
    """Redeploys cost a look at the stream, not an object."""
    quiet.worker.daemon.request_shutdown()
    wait(Tried(quiet.world, quiet.world.started()), 60)
    assert marks(quiet.world) == []


def test_a_restart_goes_on_from_the_marks_when_the_tail_is_trimmed(quiet: Tried) -> None:
    """A quiet shard of a stream that keeps a day."""
    wait(quiet, 30, ticks=1)  # the checkpoint
    for _ in range(20):
        wait(quiet, 4300)
    world = quiet.world
    world.shard.trim_through(world.shard.everything[3].position)
    before = marks(world)
    wait(Tried(world, world.started()), 4300)
    [mark] = [mark for mark in marks(world) if mark not in before]
    assert (mark.continuity, mark.from_ms) == (Continuity.PROVEN, before[-1].until_ms)


def test_after_an_outage_beyond_a_day_the_mark_begins_anew(quiet: Tried) -> None:
    """Else the shard would stay unknown for ever; what follows stands on it."""
    world = quiet.world
    wait(quiet, 30, ticks=1)  # the checkpoint
    world.put(2)
    world.clock.advance(2 * DAY_MS / 1000)
    world.shard.trim_through(world.shard.everything[5].position)
    worker = world.started()
    wait(Tried(world, worker), 0)
    [mark] = marks(world)
    assert (mark.continuity, mark.position) == (Continuity.UNPROVEN, world.shard.everything[3].position)
    world.put()
    worker.daemon.deliver()
    worker.daemon.request_shutdown()
    metadata = world.metadata()
    assert (metadata.continuity, metadata.evidence_ms) == (Continuity.PROVEN, mark.until_ms)


def test_a_position_that_is_held_is_proven_after_any_outage(quiet: Tried) -> None:
    """Whatever the retention was meanwhile."""
    world = quiet.world
    wait(quiet, 30, ticks=1)  # the checkpoint
    world.clock.advance(5 * DAY_MS / 1000)
    wait(Tried(world, world.started()), 0)
    [mark] = marks(world)
    assert (mark.continuity, mark.from_ms) == (Continuity.PROVEN, START_MS - MINUTE_MS)


def test_a_mark_that_is_not_proven_is_nothing_to_go_on_from(quiet: Tried) -> None:
    """Behind the tail, which is held, everything up to it is still to be proven."""
    world = quiet.world
    wait(quiet, 30, ticks=1)  # the checkpoint
    world.clock.advance(5 * DAY_MS / 1000)
    until_ms, tail = world.clock.now_ms() - MINUTE_MS, world.shard.everything[3].position
    begun = ReadMark(SHARD, MarkKind.READ, Continuity.UNPROVEN, until_ms - MINUTE_MS, until_ms, tail, "w")
    world.bucket.place(read_mark_key(PREFIX, day_of_ms(until_ms), begun), encode_read_mark(begun))
    wait(Tried(world, world.started()), 0)
    [mark] = [mark for mark in marks(world) if mark != begun]
    assert (mark.continuity, mark.from_ms) == (Continuity.PROVEN, START_MS - MINUTE_MS)


def test_a_mark_from_more_than_a_day_ago_proves_nothing(quiet: Tried) -> None:
    """It is found, and what came behind it may have been trimmed since."""
    world = quiet.world
    wait(quiet, 4300)
    assert len(marks(world)) == 1
    world.put(2)
    world.clock.advance(DAY_MS / 1000 + 60)
    world.shard.trim_through(world.shard.everything[5].position)
    world.put()
    world.archive_all()
    assert world.metadata().continuity is Continuity.UNPROVEN


def test_redeploys_do_not_mark_what_a_mark_covers(quiet: Tried) -> None:
    """The tail is held and old, the last mark young: one from the tail on would lie under each day between."""
    world = quiet.world
    world.stream.retention_ms = 365 * DAY_MS
    wait(quiet, 30, ticks=1)  # the checkpoint
    world.clock.advance(9 * DAY_MS / 1000)
    tried = quiet
    for _ in range(29):
        tried.worker.daemon.request_shutdown()
        tried = Tried(world, world.started())
        for _ in range(10):
            wait(tried, 300)
    first, *others = marks(world)
    assert first.from_ms == START_MS - MINUTE_MS
    assert len(others) < 25
    assert all(mark.from_ms == before.until_ms for before, mark in pairwise([first, *others]))


def test_redeploys_do_not_mark_a_shard_without_a_record_again() -> None:
    """Nothing is archived that the next one could stand on but the mark."""
    world = World()
    for _ in range(29):
        tried = Tried(world, world.started())
        for _ in range(10):
            wait(tried, 300)
        tried.worker.daemon.request_shutdown()
    found = marks(world)
    assert 20 < len(found) <= 25
    assert all(mark.from_ms == before.until_ms for before, mark in pairwise(found))
