"""The watch over boundaries: what it calls false, and what not."""

import pytest

from demo.readback import StoredSegment, read_archive
from minutebook.format.boundaries import CompleteMarker, NamedGap, encode_boundary, marker_key
from minutebook.format.minute import MINUTE_MS, iso_time
from tests.chaos.boundaries import EVERY_SECONDS, BoundaryWatch
from tests.e2e.harness import PREFIX
from tests.fakes.clock import START_MS
from tests.fakes.memory_store import MemoryStore
from tests.fakes.shard import SHARD
from tests.fakes.world import World

_BOUNDARY_MS = START_MS // MINUTE_MS * MINUTE_MS + MINUTE_MS
_GAP = NamedGap.of(SHARD, START_MS - 1, START_MS + 1, ["not_covered"])


def _store(world: World, boundary_ms: int, *gaps: NamedGap) -> None:
    marker = CompleteMarker(
        since=iso_time(_BOUNDARY_MS - MINUTE_MS),
        boundary=iso_time(boundary_ms),
        shards={},
        gaps=gaps,
        writer="w",
        folded=(),
    )
    world.bucket.place(marker_key(PREFIX, boundary_ms), encode_boundary(marker))


def _segments(world: World) -> list[StoredSegment]:
    return list(read_archive(MemoryStore(world.bucket), PREFIX))


@pytest.fixture
def world() -> World:
    """Return a world with four records in the minute before the boundary."""
    world = World()
    world.put(4)
    return world


def test_a_boundary_behind_what_it_calls_archived_is_true(world: World) -> None:
    """Both may be seen in one round."""
    watch = BoundaryWatch(MemoryStore(world.bucket))
    world.archive_all()
    _store(world, _BOUNDARY_MS)
    watch.look()
    assert (watch.judge(_segments(world)), len(watch.published())) == ([], 1)


@pytest.mark.parametrize("gaps", [(), (_GAP,)])
def test_a_boundary_before_what_it_calls_archived_is_false(world: World, gaps: tuple[NamedGap, ...]) -> None:
    """Unless it names that time."""
    watch = BoundaryWatch(MemoryStore(world.bucket))
    _store(world, _BOUNDARY_MS, *gaps)
    watch.look()
    world.archive_all()
    watch.look()
    assert len(watch.judge(_segments(world))) == (0 if gaps else 4)


def test_a_boundary_that_is_left_out_is_told(world: World) -> None:
    """They come in order, each one."""
    watch = BoundaryWatch(MemoryStore(world.bucket))
    world.archive_all()
    for number in (0, 2):
        _store(world, _BOUNDARY_MS + number * EVERY_SECONDS * 1000)
    watch.look()
    assert len(watch.judge(_segments(world))) == 1
