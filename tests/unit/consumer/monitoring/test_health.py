"""What makes a task unhealthy, what does not, the one line that says so, and who is told by its settings."""

import errno
import json
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from consumer.child_logs.processor_log import ProcessorEvent
from consumer.monitoring.health import BLIND_SECONDS, SILENT_SECONDS
from consumer.monitoring.health_file import HealthFile, health_path, read_verdict
from consumer.monitoring.outputs import make_watch, watched
from consumer.monitoring.watch import Watch
from consumer.worker.state_folder import boot_id
from minutebook.clock import SystemClock
from tests.fakes.clock import START_MS, ManualClock
from tests.fakes.shard import SHARD
from tests.fakes.world import settings


class Scene:
    """A running task with one shard, and a limit of 100 s."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.watch = Watch(self.clock, limit_seconds=100)
        self.watch.daemon_started(polls_leases=False)
        self.say("shard_opened")

    def say(self, event: str, **fields: int) -> None:
        """Say a line of the shard's processor."""
        self.watch.note(ProcessorEvent(event=event, shard=SHARD, **fields))

    def after(self, seconds: float) -> tuple[bool, str]:
        """Return the verdict so much later."""
        self.clock.advance(seconds)
        return tuple(self.watch.verdict())


@pytest.fixture
def scene() -> Scene:
    """Return a healthy task."""
    return Scene()


def test_nothing_to_do_is_healthy(scene: Scene) -> None:
    """A quiet shard, and a worker without one."""
    scene.say("progress")
    assert scene.after(10) == (True, "healthy: 1 shard, nothing waits")
    scene.say("lease_lost")
    assert scene.after(1000) == (True, "healthy: 0 shards, nothing waits")


def test_a_processor_that_leaves_late_takes_nothing_along(scene: Scene) -> None:
    """The shard has another one by now, on this worker."""
    for pid in (1, 2):
        scene.say("shard_opened", pid=pid)
    scene.say("lease_lost", pid=1)
    assert scene.after(10) == (True, "healthy: 1 shard, nothing waits")
    scene.say("lease_lost", pid=2)
    assert scene.after(10) == (True, "healthy: 0 shards, nothing waits")


def test_a_record_that_waits_too_long_is_not(scene: Scene) -> None:
    """The line names the shard, the time and the limit; a commit mends it."""
    scene.say("progress", oldest_ms=START_MS)
    assert scene.after(100) == (True, "healthy: 1 shard, a record waits for its commit since 100 s")
    assert scene.after(1) == (False, f"unhealthy: nothing committed for 101 s (limit 100 s): {SHARD}")
    scene.say("segment_committed")
    scene.say("progress")
    assert scene.after(0)[0]


def test_catching_up_is_healthy(scene: Scene) -> None:
    """Records of hours ago, and a commit every minute: whoever killed this task would only make it later."""
    for hour in range(5):
        scene.say("progress", oldest_ms=START_MS - 9_000_000 + hour * 60_000)
        assert scene.after(90)[0]
        scene.say("segment_committed")


def test_records_that_come_again_are_no_progress(scene: Scene) -> None:
    """A crash and a redelivery do not make a task healthy; a later oldest record does."""
    scene.say("progress", oldest_ms=START_MS)
    scene.after(60)
    scene.watch.daemon_ended()
    assert scene.after(1) == (False, "unhealthy: the daemon does not run")
    scene.watch.daemon_started(polls_leases=False)
    scene.say("shard_opened")
    scene.say("progress", oldest_ms=START_MS - 5000)
    assert not scene.after(60)[0]
    scene.say("progress", oldest_ms=START_MS + 1)
    assert scene.after(60)[0]


@pytest.mark.parametrize("before", [None, START_MS - 5000, START_MS])
def test_what_comes_before_the_lost_record_is_no_progress(scene: Scene, before: int | None) -> None:
    """Crash after crash at one record: first an empty call, or what is archived already, and then that record."""
    scene.say("progress", oldest_ms=START_MS)
    for _ in range(2):
        scene.after(60)
        scene.watch.daemon_ended()
        scene.watch.daemon_started(polls_leases=False)
        scene.say("shard_opened")
        scene.watch.note(ProcessorEvent(event="progress", shard=SHARD, oldest_ms=before, behind_ms=9000))
        scene.say("progress", oldest_ms=START_MS)
    assert scene.after(0)[1] == f"unhealthy: nothing committed for 120 s (limit 100 s): {SHARD}"


