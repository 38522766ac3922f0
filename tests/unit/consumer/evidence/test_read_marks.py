"""Read marks: when a quiet shard gets one, what it says, what keeps it from being written, and after restarts."""

import errno
import fcntl
from itertools import pairwise
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from consumer.evidence.worker_lock import FileLock
from minutebook.coverage.continuity import AFTER_HOUR_MS, spread_of
from minutebook.format.coverage_markers import UndeliveredRecord, decode_coverage_marker
from minutebook.format.day import day_of_ms
from minutebook.format.metadata import Continuity
from minutebook.format.read_mark import FOLDER, MarkKind, ReadMark, encode_read_mark, read_mark_key
from tests.fakes.archive_scene import PREFIX
from tests.fakes.clock import START_MS, SkewedClock
from tests.fakes.memory_store import EndlessFault, Fault
from tests.fakes.quiet_shard import Tried, marks, quiet_shard, wait
from tests.fakes.shard import SHARD
from tests.fakes.stream import DAY_MS
from tests.fakes.world import World
from tests.witness.aggregate import EMPTY

MINUTE_MS, HOUR_MS = 60_000, 3_600_000


@pytest.fixture
def quiet() -> Tried:
    """Return a worker that has archived all four records a minute ago."""
    return quiet_shard()


def service_ms(world: World) -> int:
    """Return the service's time in whole seconds, as its answers name it."""
    return world.clock.now_ms() // 1000 * 1000


def test_a_shard_without_a_record_is_marked_at_its_start() -> None:
    """A stream that nobody writes to is covered all the same; its position is none."""
    world = World()
    wait(Tried(world, world.started()), 0, ticks=1)
    [mark] = marks(world)
    assert mark[:6] == (
        SHARD,
        MarkKind.READ,
        Continuity.PROVEN,
        world.stream.created_ms,
        START_MS - MINUTE_MS,
        None,
    )


def test_a_busy_shard_is_not_marked(quiet: Tried) -> None:
    """Its segments say the same."""
    wait(quiet, 1800)
    assert marks(quiet.world) == []


def test_a_quiet_shard_is_marked_once_an_hour(quiet: Tried) -> None:
    """Behind its last segment, which it stands on; a minute before the answer that came before the last request."""
    wait(quiet, 4300)
    [mark] = marks(quiet.world)
    assert (mark.continuity, mark.from_ms, mark.position) == (
        Continuity.PROVEN,
        START_MS - MINUTE_MS,
        quiet.world.shard.everything[3].position,
    )
    assert START_MS + 4300_000 < mark.until_ms <= service_ms(quiet.world) - MINUTE_MS
    wait(quiet, 600)
    assert len(marks(quiet.world)) == 1
    wait(quiet, 4300)
    assert [mark.from_ms for mark in marks(quiet.world)][1] == mark.until_ms


def test_a_quiet_shard_is_marked_soon_after_midnight(quiet: Tried) -> None:
    """So that its day can be proven in the night; the mark lies under both days."""
    midnight_ms = START_MS // DAY_MS * DAY_MS + DAY_MS
    wait(quiet, (midnight_ms - quiet.world.clock.now_ms()) / 1000 - 1)
    before = marks(quiet.world)
    wait(quiet, (AFTER_HOUR_MS + spread_of(SHARD)) / 1000)
    [mark] = [mark for mark in marks(quiet.world) if mark not in before]
    assert mark.until_ms >= midnight_ms
    folders = {key.split("/")[2] for key in quiet.world.bucket.keys(f"{PREFIX}{FOLDER}") if mark.writer in key}
    assert folders == {"2026-11-21", "2026-11-22"}


@pytest.mark.parametrize("skew_hours", [-5, 5])
def test_a_wrong_clock_of_the_host_changes_nothing(skew_hours: int) -> None:
    """The times are the service's own."""
    world = World()
    worker = world.started(clock=SkewedClock(world.clock, skew_hours * HOUR_MS))
    wait(Tried(world, worker), 0, ticks=1)
    assert [mark.until_ms for mark in marks(world)] == [START_MS - MINUTE_MS]


def test_a_segment_behind_a_mark_stands_on_it(quiet: Tried) -> None:
    """And says so: the segment before may be days old."""
    wait(quiet, 4300)
    quiet.world.put()
    quiet.worker.daemon.deliver()
    quiet.worker.daemon.request_shutdown()
    metadata = quiet.world.metadata()
    assert (metadata.continuity, metadata.evidence_ms) == (Continuity.PROVEN, marks(quiet.world)[0].until_ms)


def test_what_waits_behind_the_tail_is_no_tip(quiet: Tried) -> None:
    """KCL has not delivered it yet."""
    quiet.world.clock.advance(4300)
    quiet.world.put()
    wait(quiet, 0)
    assert marks(quiet.world) == []


