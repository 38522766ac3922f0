"""How a shard's chain begins or goes on, and what is refused."""

import json

import pytest
from structlog.testing import capture_logs

from minutebook.errors import (
    DeliveryDoubt,
    FormatError,
    SafetyRefusal,
    SettingsError,
    StreamRefused,
    StreamUnavailable,
)
from minutebook.format.metadata import ChainStart, Continuity
from minutebook.format.position import Position
from tests.fakes.archive_scene import PREFIX
from tests.fakes.clock import START_MS
from tests.fakes.daemon_double import Lease
from tests.fakes.memory_store import EndlessFault, Fault, FaultOnEachKey, MemoryStore
from tests.fakes.shard import SHARD
from tests.fakes.stream import ARN, DAY_MS
from tests.fakes.world import World
from tests.witness.readback import check_holds, read_shard

START_KEY = f"{PREFIX}_shards/shardId-000000000000/start.json"
APPLICATION_KEY = f"{PREFIX}_application.json"


@pytest.mark.parametrize("fault", [Fault.CUT, Fault.MISSED])
def test_a_document_that_is_read_short_or_missed_once_is_no_damage(world: World, fault: Fault) -> None:
    """Every document of a processor's life, from its start to the shard's end: it is read again first."""
    world.archive_all()
    world.put()
    faults = FaultOnEachKey(fault)
    worker = world.worker(faults=faults)
    worker.daemon.start()
    worker.daemon.deliver()
    world.shard.close()
    worker.daemon.end_shard()
    world.check_everything_archived()
    assert {APPLICATION_KEY, START_KEY} <= faults.struck


@pytest.mark.parametrize("fault", [Fault.CUT, Fault.MISSED])
def test_a_document_that_stays_damaged_is_damage(world: World, fault: Fault) -> None:
    """The same sentence as ever: read twice, it does not parse, or is not there."""
    world.archive_all()
    with pytest.raises((FormatError, SafetyRefusal), match=APPLICATION_KEY.replace(".", r"\.")) as raised:
        world.worker(faults=EndlessFault(fault, ["GET"])).daemon.start()
    assert "from a version of it" in raised.value.next_step


def test_latest_is_refused() -> None:
    """Two starts would begin at different records: exit code 2, no request."""
    world = World(start="LATEST")
    worker = world.worker()
    with pytest.raises(SettingsError):
        worker.daemon.start()
    assert not worker.store.requests


def test_a_start_at_the_last_archived_record_is_no_break(world: World) -> None:
    """Retention took all before it: what is left of the archived part joins what comes next: no alarm."""
    world.archive_all()
    world.lease.wipe()
    world.shard.trim_through(world.shard.everything[2].position)
    world.put()
    with capture_logs() as logs:
        world.archive_all()
    assert world.spans() == [(0, 3), (4, 4)]
    assert "resumed_past_retention" not in {entry["event"] for entry in logs}


def test_a_start_that_is_no_position_is_refused(world: World) -> None:
    """SHARD_END or damage in the lease table."""
    world.lease.checkpoint = "SHARD_END"
    with pytest.raises(DeliveryDoubt):
        world.worker().daemon.start()


def test_the_start_marker_comes_before_the_first_segment(world: World) -> None:
    """A chain without a start can then never be seen."""
    worker = world.archive_all()
    puts = [key for verb, key in worker.store.log if verb == "PUT"]
    assert puts == [START_KEY, world.chain()[0].key]


def test_the_start_marker_says_where_the_shard_begins(world: World) -> None:
    """Sentinel, first position, hash keys, parents."""
    world.shard.parents = ("shardId-000000000009",)
    world.archive_all()
    marker = json.loads(world.bucket.body(START_KEY))
    assert {name: marker[name] for name in ("format", "shard", "sentinel", "first", "parents")} == {
        "format": 1,
        "shard": "shardId-000000000000",
        "sentinel": "TRIM_HORIZON",
        "first": str(world.shard.everything[0].position),
        "parents": ["shardId-000000000009"],
    }
    assert marker["starting_hash_key"] == "0"
    assert marker["ending_hash_key"] == str(2**128 - 1)


