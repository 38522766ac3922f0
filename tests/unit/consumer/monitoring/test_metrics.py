"""Each metric moves when its cause happens: real processors on fakes, heard by the watch as by a supervisor."""

from collections.abc import Iterator
from typing import Final

import pytest

from consumer.child_logs.kcl_log import KclEvent, Skipped
from consumer.child_logs.processor_log import ProcessorEvent
from consumer.monitoring.labels import StreamLabels
from consumer.monitoring.watch import Watch
from minutebook.errors import StoreUnavailable
from tests.fakes.clock import START_MS, ManualClock
from tests.fakes.memory_store import EndlessFault, Fault, PlannedFaults
from tests.fakes.shard import SHARD
from tests.fakes.watched import heard_by
from tests.fakes.world import World

LABELS: Final = StreamLabels("flights-archive", "flights")


class Scene:
    """A shard, its processors, and the watch over them."""

    def __init__(self) -> None:
        self.world = World()
        self.watch = Watch(self.world.clock, labels=LABELS)

    def value(self, name: str, **labels: str) -> float | None:
        """Return a sample of the shard, or of other labels, with those of the stream."""
        return self._sample(name, labels or {"shard": SHARD})

    def task(self, name: str) -> float | None:
        """Return a sample with no labels but those of the stream."""
        return self._sample(name, {})

    def _sample(self, name: str, labels: dict[str, str]) -> float | None:
        assert self.watch.metrics is not None
        everything = {**LABELS._asdict(), **labels}
        return self.watch.metrics.registry.get_sample_value(f"minutebook_{name}", everything)


@pytest.fixture
def scene() -> Iterator[Scene]:
    """Return a scene in which every line is heard."""
    found = Scene()
    with heard_by(found.watch):
        yield found


@pytest.mark.parametrize(
    "name",
    [
        *("segments_total", "records_total", "payload_bytes_total", "body_bytes_total", "put_attempts_total"),
        *("slots_lost_total", "id_conflicts_total", "checkpoints_total", "commit_seconds_count", "buffer_bytes"),
        *("covered_until_timestamp_seconds", "last_commit_timestamp_seconds", "behind_seconds"),
        *("stream_behind_seconds", "shard_without_reader"),
    ],
)
@pytest.mark.parametrize("how", ["opened", "leased"])
def test_a_series_of_a_shard_is_there_before_the_first_event(scene: Scene, name: str, how: str) -> None:
    """With 0: an alarm on a rate needs the value before the first one."""
    assert scene.value(name) is None
    if how == "opened":
        scene.world.started()
    else:
        scene.watch.note_readers(frozenset(), frozenset({SHARD}))
    assert scene.value(name) == 0


def test_series_without_a_shard_are_there_from_the_start(scene: Scene) -> None:
    """Each exit code of ours, and each thing that KCL gives up on."""
    assert [scene.value("processor_failures_total", exit_code=code) for code in "1256"] == [0] * 4
    assert [scene.value("kcl_skipped_total", shard="", skipped=kind) for kind in Skipped] == [0] * 3
    names = ("daemon_restarts_total", "processors_killed_total", "shards_without_reader", "shards", "daemon_up")
    assert [scene.task(name) for name in (*names, "stream_up")] == [0] * 6


def test_a_commit_moves_its_counters_and_times(scene: Scene) -> None:
    """One segment of three records; the clock shows when, and the archive covers up to a minute before its own."""
    worker = scene.world.started()
    scene.world.put(3)
    worker.daemon.deliver()
    scene.world.clock.advance(60)
    scene.world.put(1)
    worker.daemon.deliver()

    metadata = scene.world.metadata()
    counted = [scene.value(f"{name}_total") for name in ("segments", "records", "put_attempts", "payload_bytes")]
    assert counted == [1, 3, 1, metadata.payload_bytes]
    assert (scene.value("body_bytes_total") or 0) > 20
    assert scene.value("last_commit_timestamp_seconds") == START_MS / 1000 + 60
    assert scene.value("covered_until_timestamp_seconds") == START_MS / 1000 - 60
    assert scene.value("commit_seconds_count") == 1


