"""A reader that retention overtakes while it runs: slow, or asleep."""

import pytest
from structlog.testing import capture_logs

from minutebook.errors import BufferTooOld, DeliveryDoubt
from minutebook.format.metadata import Continuity
from minutebook.format.position import Position
from tests.fakes.stream import DAY_MS
from tests.fakes.world import Worker, World

DAY = DAY_MS / 1000


def asleep_for(world: World, days: float) -> Worker:
    """Return a worker that archived four records and slept; two more arrived and were trimmed, then two that stay."""
    worker = world.started()
    worker.daemon.deliver()
    world.clock.advance(66)
    worker.daemon.tick()
    world.put(2)
    world.clock.advance(days * DAY)
    world.put(2)
    world.shard.trim_through(world.shard.everything[5].position)
    return worker


def test_a_gap_while_the_machine_slept_is_never_passed_over(world: World) -> None:
    """Kinesis goes on at the trim horizon without a word: the process stops, and the next start marks the gap."""
    worker = asleep_for(world, 2)
    with pytest.raises(DeliveryDoubt):
        worker.daemon.deliver()
    world.archive_all()
    assert world.spans() == [(0, 3), (6, 7)]
    assert world.metadata().continuity is Continuity.UNPROVEN


def test_a_gap_while_the_machine_slept_before_its_first_batch_is_not_passed_over(world: World) -> None:
    """What it goes on from is what was archived before."""
    world.archive_all()
    worker = world.started()
    world.put(2)
    world.clock.advance(2 * DAY)
    world.put(2)
    world.shard.trim_through(world.shard.everything[5].position)
    with pytest.raises(DeliveryDoubt):
        worker.daemon.deliver()
    assert "PUT" not in worker.store.requests


def test_a_zombie_that_slept_adds_nothing_to_what_others_archived(world: World) -> None:
    """It would begin in the middle of a span that it has never heard of."""
    zombie = world.started()
    zombie.daemon.deliver(2)
    world.clock.advance(66)
    zombie.daemon.tick()
    world.clock.advance(3600)
    world.put(4)
    world.archive_all()
    world.clock.advance(2 * DAY)
    world.shard.trim_through(world.shard.everything[5].position)
    with pytest.raises(DeliveryDoubt):
        zombie.daemon.deliver()
    world.check_everything_archived()


def test_a_long_sleep_without_a_gap_changes_nothing(world: World) -> None:
    """The last delivered record is still held: nothing behind it is gone."""
    worker = world.started()
    worker.daemon.deliver()
    world.clock.advance(66)
    worker.daemon.tick()
    world.clock.advance(DAY + 600)
    world.put(2)
    worker.daemon.deliver()
    worker.daemon.request_shutdown()
    assert world.spans() == [(0, 3), (4, 5)]
    assert "holds" in world.stream.requests


def test_a_reader_at_the_tip_of_a_quiet_shard_is_not_in_doubt(world: World) -> None:
    """Empty calls say that nothing was waiting, however old the last record is."""
    worker = world.started()
    worker.daemon.deliver()
    world.clock.advance(66)
    for _ in range(72):
        worker.daemon.tick()
        world.clock.advance(1)
        worker.daemon.tick()
        world.clock.advance(3599)
    world.shard.trim_through(Position(world.shard.everything[3].position.sequence))
    world.put(2)
    worker.daemon.deliver()
    worker.daemon.request_shutdown()
    assert world.spans() == [(0, 3), (4, 5)]
    assert "holds" not in world.stream.requests
    assert not world.metadata().is_doubtful


def test_a_reader_that_catches_up_over_days_asks_every_few_minutes(world: World) -> None:
    """Two days behind on a week of retention: not one question per batch, which would cost the shard's read limit."""
    world.stream.retention_ms = 7 * DAY * 1000
    worker = world.started()
    daemon = worker.daemon

    def deliver_behind() -> None:
        batch = daemon.waiting()[:1]
        behind = b'"millisBehindLatest":%d' % (2 * DAY * 1000)
        daemon.run([lambda: daemon.records_message(batch).replace(b'"millisBehindLatest":0', behind)])

    world.put(100)
    for _ in range(100):
        deliver_behind()
        world.clock.advance(8)
    assert 2 <= world.stream.requests.count("holds") <= 6


def test_what_is_about_to_be_trimmed_is_reported_once_a_minute(world: World) -> None:
    """Every batch is close to its end then; a line for each would only flood the log."""
    world.clock.advance(DAY - 900)
    worker = world.started()
    with capture_logs() as logs:
        for seconds in (0, 30, 29, 1):
            world.clock.advance(seconds)
            worker.daemon.deliver(1)
    assert [entry["left_seconds"] for entry in logs if entry["event"] == "near_retention"] == [900, 840]


def test_a_batch_ages_while_kinesis_is_asked(world: World) -> None:
    """A machine slept for days before that request: the slot may have been used and expired by then.

    Found by the simulation in its 179,783rd history, where a record was stored a second time.
    """
    worker = world.started()
    world.clock.advance(7200)
    world.stream.on_request = lambda: world.clock.advance(3 * DAY)
    with pytest.raises(BufferTooOld):
        worker.daemon.deliver()
    assert "PUT" not in worker.store.requests


def test_a_batch_that_waited_in_the_pipe_for_days_is_not_archived(world: World) -> None:
    """Nothing but the records' own times tells of it; the stream has trimmed them since."""
    worker = world.started()
    batch = worker.daemon.waiting()
    world.clock.advance(2 * DAY)
    world.shard.trim_through(world.shard.everything[3].position)
    with pytest.raises(DeliveryDoubt, match="24 h after the stream trimmed it"):
        worker.daemon.run([lambda: worker.daemon.records_message(batch)])
    assert "PUT" not in worker.store.requests


def test_a_record_is_not_given_up_because_it_was_trimmed_a_moment_ago(world: World) -> None:
    """It was delivered, so it is archived: nobody else can do that any more."""
    worker = world.started()
    batch = worker.daemon.waiting()
    world.clock.advance(DAY + 3600)
    world.shard.trim_through(world.shard.everything[3].position)
    worker.daemon.run([lambda: worker.daemon.records_message(batch)])
    assert world.spans() == [(0, 3)]


def test_a_stream_that_trims_late_is_read_to_its_oldest_record(world: World) -> None:
    """However old a record is: while the stream holds it, nobody has expired its slot."""
    worker = world.started()
    world.clock.advance(5 * DAY)
    worker.daemon.deliver()
    assert world.spans() == [(0, 3)]


@pytest.mark.parametrize(("more_seconds", "spans"), [(2, []), (-2, [(0, 3)])])
def test_the_margin_holds_a_buffers_age_a_puts_flight_and_five_minutes(
    world: World, more_seconds: float, spans: list[tuple[int, int]]
) -> None:
    """S3 takes a PUT a quarter of an hour after it was signed: closer to the end, a call commits what it brought."""
    worker = world.started(max_segment_age_seconds=600)
    world.clock.advance(DAY - (600 + 900 + 300) - more_seconds)
    worker.daemon.deliver()
    assert world.spans() == spans