@pytest.mark.parametrize(
    "passed",
    [
        ProcessorEvent(event="progress", shard=SHARD, oldest_ms=START_MS + 1),
        ProcessorEvent(event="progress", shard=SHARD, behind_ms=0),
        ProcessorEvent(event="segment_committed", shard=SHARD),
    ],
)
def test_a_lost_record_that_is_archived_after_all_is_forgotten(scene: Scene, passed: ProcessorEvent) -> None:
    """By the new processor, or by the dead one before its last word."""
    scene.say("progress", oldest_ms=START_MS)
    scene.after(60)
    scene.watch.daemon_ended()
    scene.watch.daemon_started(polls_leases=False)
    scene.say("shard_opened")
    scene.watch.note(passed)
    assert scene.after(60)[0]


def test_a_shard_that_is_not_called_is_not(scene: Scene) -> None:
    """KCL hangs, or Kinesis does not answer."""
    scene.say("progress")
    assert scene.after(SILENT_SECONDS)[0]
    assert scene.after(1) == (False, f"unhealthy: not called by KCL for 151 s: {SHARD}")
    scene.say("progress")
    assert scene.after(0)[0]


def test_a_shard_without_a_reader_is_not(scene: Scene) -> None:
    """Of many the first three are named: it is one line."""
    scene.watch.note_readers(frozenset(f"s-{number}" for number in range(5)), frozenset({SHARD}))
    assert scene.after(0) == (False, "unhealthy: without a reader: s-0, s-1, s-2 and 2 more")
    scene.watch.note_readers(frozenset(), frozenset({SHARD}))
    assert scene.after(0)[0]


def test_a_shard_that_another_worker_leaves_without_a_reader_is_said(scene: Scene) -> None:
    """To restart this task would not help: where many tasks see one such shard, all of them would be killed."""
    scene.watch.note_readers(frozenset({"s-1", "s-2"}), frozenset({SHARD}), frozenset({"s-1", "s-2"}))
    assert scene.after(0) == (
        True,
        "healthy: 1 shard, nothing waits; another worker leaves without a reader: s-1, s-2",
    )
    scene.watch.note_readers(frozenset({"s-1", "s-2"}), frozenset({SHARD}), frozenset({"s-1"}))
    assert scene.after(0) == (False, "unhealthy: without a reader: s-2")


def test_a_lease_table_that_nobody_can_read_is_not() -> None:
    """Or a daemon that never begins; without a watch of the leases nothing is said of them."""
    clock = ManualClock()
    watch = Watch(clock)
    watch.daemon_started(polls_leases=True)
    clock.advance(BLIND_SECONDS + 1)
    assert tuple(watch.verdict()) == (False, "unhealthy: the lease table was not read for 301 s")
    watch.note_readers(frozenset(), None)
    assert not watch.verdict().is_healthy
    watch.note_readers(frozenset(), frozenset())
    assert watch.verdict().is_healthy


def test_a_large_lease_table_is_looked_at_less_often() -> None:
    """Every three minutes: a look that comes as late as the ones before it is not missed."""
    clock = ManualClock()
    watch = Watch(clock)
    watch.daemon_started(polls_leases=True)
    clock.advance(180)
    watch.note_readers(frozenset(), frozenset())
    clock.advance(BLIND_SECONDS + 200)
    assert watch.verdict().is_healthy
    clock.advance(60)
    assert not watch.verdict().is_healthy


def test_the_file_says_what_the_task_says(scene: Scene, tmp_path: Path) -> None:
    """To another process on the host."""
    path = health_path(tmp_path, "w1")
    HealthFile(path, scene.clock).write(scene.watch.verdict())
    assert read_verdict(path, scene.clock.monotonic()) == scene.watch.verdict()