def test_the_newest_boundary_is_that_of_the_stream(scene: Scene) -> None:
    """0 until one is known, and without a shard."""
    assert scene.task("complete_until_timestamp_seconds") == 0
    scene.watch.note_complete(START_MS)
    assert scene.task("complete_until_timestamp_seconds") == START_MS / 1000


def test_behind_is_the_age_of_the_oldest_record_that_is_not_archived(scene: Scene) -> None:
    """It grows with the clock alone, and a commit takes it back to what is held behind it."""
    worker = scene.world.started()
    scene.world.put(2, data=b"x" * 100)
    worker.daemon.deliver()
    assert (scene.value("behind_seconds"), (scene.value("buffer_bytes") or 0) > 200) == (0, True)
    scene.world.clock.advance(50)
    assert scene.value("behind_seconds") == 50
    scene.world.clock.advance(10)
    scene.world.put(1)
    worker.daemon.deliver()
    assert scene.value("behind_seconds") == 0
    worker.daemon.request_shutdown()
    assert (scene.value("behind_seconds"), scene.value("buffer_bytes")) == (0, 0)
    scene.world.clock.advance(300)
    assert scene.value("behind_seconds") == 0


def test_a_processor_that_hangs_has_said_what_it_holds(scene: Scene) -> None:
    """Its line comes before the first request that may block: here the LIST of the minute."""
    seen: list[float | None] = []
    worker = scene.world.started(store_timeout_seconds=100)
    worker.store.faults = EndlessFault(Fault.REFUSED_BEFORE)
    scene.world.put(1)
    scene.world.clock.advance(5)
    scene.world.clock.on_sleep = lambda _: seen.append(scene.value("behind_seconds"))
    with pytest.raises(StoreUnavailable):
        worker.daemon.deliver()
    assert seen[0] == 5
    assert seen[-1] is not None
    assert seen[-1] > 60


def test_what_a_dead_processor_held_is_still_behind(scene: Scene) -> None:
    """Nobody else archives it; records that come again are not progress, a commit is."""
    worker = scene.world.holding(3)
    del worker
    scene.world.put(3)
    scene.world.holding(3)
    scene.watch.daemon_ended()
    scene.world.clock.advance(100)
    assert (scene.value("behind_seconds"), scene.value("buffer_bytes")) == (100, 0)
    heir = scene.world.started()
    assert scene.value("behind_seconds") == 100
    heir.daemon.deliver()
    heir.daemon.request_shutdown()
    assert scene.value("behind_seconds") == 0


def test_a_shard_that_is_another_workers_takes_its_gauges_along(scene: Scene) -> None:
    """By its processor's last line, or by the lease table; what was counted stays counted."""
    worker = scene.world.started()
    scene.world.put(3)
    worker.daemon.deliver()
    worker.daemon.lose_lease()
    assert (scene.value("behind_seconds"), scene.value("segments_total")) == (None, 0)
    scene.watch.note_readers(frozenset(), frozenset({SHARD}))
    assert scene.value("behind_seconds") == 0
    scene.watch.note_readers(frozenset(), frozenset())
    assert (scene.value("behind_seconds"), scene.task("shards")) == (None, 0)


def test_a_shard_that_was_opened_while_the_leases_were_read_stays(scene: Scene) -> None:
    """Its lease was not ours yet when the table was read; a processor that is frozen is not heard of for long."""
    scene.world.holding(3)
    scene.world.put(3)
    worker = scene.world.started()
    worker.daemon.deliver()
    scene.watch.note_readers(frozenset(), frozenset())
    scene.world.clock.advance(20)
    assert scene.value("behind_seconds") == 20
    scene.world.clock.advance(60)
    scene.watch.note_readers(frozenset(), frozenset())
    assert scene.value("behind_seconds") is None


def test_how_far_the_stream_is_ahead_is_what_the_daemon_says(scene: Scene) -> None:
    """Also of a shard on which nothing waits."""
    scene.world.started()
    scene.watch.note(ProcessorEvent(event="progress", shard=SHARD, behind_ms=42_000))
    assert scene.value("stream_behind_seconds") == 42


def test_checkpoints_are_counted_whatever_the_level(scene: Scene) -> None:
    """Their lines are for the supervisor alone."""
    worker = scene.world.started()
    scene.world.put(3)
    worker.daemon.deliver()
    worker.daemon.request_shutdown()
    assert scene.value("checkpoints_total") == 1


