"""What segments claim: whether anything may be missing before them, and since when nothing is."""

import pytest

from minutebook.coverage.evidence import run_of
from minutebook.errors import DeliveryDoubt
from minutebook.format.coverage_markers import FirstShard, FirstShards, encode_coverage_marker, first_shards_key
from minutebook.format.metadata import Continuity
from minutebook.format.read_mark import BIRTH
from tests.fakes.archive_scene import PREFIX, ArchiveScene
from tests.fakes.clock import START_MS, SkewedClock
from tests.fakes.memory_store import MemoryStore
from tests.fakes.quiet_shard import marks
from tests.fakes.shard import SHARD, FakeShard
from tests.fakes.stream import DAY_MS
from tests.fakes.world import World

MINUTE_MS = 60_000
DAY = DAY_MS / 1000
PARENT = "shardId-000000000009"
PROVEN, UNPROVEN = Continuity.PROVEN, Continuity.UNPROVEN
Stated = tuple[Continuity | None, int | None]


def claims(world: World) -> list[Stated]:
    """Return what each segment states."""
    return [(segment.metadata.continuity, segment.metadata.evidence_ms) for segment in world.chain()]


def later(world: World, seconds: float) -> None:
    """Let time pass, then a record arrive."""
    world.clock.advance(seconds)
    world.put()


def test_the_first_segment_reaches_back_to_the_beginning(world: World) -> None:
    """Nothing can have been trimmed of a stream that is half a day old."""
    world.archive_all()
    assert claims(world) == [(PROVEN, world.stream.created_ms)]


def test_a_start_at_a_timestamp_reaches_back_to_it() -> None:
    """What lies before was never to be read."""
    world = World(start="AT_TIMESTAMP", at_timestamp_ms=START_MS - 1000)
    world.put(2)
    world.archive_all()
    assert claims(world) == [(PROVEN, START_MS - 1000)]


def test_what_follows_in_one_run_states_nothing(world: World) -> None:
    """The reader sees by the writers that both are of one run."""
    worker = world.started()
    worker.daemon.deliver()
    later(world, 60)
    worker.daemon.deliver()
    worker.daemon.request_shutdown()
    assert [continuity for continuity, _ in claims(world)] == [PROVEN, None]
    assert len({run_of(segment.metadata.writer) for segment in world.chain()}) == 1
    assert len({segment.metadata.writer for segment in world.chain()}) == 2


def test_another_run_states_since_when_nothing_is_missing(world: World) -> None:
    """Since a minute before that of the segment that it stands on."""
    world.archive_all()
    later(world, 60)
    world.archive_all()
    assert claims(world)[1] == (PROVEN, START_MS - MINUTE_MS)
    assert len({run_of(segment.metadata.writer) for segment in world.chain()}) == 2


def test_a_segment_behind_a_lost_slot_states_it(world: World) -> None:
    """Its predecessor is another run's."""
    zombie, owner = world.holding(4), world.holding(2)
    owner.daemon.request_shutdown()
    zombie.daemon.request_shutdown()
    assert claims(world)[1] == (PROVEN, START_MS - MINUTE_MS)


def test_a_segment_behind_a_stored_range_states_it(world: World) -> None:
    """A start without a checkpoint finds the chain by LIST."""
    world.archive_all()
    world.lease.wipe()
    later(world, 60)
    world.archive_all()
    assert claims(world)[1] == (PROVEN, START_MS - MINUTE_MS)


def test_after_a_day_a_segment_states_that_the_record_before_it_was_still_held(world: World) -> None:
    """Also in one run: without it the reader of the archive could not tell."""
    world.stream.retention_ms = 7 * DAY_MS
    worker = world.started()
    worker.daemon.deliver()
    world.clock.advance(66)
    worker.daemon.tick()
    later(world, DAY)
    worker.daemon.deliver()
    worker.daemon.request_shutdown()
    assert claims(world)[1] == (PROVEN, START_MS - MINUTE_MS)


def test_after_an_outage_beyond_a_day_a_trimmed_record_proves_nothing(world: World) -> None:
    """However long the retention is now: one that was raised has trimmed already."""
    world.archive_all()
    world.clock.advance(DAY + 600)
    world.shard.trim_through(world.shard.everything[3].position)
    world.stream.retention_ms = 7 * DAY_MS
    world.put(2)
    world.archive_all()
    assert claims(world)[1] == (UNPROVEN, None)


def test_what_follows_something_unproven_in_one_run_states_nothing(world: World) -> None:
    """It stands on the interval that was begun."""
    test_after_an_outage_beyond_a_day_a_trimmed_record_proves_nothing(world)
    worker = world.started()
    later(world, 60)
    worker.daemon.deliver()
    later(world, 60)
    worker.daemon.deliver()
    worker.daemon.request_shutdown()
    begun_ms = world.metadata(1).minute * MINUTE_MS
    assert claims(world)[2:] == [(PROVEN, begun_ms - MINUTE_MS), (None, None)]


@pytest.mark.parametrize("skew_hours", [-30, 30])
def test_a_wrong_clock_of_the_host_decides_nothing(world: World, skew_hours: int) -> None:
    """Ages are told by the service's time."""
    clock = SkewedClock(world.clock, skew_hours * 3_600_000)
    world.archive_all(clock=clock)
    later(world, 60)
    world.archive_all(clock=clock)
    world.clock.advance(DAY + 600)
    world.shard.trim_through(world.shard.everything[-1].position)
    world.put()
    world.archive_all(clock=clock)
    assert [continuity for continuity, _ in claims(world)] == [PROVEN, PROVEN, UNPROVEN]