def test_a_shard_without_a_record_gets_no_start_marker() -> None:
    """There is no chain yet."""
    world = World()
    worker = world.started()
    worker.daemon.tick()
    worker.daemon.request_shutdown()
    assert world.bucket.keys(START_KEY) == []


def test_two_starts_of_one_shard_agree_on_its_marker(world: World) -> None:
    """412 with the same first record is no trouble."""
    one, two = world.started(), world.started()
    for worker in (one, two):
        worker.daemon.deliver()
    for worker in (one, two):
        worker.daemon.request_shutdown()
    assert world.spans() == [(0, 3)]


def test_a_start_at_another_record_is_refused(world: World) -> None:
    """The lease table was lost after records were trimmed: going on would leave a hole without a trace."""
    world.archive_all()
    world.put(2)
    world.clock.advance(600)
    world.put(2)
    world.lease.wipe()
    world.shard.trim_through(world.shard.everything[5].position)
    worker = world.started()
    worker.daemon.deliver()
    with pytest.raises(SafetyRefusal) as caught:
        worker.daemon.request_shutdown()
    assert caught.value.exit_code == 6
    assert world.spans() == [(0, 3)]


def begun_behind_skipped_records(world: World) -> None:
    """Let KCL skip the shard's first two records, and the worker die behind the commit of the two that follow."""
    skipper = world.started()
    skipper.daemon.redeliver(world.shard.everything[2:4])
    skipper.daemon.request_shutdown()
    world.lease.checkpoint = world.lease.start  # as it was before its first checkpoint


def numbers(world: World) -> list[tuple[int, int]]:
    """Return the spans of the segments, by the numbers of their records; they need not be one chain."""
    order = [record.position for record in world.shard.everything]
    segments = read_shard(MemoryStore(world.bucket), PREFIX, SHARD)
    tail = segments[-1].metadata.last
    check_holds(segments, [record for record in world.shard.everything if record.position <= tail])
    return [(order.index(segment.metadata.first), order.index(segment.metadata.last)) for segment in segments]


def test_what_kcl_had_skipped_before_the_beginning_is_archived_by_the_next_start(world: World) -> None:
    """The chain's first slot belongs to whoever began it: no segment reaches over it, and nothing is there twice."""
    begun_behind_skipped_records(world)
    world.put(2)
    with capture_logs() as logs:
        worker = world.started()
        worker.daemon.deliver()
        worker.daemon.request_shutdown()
    assert numbers(world) == [(0, 1), (2, 3), (4, 5)]
    assert [entry["event"] for entry in logs if entry["log_level"] == "warning"] == ["archived_before_start"]
    first = read_shard(MemoryStore(world.bucket), PREFIX, SHARD)[0].metadata
    assert (first.after, first.continuity) == (ChainStart("TRIM_HORIZON"), Continuity.UNPROVEN)


def test_a_recorded_beginning_without_its_segment_is_a_slot_of_its_own(world: World) -> None:
    """Whoever wrote start.json may live, and hold that segment still; restarts on the way do not forget it."""
    begun_behind_skipped_records(world)
    for key in [key for key in world.bucket.keys(PREFIX) if key.endswith(".gz")]:
        world.bucket.delete(key)
    one = world.started()
    one.daemon.deliver(1)
    one.daemon.request_shutdown()
    world.archive_all()
    assert numbers(world) == [(0, 0), (1, 1), (2, 3)]


def test_a_beginning_behind_held_records_ends_the_process_once(world: World) -> None:
    """A segment over it could be committed beside one that begins there; the next start knows it."""
    slow = world.holding(4)
    begun_behind_skipped_records(world)
    with pytest.raises(DeliveryDoubt, match="was begun at"):
        slow.daemon.request_shutdown()
    world.started().daemon.request_shutdown()
    worker = world.started()
    worker.daemon.deliver()
    worker.daemon.request_shutdown()
    assert numbers(world) == [(0, 1), (2, 3)]