def test_a_lost_slot_is_counted(scene: Scene) -> None:
    """Another worker was first."""
    zombie = scene.world.started()
    scene.world.put(2)
    zombie.daemon.deliver()
    scene.world.archive_all()
    scene.world.clock.advance(61)
    zombie.daemon.tick()
    scene.world.clock.advance(10)
    zombie.daemon.tick()
    assert scene.value("slots_lost_total") == 1


def test_attempts_are_counted_and_take_their_time(scene: Scene) -> None:
    """A PUT that is refused once is sent twice; the wait is part of the latency."""
    scene.world.archive_all()
    worker = scene.world.started()
    worker.store.faults = PlannedFaults(None, Fault.REFUSED_BEFORE)
    scene.world.put(1)
    worker.daemon.deliver()
    worker.daemon.request_shutdown()
    assert scene.value("put_attempts_total") == 2
    assert scene.world.clock.slept
    assert scene.value("commit_seconds_sum") == pytest.approx(sum(scene.world.clock.slept), abs=0.01)


def test_what_kcl_skips_is_counted_by_kind_and_shard(scene: Scene) -> None:
    """The shard is empty where KCL's line does not name it."""
    scene.watch.skipped(KclEvent(Skipped.BATCH, "", shard=SHARD))
    scene.watch.skipped(KclEvent(Skipped.AGGREGATE_REST, ""))
    scene.watch.skipped(KclEvent(Skipped.AGGREGATE_REST, ""))
    assert scene.value("kcl_skipped_total", shard=SHARD, skipped="batch") == 1
    assert scene.value("kcl_skipped_total", shard="", skipped="aggregate_rest") == 2


def test_a_shard_without_a_reader_is_named(scene: Scene) -> None:
    """And counted; both go back when somebody reads it."""
    scene.watch.note_readers(frozenset({"other"}), frozenset({SHARD}))
    assert (scene.value("shard_without_reader", shard="other"), scene.value("shard_without_reader")) == (1, 0)
    assert scene.task("shards_without_reader") == 1
    scene.watch.note_readers(frozenset(), frozenset({SHARD}))
    assert scene.task("shards_without_reader") == 0


def test_the_task_itself(scene: Scene) -> None:
    """Whether a daemon runs, its restarts, and how processors ended."""
    assert (scene.task("daemon_up"), scene.task("stream_up"), scene.task("healthy")) == (0, 0, 0)
    scene.watch.daemon_started(polls_leases=False)
    assert (scene.task("daemon_up"), scene.task("stream_up"), scene.task("healthy")) == (1, 1, 1)
    scene.watch.restarted()
    scene.watch.killed()
    scene.watch.note(ProcessorEvent(event="processor_failed", exit_code=5))
    scene.watch.note(ProcessorEvent(event="id_conflict", shard=SHARD, records=7))
    assert scene.task("daemon_restarts_total") == 1
    assert scene.task("processors_killed_total") == 1
    assert scene.value("processor_failures_total", exit_code="5") == 1
    assert scene.value("id_conflicts_total") == 7


def test_two_streams_with_the_same_shard_are_told_apart() -> None:
    """Their ids begin with shardId-000000000000 in every stream; a series of one never moves that of the other."""
    clock = ManualClock()
    both = [StreamLabels("a-archive", "a"), StreamLabels("b-archive", "b")]
    watches = [Watch(clock, labels=labels) for labels in both]
    for watch in watches:
        watch.note(ProcessorEvent(event="shard_opened", shard=SHARD))
    watches[0].note(ProcessorEvent(event="slot_lost", shard=SHARD))
    seen = {
        tuple(sorted(sample.labels.items())): sample.value
        for watch in watches
        if watch.metrics is not None
        for family in watch.metrics.registry.collect()
        for sample in family.samples
        if sample.name == "minutebook_slots_lost_total"
    }
    assert seen == {
        (("application", "a-archive"), ("shard", SHARD), ("stream", "a")): 1,
        (("application", "b-archive"), ("shard", SHARD), ("stream", "b")): 0,
    }