def test_a_service_that_names_no_time_leaves_what_is_held(world: World) -> None:
    """Nothing counts as young then."""
    world.stream.clock = None
    world.archive_all()
    later(world, 60)
    worker = world.started()
    worker.daemon.deliver()
    later(world, 60)
    worker.daemon.deliver()
    worker.daemon.request_shutdown()
    assert [continuity for continuity, _ in claims(world)] == [UNPROVEN, PROVEN, None]


def test_a_batch_after_the_machine_was_paused_is_not_proven_by_what_was_seen_before(world: World) -> None:
    """No clock of a virtual machine counts its pause but the wall's, once that is set: two records came and went.

    The processor stops, and the next one marks the gap.
    """
    world.stream.created_ms -= 9 * DAY_MS
    world.archive_all()
    world.lease.wipe()
    worker = world.started(checkpoint_interval_seconds=0)
    worker.daemon.deliver()  # the archived ones, once more
    for record in world.put(2):
        world.shard.trim_through(record.position)
    world.clock.jump_wall(2 * DAY)
    world.put()
    with pytest.raises(DeliveryDoubt):
        worker.daemon.deliver()
    world.archive_all()
    assert claims(world)[1] == (UNPROVEN, None)


def test_asking_for_one_record_reads_one(world: World) -> None:
    """The shard's bytes a second are KCL's, which is far behind when a segment has to ask."""
    world.archive_all()
    later(world, DAY + 600)
    world.archive_all()
    assert set(world.stream.limits) == {1}


def test_a_mark_that_does_not_parse_stops_nobody(world: World) -> None:
    """A later version's, or a stranger's: it proves nothing to this one."""
    world.archive_all()
    world.clock.advance(DAY + 600)
    world.shard.trim_through(world.shard.everything[3].position)
    for day in ("2026-11-21", "2026-11-22"):
        world.bucket.place(f"{PREFIX}_read/{day}/{SHARD}/1-2-none-later-proven-w.json", b"{}")
    world.put()
    world.archive_all()
    assert claims(world)[1] == (UNPROVEN, None)


# Children


def child(world: World, *, born_hours_ago: float) -> None:
    """Make the shard a child of one that the application began with."""
    world.stream.created_ms -= 9 * DAY_MS
    ArchiveScene(MemoryStore(world.bucket), PREFIX).settle(world.stream.describe())
    world.shard.parents = (PARENT,)
    world.shard.born_ms = START_MS - round(born_hours_ago * 3_600_000)
    parent = FakeShard(PARENT)
    parent.close(SHARD)
    world.stream.shards[PARENT] = parent
    marker = FirstShards(
        format=1,
        shards=[FirstShard(shard=PARENT, starting_hash_key="0", ending_hash_key="9", parents=["shardId-older"])],
        writer="w",
        written_at="",
    )
    world.bucket.place(first_shards_key(PREFIX), encode_coverage_marker(marker))


def test_a_child_that_was_born_lately_is_read_from_its_birth(world: World) -> None:
    """ListShards did not name it for a time within the last day."""
    child(world, born_hours_ago=20)
    world.archive_all()
    assert claims(world) == [(PROVEN, BIRTH)]


def test_a_child_that_is_older_than_a_day_proves_nothing(world: World) -> None:
    """Its first records may have been trimmed."""
    child(world, born_hours_ago=25)
    world.archive_all()
    assert claims(world) == [(UNPROVEN, None)]


def test_a_server_without_filters_proves_no_birth(world: World) -> None:
    """It names the child for every time: the safe side."""
    child(world, born_hours_ago=1)
    world.stream.ignores_filters = True
    world.archive_all()
    assert claims(world) == [(UNPROVEN, None)]


def test_a_child_that_lived_and_ended_before_is_no_late_birth(world: World) -> None:
    """ListShards does not name it for that time either: it was closed by then, and a dip of the retention took it."""
    child(world, born_hours_ago=60)
    world.stream.retention_ms = 7 * DAY_MS
    world.shard.closed, world.shard.closed_ms = True, START_MS - 40 * 3_600_000
    world.shard.trim_through(world.shard.everything[-1].position)
    worker = world.started()
    worker.daemon.end_shard()
    assert [mark.continuity for mark in marks(world)] == [UNPROVEN]


def test_a_child_whose_parents_last_record_is_held_is_whole(world: World) -> None:
    """However old it is: trimming takes the oldest first."""
    child(world, born_hours_ago=50)
    parent = world.stream.shards[PARENT]
    parent.closed = False
    last = parent.put(b"x", START_MS - 50 * 3_600_000).position
    ArchiveScene(MemoryStore(world.bucket), PREFIX).end(PARENT, last, SHARD)
    world.archive_all()
    assert claims(world) == [(PROVEN, BIRTH)]


def test_a_shard_whose_parents_nobody_knows_began_with_the_application(world: World) -> None:
    """A stream that was resharded before: every shard names parents."""
    world.shard.parents = (PARENT,)
    world.archive_all()
    assert claims(world) == [(PROVEN, world.stream.created_ms)]


def test_a_parent_with_a_marker_is_known(world: World) -> None:
    """A grandchild's parent stands in no list of first shards."""
    child(world, born_hours_ago=1)
    nobody = FirstShards(format=1, shards=[], writer="w", written_at="")
    world.bucket.place(first_shards_key(PREFIX), encode_coverage_marker(nobody))
    world.bucket.place(f"{PREFIX}_shards/{PARENT}/opened.json", b"{}")
    world.archive_all()
    assert claims(world) == [(PROVEN, BIRTH)]
