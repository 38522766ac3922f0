"""A process that was paused while it held records: an old buffer is never committed."""

from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from minutebook.errors import (
    BufferTooOld,
    StoreUnavailable,
)
from tests.fakes.clock import ManualClock
from tests.fakes.memory_store import EndlessFault, Fault, PlannedFaults
from tests.fakes.world import Worker, World


@pytest.fixture
def world() -> World:
    """Return a shard with six records in one minute."""
    world = World()
    world.put(6)
    return world


def next_minute(world: World, worker: Worker) -> None:
    """Let a record of another minute arrive."""
    world.put()
    worker.daemon.deliver()


def same_minute(_world: World, worker: Worker) -> None:
    """Let the last record of the old minute arrive."""
    worker.daemon.deliver(1)


def shutdown(_world: World, worker: Worker) -> None:
    """Ask for the shutdown."""
    worker.daemon.request_shutdown()


def shard_end(world: World, worker: Worker) -> None:
    """Report the end of the shard."""
    world.shard.close()
    worker.daemon.end_shard()


@pytest.mark.parametrize("message", [next_minute, same_minute, shutdown, shard_end])
def test_a_paused_process_never_commits_an_old_buffer(world: World, message: Callable[[World, Worker], None]) -> None:
    """Whatever message comes first after the pause."""
    worker = world.holding(5)
    world.clock.advance(3600)
    with pytest.raises(BufferTooOld, match=r"[1-9][0-9]* buffered records were thrown away"):
        message(world, worker)
    assert "PUT" not in worker.store.requests


@pytest.mark.parametrize("message", [next_minute, same_minute, shutdown, shard_end])
@pytest.mark.parametrize("step_back_seconds", [0, 30 * 3600])
def test_a_virtual_machine_that_was_paused_never_commits_an_old_buffer(
    world: World, message: Callable[[World, Worker], None], step_back_seconds: int
) -> None:
    """Its monotonic clock stood still, and its wall clock was set; a step back before that hides nothing."""
    worker = world.holding(5)
    world.clock.jump_wall(-step_back_seconds)
    worker.daemon.tick()
    world.clock.jump_wall(24 * 3600)
    with pytest.raises(BufferTooOld, match=r"[1-9][0-9]* buffered records were thrown away"):
        message(world, worker)
    assert "PUT" not in worker.store.requests


def test_a_virtual_machine_that_was_paused_before_a_batch_takes_it(world: World) -> None:
    """Only what is held grows old."""
    worker = world.started()
    world.clock.jump_wall(3600)
    worker.daemon.deliver()
    worker.daemon.request_shutdown()
    assert world.spans() == [(0, 5)]


PAUSES = (ManualClock.advance, ManualClock.jump_wall)
"""A machine whose monotonic clock counts a pause, and one whose wall clock alone does."""


@pytest.mark.parametrize("pause", PAUSES)
def test_a_pause_in_the_middle_of_the_retries_ends_them(
    world: World, pause: Callable[[ManualClock, float], None]
) -> None:
    """The age bounds the commit too, not only its beginning."""
    worker = world.holding(6)
    worker.store.faults = PlannedFaults(Fault.THROTTLED)
    world.clock.on_sleep = lambda _seconds: pause(world.clock, 3600)
    with pytest.raises(StoreUnavailable):
        worker.daemon.request_shutdown()
    assert world.chain() == []


@pytest.mark.parametrize("pause", PAUSES)
def test_a_pause_while_the_claim_is_asked_for_ends_the_commit(
    world: World, pause: Callable[[ManualClock, float], None]
) -> None:
    """Between the guard of the age and the PUT lie requests to Kinesis: the slot may be expired behind them."""
    world.archive_all()
    world.clock.advance(60)
    world.put()
    worker = world.holding(1)
    worker.store.requests.clear()
    world.stream.on_request = lambda: pause(world.clock, 3600)
    with pytest.raises(BufferTooOld):
        worker.daemon.request_shutdown()
    assert "PUT" not in worker.store.requests
    assert world.spans() == [(0, 5)]


def test_what_the_claim_took_is_not_left_for_the_retries(world: World) -> None:
    """A commit has one budget for all of its requests: a PUT that goes on longer may outlive the buffer's age."""
    world.archive_all()
    world.clock.advance(60)
    world.put()
    worker = world.started(store_timeout_seconds=15)
    worker.daemon.deliver(1)
    worker.store.faults = EndlessFault(Fault.THROTTLED, ["PUT"])
    world.stream.on_request = lambda: world.clock.advance(5)
    begun = world.clock.monotonic()
    with pytest.raises(StoreUnavailable):
        worker.daemon.request_shutdown()
    assert "PUT" in worker.store.requests
    assert world.clock.monotonic() - begun < 20


def test_a_processor_tells_what_it_holds(world: World) -> None:
    """Since when, and how much: the supervisor tells lag and memory by that."""
    worker = world.started()
    arrived_ms = world.clock.now_ms()
    world.clock.advance(30)
    with capture_logs() as logs:
        worker.daemon.deliver()
    last = [line for line in logs if line["event"] == "progress"][-1]
    assert last["oldest_ms"] == arrived_ms
    assert last["buffer_bytes"] > 6