def test_the_rest_of_the_aggregate_that_the_tail_lies_in_is_no_tip() -> None:
    """One Kinesis record, and KCL has delivered a part of it."""
    world = World()
    world.shard.put_aggregate([b"a", b"b", b"c"], world.clock.now_ms())
    worker = world.started()
    worker.daemon.deliver(2)
    world.clock.advance(66)
    worker.daemon.tick()
    wait(Tried(world, worker), 4300)
    assert marks(world) == []
    worker.daemon.deliver()
    world.clock.advance(66)
    worker.daemon.tick()
    wait(Tried(world, worker), 300)
    assert [mark.position for mark in marks(world)] == [world.shard.everything[2].position]


def test_an_attempt_that_found_more_is_repeated_after_a_minute(quiet: Tried) -> None:
    """Not at every call."""
    quiet.world.clock.advance(4300)
    quiet.world.put()
    wait(quiet, 0)
    quiet.world.stream.requests.clear()
    wait(quiet, 20, ticks=20)
    assert quiet.world.stream.requests == []
    wait(quiet, 20, ticks=1)
    assert "open" in quiet.world.stream.requests


def test_an_answer_that_is_empty_on_the_way_is_no_tip(quiet: Tried) -> None:
    """Kinesis gives such; one request in each second."""
    quiet.world.clock.advance(4300)
    quiet.world.stream.empty_answers = 3
    quiet.world.stream.requests.clear()
    for _ in range(4):
        quiet.worker.daemon.tick()
        quiet.worker.daemon.tick()
        assert marks(quiet.world) == []
        quiet.world.clock.advance(1)
    quiet.worker.daemon.tick()
    assert len(marks(quiet.world)) == 1
    assert quiet.world.stream.requests.count("read") == 5


def test_a_walk_ends_after_twenty_requests(quiet: Tried) -> None:
    """The shard has five a second, and KCL needs them."""
    quiet.world.stream.empty_answers = 1000
    quiet.world.stream.requests.clear()
    wait(quiet, 4300, ticks=60)
    assert quiet.world.stream.requests.count("read") == 20
    assert marks(quiet.world) == []


def test_a_walk_that_took_minutes_proves_nothing(quiet: Tried) -> None:
    """The host slept: the iterator may have expired, and what the first answers said is old."""
    wait(quiet, 4300, ticks=1)
    wait(quiet, 241, ticks=1)
    assert marks(quiet.world) == []


def test_what_arrives_ends_a_walk(quiet: Tried) -> None:
    """It is archived first."""
    wait(quiet, 4300, ticks=1)
    quiet.world.put()
    quiet.worker.daemon.deliver()
    quiet.world.clock.advance(1)
    quiet.worker.daemon.tick()
    assert marks(quiet.world) == []


def test_without_a_date_there_is_no_mark(quiet: Tried) -> None:
    """A host's clock proves nothing."""
    quiet.world.stream.clock = None
    wait(quiet, 4300)
    assert marks(quiet.world) == []


@pytest.mark.parametrize("attribute", ["unavailable", "refused"])
def test_a_stream_that_does_not_answer_costs_the_mark_alone(quiet: Tried, attribute: str) -> None:
    """The processor goes on, and tries again in a minute."""
    setattr(quiet.world.stream, attribute, True)
    with capture_logs() as logs:
        wait(quiet, 4300, ticks=20)
    assert [entry["event"] for entry in logs if entry["log_level"] != "debug"] == ["read_mark_failed"]
    setattr(quiet.world.stream, attribute, False)
    wait(quiet, 300)
    assert len(marks(quiet.world)) == 1


def test_a_store_that_does_not_answer_costs_the_mark_alone(quiet: Tried) -> None:
    """One attempt: records that arrive meanwhile must not wait."""
    quiet.worker.store.faults = EndlessFault(Fault.THROTTLED)
    slept = len(quiet.world.clock.slept)
    wait(quiet, 4300)
    assert len(quiet.world.clock.slept) == slept
    assert marks(quiet.world) == []


def test_one_shard_of_a_worker_asks_at_a_time(quiet: Tried) -> None:
    """A shard that does not get the lock waits for the next call."""
    other = quiet.world.worker(lock=Taken())
    other.daemon.start()
    quiet.world.stream.requests.clear()
    for _ in range(4):
        other.daemon.tick()
    assert "open" not in quiet.world.stream.requests


def test_a_tick_waits_for_nothing() -> None:
    """Not even where it has to ask what the oldest record is, and the answer is empty on the way."""
    world = World()
    world.stream.created_ms -= 9 * DAY_MS
    worker = world.started()
    world.stream.on_request = lambda: setattr(
        world.stream, "empty_answers", int(world.stream.requests.count("read") > 1)
    )
    wait(Tried(world, worker), 0, ticks=1)
    assert world.stream.requests.count("read") == 2
    assert world.clock.slept == []


