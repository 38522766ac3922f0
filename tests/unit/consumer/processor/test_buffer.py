"""When a buffer ends, how old it may be, and what a steady shard costs."""

import pytest

from minutebook.errors import BufferTooOld
from minutebook.format.metadata import ChainStart
from tests.fakes.archive_scene import PREFIX
from tests.fakes.clock import START_MS
from tests.fakes.world import Worker, World


@pytest.fixture
def world() -> World:
    """Return a shard at the beginning of a minute."""
    return World()


def test_a_buffer_ends_when_the_next_record_belongs_to_another_minute(world: World) -> None:
    """Nothing is committed before, and the new minute's record waits."""
    worker = world.started()
    world.put(3)
    worker.daemon.deliver()
    assert world.spans() == []
    world.clock.advance(60)
    world.put(2)
    worker.daemon.deliver()
    assert world.spans() == [(0, 2)]


def test_a_minute_that_changes_inside_a_batch_cuts_it(world: World) -> None:
    """One batch over three minutes makes two segments and holds the third."""
    worker = world.started()
    for _ in range(3):
        world.put(2)
        world.clock.advance(60)
    world.clock.advance(-0.0)
    worker.daemon.deliver()
    assert world.spans()[:2] == [(0, 1), (2, 3)]


def test_arrival_times_that_step_back_only_make_buffers_shorter(world: World) -> None:
    """Records stay in position order; each change of minute cuts, also backwards."""
    worker = world.started()
    for second in (59, 60, 59, 61, 59):
        world.shard.put(b"%d" % second, START_MS + second * 1000)
    world.clock.advance(61)
    worker.daemon.deliver()
    worker.daemon.request_shutdown()
    assert world.spans() == [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]
    world.check_everything_archived()


def test_a_buffer_ends_before_it_grows_beyond_its_size(world: World) -> None:
    """The record that would not fit begins the next buffer, whether it comes in the same batch or in another."""
    worker = world.started(max_segment_bytes=10_000)
    for count in (5, 1, 1, 1, 1):
        world.put(count, data=b"x" * 3000)
        worker.daemon.deliver()
    worker.daemon.request_shutdown()
    assert all(segment.metadata.payload_bytes <= 10_000 for segment in world.chain())
    assert len(world.chain()) == 3
    world.check_everything_archived()


def test_a_record_larger_than_the_limit_is_a_segment_of_its_own(world: World) -> None:
    """The limit cuts, it never refuses."""
    worker = world.started(max_segment_bytes=1)
    world.put(3, data=b"x" * 100)
    worker.daemon.deliver()
    worker.daemon.request_shutdown()
    assert world.spans() == [(0, 0), (1, 1), (2, 2)]


def test_flush_seconds_commits_inside_the_minute(world: World) -> None:
    """With flushSeconds a record is readable after that time, on the next call."""
    worker = world.started(flush_seconds=10)
    world.put()
    worker.daemon.deliver()
    commits_after(world, worker, 10)


def commits_after(world: World, worker: Worker, seconds: float) -> None:
    """Assert that what is held is committed when so much time has passed, and no sooner."""
    world.clock.advance(seconds - 0.1)
    worker.daemon.tick()
    assert world.spans() == []
    world.clock.advance(0.1)
    worker.daemon.tick()
    assert world.spans() == [(0, 0)]


def test_an_idle_shard_commits_when_its_minute_is_over(world: World) -> None:
    """After lingerSeconds of silence, once the wall clock says that the minute has ended."""
    worker = world.started()
    world.clock.advance(50)
    world.put()
    worker.daemon.deliver()
    commits_after(world, worker, 10)


def test_an_idle_shard_lingers_for_late_records(world: World) -> None:
    """A record of the last second waits lingerSeconds although its minute is over."""
    worker = world.started(linger_seconds=5)
    world.clock.advance(59)
    world.put()
    worker.daemon.deliver()
    commits_after(world, worker, 5)


def test_a_minute_that_keeps_coming_is_committed_in_good_time(world: World) -> None:
    """A slow catch-up: its records come with gaps below the linger, for longer than a buffer may live.

    They were thrown away at that age, read again from the checkpoint, and thrown away again, for ever.
    """
    worker = world.started()
    for _ in range(300):
        world.shard.put(b"of one minute", START_MS)
        worker.daemon.deliver()
        world.clock.advance(4)
        worker.daemon.tick()
    worker.daemon.request_shutdown()
    ends = [last for _, last in world.spans()]
    assert ends[0] == 112
    assert len(ends) == 3
    world.check_everything_archived()


