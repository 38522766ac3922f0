"""A shard for the tests of a processor."""

import pytest

from tests.fakes.world import World


@pytest.fixture
def world() -> World:
    """Return a shard with four records."""
    world = World()
    world.put(4)
    return world