def test_what_arrived_before_the_start_is_not_archived_after_the_lease_table_is_lost() -> None:
    """Once the start is older than the retention, KCL begins at the trim horizon, which may hold older records."""
    world = World(start="AT_TIMESTAMP", at_timestamp_ms=START_MS + 60_000)
    world.put(2)
    world.clock.advance(60)
    world.put(2)
    world.archive_all()
    world.lease.checkpoint = "TRIM_HORIZON"
    worker = world.started()
    worker.daemon.deliver(2)
    with pytest.raises(SafetyRefusal, match="was begun at"):
        worker.daemon.request_shutdown()
    assert world.spans() == [(2, 3)]


def test_a_timestamp_start_begins_where_the_application_record_says() -> None:
    """All workers get the stored timestamp from KCL; `after` says AT_TIMESTAMP."""
    world = World(start="AT_TIMESTAMP", at_timestamp_ms=START_MS + 60_000)
    world.put(2)
    world.clock.advance(60)
    world.put(2)
    world.archive_all()
    assert world.spans() == [(2, 3)]
    assert world.chain()[0].metadata.after == ChainStart("AT_TIMESTAMP")


def test_a_timestamp_that_is_not_stored_is_refused(world: World) -> None:
    """Another start could be given another timestamp."""
    world.lease.checkpoint, world.lease.at_timestamp_ms = "AT_TIMESTAMP", START_MS
    with pytest.raises(SafetyRefusal):
        world.worker().daemon.start()


def test_whoever_comes_first_ties_the_prefix_to_the_stream(world: World) -> None:
    """A processor without `consume` writes the application record too."""
    world.started()
    record = json.loads(world.bucket.body(APPLICATION_KEY))
    assert (record["stream_arn"], record["stream_created_ms"]) == (ARN, world.stream.created_ms)


def test_another_stream_is_refused(world: World) -> None:
    """Shard ids repeat between streams: exit code 6, nothing is written."""
    world.archive_all()
    world.stream.arn = ARN.replace("flights", "trains")
    before = world.bucket.keys()
    with pytest.raises(SafetyRefusal, match="trains") as caught:
        world.worker().daemon.start()
    assert caught.value.exit_code == 6
    assert "new prefix" in caught.value.next_step
    assert world.bucket.keys() == before


def test_a_stream_made_again_under_its_name_is_refused(world: World) -> None:
    """The ARN is the same, the creation time is not."""
    world.archive_all()
    world.stream.created_ms += 1
    with pytest.raises(SafetyRefusal):
        world.worker().daemon.start()


def test_a_damaged_application_record_is_doubt(world: World) -> None:
    """It is never written over."""
    world.bucket.place(APPLICATION_KEY, b"{}")
    with pytest.raises(FormatError, match=r"_application\.json"):
        world.worker().daemon.start()
    assert world.bucket.body(APPLICATION_KEY) == b"{}"


@pytest.mark.parametrize(("attribute", "expected"), [("unavailable", StreamUnavailable), ("refused", StreamRefused)])
def test_a_stream_that_cannot_be_asked_is_no_start(world: World, attribute: str, expected: type[Exception]) -> None:
    """Which stream it is must be known before the first record."""
    setattr(world.stream, attribute, True)
    with pytest.raises(expected):
        world.worker().daemon.start()


def test_a_checkpoint_without_an_archive_is_refused(world: World) -> None:
    """Another prefix, or another application's lease table: exit code 6."""
    world.lease.checkpoint = world.shard.everything[1].position
    with pytest.raises(SafetyRefusal) as caught:
        world.worker().daemon.start()
    assert "adoptCheckpoint" in caught.value.next_step