def test_a_wall_clock_that_is_behind_cannot_hold_a_buffer_for_ever(world: World) -> None:
    """The buffer's own age, by the monotonic clock, ends it after 60 s + linger."""
    worker = world.started()
    world.put()
    worker.daemon.deliver()
    world.clock.jump_wall(-3600)
    commits_after(world, worker, 65)


def test_an_empty_call_on_an_empty_shard_asks_for_nothing(world: World) -> None:
    """Ticks are free, but for a read mark after each full hour."""
    worker = world.started()
    worker.daemon.tick()
    worker.store.requests.clear()
    world.stream.requests.clear()
    for _ in range(30):
        world.clock.advance(60)
        worker.daemon.tick()
    assert not worker.store.requests
    assert not world.stream.requests
    assert worker.daemon.requests == []


def test_a_steady_shard_minute_costs_one_put_and_nothing_else(world: World) -> None:
    """After the first minutes: 1 PUT, no LIST, no HEAD, no GET, two checkpoints."""
    worker = world.started()
    minutes = 0
    for minute in range(30):
        if minute == 8:
            worker.store.requests.clear()
            worker.daemon.requests.clear()
            minutes = 30 - minute
        for _ in range(60):
            world.put()
            worker.daemon.deliver()
            world.clock.advance(1)
    assert worker.store.requests == {"PUT": minutes}
    assert len(worker.daemon.requests) <= 2 * minutes
    assert all(request.error is None for request in worker.daemon.requests)


def test_the_first_minutes_cost_one_list_each(world: World) -> None:
    """The minutes that began before the start, and five more for clock skew."""
    worker = world.started()
    for _ in range(10):
        world.put()
        worker.daemon.deliver()
        world.clock.advance(60)
    minutes = [key for verb, key in worker.store.log if verb == "LIST" and not key.startswith(f"{PREFIX}_")]
    assert len(minutes) == 5
    assert worker.store.requests["HEAD"] == 0


def test_a_minute_that_lies_in_the_future_is_listed(world: World) -> None:
    """A local clock that is behind must not hide what is stored."""
    worker = world.started()
    world.clock.jump_wall(-3600)
    world.shard.put(b"x", START_MS + 1_200_000)
    worker.daemon.deliver()
    assert worker.store.requests["LIST"] == 1


def test_the_chain_names_its_start_and_each_predecessor(world: World) -> None:
    """`after` is the sentinel first, then the last position before."""
    worker = world.started()
    for _ in range(3):
        world.put(2)
        worker.daemon.deliver()
        world.clock.advance(60)
    worker.daemon.request_shutdown()
    assert [segment.metadata.after for segment in world.chain()] == [
        ChainStart("TRIM_HORIZON"),
        world.shard.everything[1].position,
        world.shard.everything[3].position,
    ]


def test_each_commit_has_a_writer_of_its_own(world: World) -> None:
    """One id per commit, so that a 412 tells our own PUT from another's."""
    worker = world.started()
    for _ in range(3):
        world.put()
        worker.daemon.deliver()
        world.clock.advance(60)
    worker.daemon.request_shutdown()
    assert len({segment.metadata.writer for segment in world.chain()}) == 3


def test_an_aggregate_of_one_arrival_time_stays_in_order(world: World) -> None:
    """Sub-sequence numbers count inside one sequence number."""
    worker = world.started()
    world.shard.put_aggregate([b"a", b"b", b"c"], world.clock.now_ms())
    worker.daemon.deliver()
    worker.daemon.request_shutdown()
    assert world.spans() == [(0, 2)]
    assert world.metadata().last.sub == 2
    world.check_everything_archived()


def test_a_buffer_that_is_too_old_is_thrown_away(world: World) -> None:
    """After a pause of an hour the slot may have been expired: no PUT, exit, and the records come again."""
    world.put(6)
    worker = world.holding(6)
    world.clock.advance(3600)
    with pytest.raises(BufferTooOld):
        worker.daemon.tick()
    assert "PUT" not in worker.store.requests
    world.archive_all()
    world.check_everything_archived()