def test_a_lock_that_cannot_be_given_back_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system without locks."""
    path = tmp_path / "kcl.properties"
    path.touch()
    lock = FileLock(str(path))

    def refuse(*_given: object) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    assert lock.take()
    lock.release()


def test_many_withheld_records_are_kept_little_by_little(quiet: Tried) -> None:
    """Any producer can send them by thousands; the pipe waits for a few requests at a time."""
    for _ in range(55):
        quiet.world.shard.put_undelivered(EMPTY, quiet.world.clock.now_ms())
    quiet.world.clock.advance(4300)
    most = 0
    for _ in range(20):
        quiet.worker.store.requests.clear()
        quiet.worker.daemon.tick()
        most = max(most, quiet.worker.store.requests.total())
        quiet.world.clock.advance(1)
    [mark] = marks(quiet.world)
    assert (len(mark.undelivered), len(quiet.world.bucket.keys(f"{PREFIX}_undelivered/"))) == (55, 55)
    assert most <= 12


class Taken:
    """A lock that another shard has."""

    def take(self) -> bool:
        """Say so."""
        return False

    def release(self) -> None:
        """Never called."""
        raise AssertionError


def test_no_position_is_marked_once_the_shard_was_begun(quiet: Tried) -> None:
    """The lease table is lost, all is trimmed: this processor does not know where the chain ends."""
    quiet.world.lease.wipe()
    quiet.world.shard.trim_through(quiet.world.shard.everything[3].position)
    with capture_logs() as logs:
        tried = Tried(quiet.world, quiet.world.started())
        for _ in range(3):
            wait(tried, 1900)
    assert marks(quiet.world) == []
    told = [entry for entry in logs if entry["event"] == "checkpoint_behind_archive"]
    assert len(told) == 2  # once an hour
    assert "restore --apply" in told[0]["next_step"]
    assert told[1]["covered_until_ms"] - told[0]["covered_until_ms"] >= HOUR_MS


def test_what_kcl_does_not_deliver_is_kept_named_and_passed_over(quiet: Tried) -> None:
    """An aggregate of nothing, such as any producer can send."""
    record = quiet.world.shard.put_undelivered(EMPTY, quiet.world.clock.now_ms())
    wait(quiet, 4300)
    [mark] = marks(quiet.world)
    assert (mark.undelivered, mark.position) == ((record.sequence,), quiet.world.shard.everything[3].position)
    [key] = quiet.world.bucket.keys(f"{PREFIX}_undelivered/")
    kept = decode_coverage_marker(quiet.world.bucket.body(key), UndeliveredRecord, key)
    assert (kept.sequence_number, kept.first_sub, kept.reason) == (str(record.sequence), 0, "empty")


MINUTE_MS = 60_000


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


def test_a_loss_that_an_audit_saw_is_nothing_to_go_on_from() -> None:
    """It names no position, like a mark of a shard without a record, and changes nothing that such a shard claims."""
    without = World()
    wait(Tried(without, without.started()), 0, ticks=1)
    world = World()
    until_ms = world.clock.now_ms() - MINUTE_MS
    lost = ReadMark(SHARD, MarkKind.STREAM, Continuity.LOST, until_ms - MINUTE_MS, until_ms, None, "audit")
    world.bucket.place(read_mark_key(PREFIX, day_of_ms(until_ms), lost), encode_read_mark(lost))
    wait(Tried(world, world.started()), 0, ticks=1)
    expected = [mark[:6] for mark in marks(without)]
    assert [mark[:6] for mark in marks(world) if mark != lost] == expected
    world.put()
    without.put()
    for one in (world, without):
        one.archive_all()
    assert (world.metadata().continuity, world.metadata().evidence_ms) == (
        without.metadata().continuity,
        without.metadata().evidence_ms,
    )


@pytest.mark.parametrize("records", [0, 4])
def test_a_mark_of_two_days_that_was_stored_under_the_first_alone_is_nothing_to_go_on_from(records: int) -> None:
    """Its writer died between the two requests: nobody who judges the second day sees what it proves."""
    world = World()
    world.put(records)
    midnight_ms = START_MS // DAY_MS * DAY_MS + DAY_MS
    tried = Tried(world, world.archive_all() if records else world.started())
    world.clock.advance((midnight_ms - world.clock.now_ms()) / 1000 - 600)
    tried = Tried(world, world.started())
    wait(tried, 0)
    whole = marks(world)
    wait(tried, 1200)
    [half] = [mark for mark in marks(world) if mark not in whole]
    world.bucket.delete(read_mark_key(PREFIX, day_of_ms(midnight_ms), half))
    wait(Tried(world, world.started()), 0)
    [anew] = [mark for mark in marks(world) if mark not in (*whole, half)]
    assert (anew.from_ms, anew.continuity) == (half.from_ms, Continuity.PROVEN)
    keys = world.bucket.keys(f"{PREFIX}{FOLDER}")
    assert [key.split("/")[2] for key in keys if anew.writer in key] == ["2026-11-21", "2026-11-22"]


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