def test_a_file_that_nobody_writes_any_more_is_unhealthy(scene: Scene, tmp_path: Path) -> None:
    """The supervisor was killed, or the host was started again; or there was none, or it has ended."""
    path = health_path(tmp_path, "w1")
    assert not read_verdict(path, 0).is_healthy
    file = HealthFile(path, scene.clock)
    file.write(scene.watch.verdict())
    now = scene.clock.monotonic()
    verdicts = [read_verdict(path, at) for at in (now + 30, now + 31, now - 1)]
    assert [verdict.is_healthy for verdict in verdicts] == [True, False, False]
    assert "no daemon runs" in verdicts[1].sentence
    file.remove()
    assert not read_verdict(path, now).is_healthy
    path.write_text("{")
    assert "cannot be read" in read_verdict(path, now).sentence


def test_a_file_of_an_earlier_start_of_the_host_is_unhealthy(scene: Scene, tmp_path: Path) -> None:
    """Its time was counted anew: a host that crashes again is as old as it was at the last write."""
    path = health_path(tmp_path, "w1")
    HealthFile(path, scene.clock).write(scene.watch.verdict())
    now = scene.clock.monotonic() + 5
    assert "since the host was started" not in read_verdict(path, now).sentence
    path.write_text(path.read_text().replace(boot_id(), "another start"))
    verdict = read_verdict(path, now)
    assert (verdict.is_healthy, "since the host was started" in verdict.sentence) == (False, True)


def test_a_file_that_cannot_be_removed_does_not_fail_the_end(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that has become read-only meanwhile: a stop in order stays one."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "unlink", refuse)
    with capture_logs() as logs:
        HealthFile(health_path(tmp_path, "w1"), scene.clock).remove()
    assert [log["event"] for log in logs] == ["health_not_removed"]


@pytest.mark.parametrize(
    ("changes", "limit"),
    [
        ({}, 300),
        ({"linger_seconds": 600, "max_segment_age_seconds": 2000}, 1320),
        ({"linger_seconds": 600, "max_segment_age_seconds": 2000, "flush_seconds": 1}, 300),
        ({"max_uncommitted_seconds": 90}, 90),
    ],
)
def test_the_limit_is_what_is_set_else_beyond_what_is_held_anyway(changes: dict[str, float], limit: float) -> None:
    """Nobody's task turns unhealthy for a long `lingerSeconds`."""
    clock = ManualClock()
    watch = make_watch(settings(**changes), clock)
    watch.daemon_started(polls_leases=False)
    watch.note(ProcessorEvent(event="shard_opened", shard=SHARD))
    watch.note(ProcessorEvent(event="progress", shard=SHARD, oldest_ms=START_MS))
    clock.advance(limit)
    assert watch.verdict().is_healthy
    clock.advance(1)
    assert not watch.verdict().is_healthy


def test_counters_are_kept_where_somebody_is_to_see_them() -> None:
    """A task without a port and without lines needs no Prometheus."""
    clock = ManualClock()
    assert make_watch(settings(), clock).metrics is None
    assert make_watch(settings(metrics_port=1), clock).metrics is not None
    assert make_watch(settings(metrics="emf"), clock).metrics is not None


def test_what_a_task_shows_has_the_names_of_its_settings() -> None:
    """The application's and the stream's, on every series."""
    watch = make_watch(settings(metrics_port=1), ManualClock())
    assert watch.metrics is not None
    labels = {
        (sample.labels["application"], sample.labels["stream"])
        for family in watch.metrics.registry.collect()
        for sample in family.samples
    }
    assert labels == {(settings().application_name, settings().stream_name)}


def test_a_task_is_told_of_while_it_runs(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """By its health files at once, which go with it, and by a last line of metrics on stdout."""
    given, files = settings(metrics="emf"), [tmp_path / "w1.health", tmp_path / "w1.copy"]
    clock = SystemClock()
    watch = make_watch(given, clock)
    with watched(watch, given, files, "w1", clock):
        assert all(file.exists() for file in files)
    assert not any(file.exists() for file in files)
    (line,) = capfdbinary.readouterr().out.splitlines()
    entry = json.loads(line)
    assert (entry["event"], entry["Application"], entry["Worker"]) == ("metrics", "minutebook-test", "w1")
    assert entry["Stream"] == given.stream_name
