"""A shard that is quiet, the worker that reads it, and the read marks that it wrote."""

from typing import NamedTuple

from minutebook.format.read_mark import FOLDER, ReadMark, decode_read_mark
from tests.fakes.archive_scene import PREFIX
from tests.fakes.world import Worker, World


class Tried(NamedTuple):
    """A world whose shard is quiet, and the worker that reads it."""

    world: World
    worker: Worker


def quiet_shard() -> Tried:
    """Return a worker that has archived all four records a minute ago."""
    world = World()
    world.put(4)
    worker = world.started()
    worker.daemon.deliver()
    world.clock.advance(66)
    worker.daemon.tick()
    return Tried(world, worker)


def marks(world: World) -> list[ReadMark]:
    """Return every mark once, in the order of their time."""
    keys = world.bucket.keys(f"{PREFIX}{FOLDER}")
    found = {decode_read_mark(world.bucket.body(key), PREFIX, key) for key in keys}
    return sorted(found, key=lambda mark: mark.until_ms)


def wait(tried: Tried, seconds: float, *, ticks: int = 4) -> None:
    """Let time pass, then let the daemon call a few times, a second apart."""
    tried.world.clock.advance(seconds)
    for _ in range(ticks):
        tried.worker.daemon.tick()
        tried.world.clock.advance(1)
