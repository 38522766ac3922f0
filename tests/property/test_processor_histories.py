"""The processor under every history that can be thought of: see `shard_histories`."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from tests.fakes.world import World
from tests.property.shard_histories import ShardHistories
from tests.searching import IS_DEEP


def test_every_record_is_archived_exactly_once_whatever_happens() -> None:
    """Owners, zombies, crashes, lost answers, lost leases, trimming, clocks: one unbroken chain holds everything."""
    histories = 2 * settings.default.max_examples  # the core: twice as many as of anything else
    run_state_machine_as_test(ShardHistories, settings=settings(max_examples=histories))


@settings(max_examples=1000 if IS_DEEP else 15)
@given(seed=st.integers(0, 2**32), records_per_second=st.integers(1, 3), batch_seconds=st.integers(1, 7))
def test_a_steady_minute_costs_one_put(seed: int, records_per_second: int, batch_seconds: int) -> None:
    """However records and batches fall: no LIST, no HEAD, no GET, one PUT per minute after the first minutes."""
    rng, world = random.Random(seed), World()
    worker = world.started()
    for second in range(60 * 12):
        if second == 60 * 8:
            worker.store.requests.clear()
        for _ in range(rng.randint(0, records_per_second) + (second % 60 == 30)):
            world.put(data=b"x")
        world.clock.advance(1)
        if second % batch_seconds == 0:
            worker.daemon.deliver()
    assert set(worker.store.requests) == {"PUT"}
    assert 3 <= worker.store.requests["PUT"] <= 5