def test_an_adopted_checkpoint_begins_the_chain_after_it(world: World) -> None:
    """`after` says so for ever, and the marker too."""
    adopted = world.shard.everything[1].position
    world.lease.checkpoint = adopted
    world.archive_all(adopt_checkpoint=True)
    assert world.spans() == [(2, 3)]
    assert world.metadata().after == ChainStart("AFTER_SEQUENCE", adopted)
    assert json.loads(world.bucket.body(START_KEY))["sentinel"] == f"AFTER_SEQUENCE:{adopted}"


def test_a_resumed_chain_follows_the_checkpoint(world: World) -> None:
    """The next segment's `after` is the tail."""
    world.archive_all()
    world.clock.advance(60)
    world.put(2)
    world.archive_all()
    assert world.spans() == [(0, 3), (4, 5)]
    assert not world.metadata().is_doubtful


def resumed_past_retention(world: World) -> None:
    """Archive four records, then let a day pass in which two more arrived and were trimmed with the tail."""
    world.archive_all()
    world.put(2)
    world.clock.advance(2 * DAY_MS / 1000)
    world.put(2)
    world.shard.trim_through(world.shard.everything[5].position)


def test_a_resume_past_retention_is_marked(world: World) -> None:
    """The link alone looks whole: the first new segment says that continuity is not proven."""
    resumed_past_retention(world)
    world.archive_all()
    assert world.spans() == [(0, 3), (6, 7)]
    assert world.metadata().is_doubtful


def test_only_the_first_new_segment_carries_the_mark(world: World) -> None:
    """The links behind it are proven again."""
    resumed_past_retention(world)
    worker = world.started()
    worker.daemon.deliver()
    world.clock.advance(60)
    world.put()
    worker.daemon.deliver()
    worker.daemon.request_shutdown()
    assert [segment.metadata.is_doubtful for segment in world.chain()] == [False, True, False]


def test_an_old_stream_that_still_holds_the_checkpoint_is_proven(world: World) -> None:
    """One read decides: nothing behind it can have been trimmed."""
    world.archive_all()
    world.clock.advance(2 * DAY_MS / 1000)
    world.put(2)
    world.archive_all()
    assert not world.metadata().is_doubtful


def test_a_young_stream_needs_no_proof(world: World) -> None:
    """Nothing is trimmed before the stream is as old as its retention."""
    world.archive_all()
    world.put(2)
    world.archive_all()
    assert "holds" not in world.stream.requests


def test_near_retention_writes_through(world: World) -> None:
    """Each call commits what it brought when its records are about to be trimmed."""
    world.clock.advance(DAY_MS / 1000 - 900)
    worker = world.started()
    worker.daemon.deliver(1)
    worker.daemon.deliver(2)
    assert world.spans() == [(0, 0), (1, 2)]


def test_far_from_retention_nothing_is_written_through(world: World) -> None:
    """Half a day old records are buffered as ever."""
    world.clock.advance(DAY_MS / 2000)
    worker = world.started()
    worker.daemon.deliver(1)
    assert world.spans() == []


def test_the_retention_is_read_again_now_and_then(world: World) -> None:
    """A retention that was shortened is seen within hours."""
    worker = world.started()
    world.stream.requests.clear()
    world.stream.retention_ms = DAY_MS // 24
    world.clock.advance(3600)
    worker.daemon.deliver(1)
    assert world.stream.requests.count("describe") == 1
    assert world.spans() == [(0, 0)]


def test_a_lease_of_another_start_is_another_world() -> None:
    """The double's own rule: AT_TIMESTAMP delivers from the first record that arrived at the time or later."""
    world = World()
    world.put(1)
    world.clock.advance(10)
    world.put(1)
    lease = Lease(world.shard, start="AT_TIMESTAMP", at_timestamp_ms=START_MS + 1)
    world.lease = lease
    MemoryStore(world.bucket)
    assert [record.position for record in world.worker().daemon.waiting()] == [world.shard.everything[1].position]
    assert isinstance(world.shard.everything[1].position, Position)
