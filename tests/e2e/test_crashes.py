"""SIGKILL in the middle of KPL aggregates, SIGTERM, a lost lease table, a deleted stream.

One application lives through all of it, played once; each test states one thing that must be true of it.

    minutebook consume   |--aggregate..X processor--aggregate..X daemon--aggregate..X fork server--records--SIGTERM
    the daemon alone                                  (lease table deleted)  |--------X stream deleted
"""

import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from demo.readback import Verdict
from minutebook.clock import SystemClock
from minutebook.format.position import Position
from tests.e2e.harness import Application
from tests.e2e.leases import LeaseRow
from tests.e2e.worker import Worker, is_running, kill
from tests.witness.events import Event
from tests.witness.readback import assert_exactly_once
from tests.witness.waiting import wait_for_an_early_second, wait_until

if TYPE_CHECKING:
    from demo.embedded import EmbeddedAws
    from demo.processes import Process

_SHARD = "shardId-000000000000"
_AGGREGATE = 50
_LEADER_LOCK_SECONDS = 120
_CLOCK = SystemClock()


@dataclass(kw_only=True)
class Kill:
    """One SIGKILL: the checkpoint written before it, the opening after it, and what it took to come back."""

    checkpoint: Position
    reopened: Event
    seconds_to_commit: float


@dataclass(kw_only=True)
class Crashes:
    """The first life: under the supervisor, until SIGTERM."""

    app: Application
    child: Kill
    daemon: Kill
    fork_server: Kill
    exit_code: int
    shutdown_commits: list[Event]
    left_running: list[int]
    checkpoint: str
    last: Position
    """The last record sent."""
    verdict: Verdict
    objects: dict[str, str]

    @property
    def kills(self) -> list[Kill]:
        """In their order."""
        return [self.child, self.daemon, self.fork_server]


@pytest.fixture(scope="module")
def crashes(embedded_aws: "EmbeddedAws", tmp_path_factory: pytest.TempPathFactory) -> Crashes:
    """Play the first life."""
    # Segments of a few records, so that they end within the aggregates; a checkpoint in every callback.
    app = Application(
        embedded_aws, tmp_path_factory.mktemp("crashes"), maxSegmentBytes=900, checkpointIntervalSeconds=0
    )
    app.seed_leases({_SHARD: "w1"})
    with app.consume() as worker:
        child = _kill_within_an_aggregate(app, worker, worker.processors)
        daemon = _kill_within_an_aggregate(app, worker, worker.daemons)
        fork_server = _kill_within_an_aggregate(app, worker, worker.fork_servers)
        wait_for_an_early_second()
        places = app.producer.put_numbered(30, size=100)
        # All but the last segment's records are committed: those are held when the stop comes.
        worker.events.wait("segment_committed", where=lambda event: _last(event) >= places[-10].position)
        mark = worker.events.mark()
        wait_until(lambda: len(_pids(worker)) == 4, "what was killed is gone: one process of each kind is left")
        running = _pids(worker)
        worker.terminate()
        code = worker.wait()
        commits = worker.events.all("segment_committed", since=mark, reason="shutdown")
        left = [pid for pid in running if is_running(pid)]
    return Crashes(
        app=app,
        child=child,
        daemon=daemon,
        fork_server=fork_server,
        exit_code=code,
        shutdown_commits=commits,
        left_running=left,
        checkpoint=app.leases()[_SHARD].checkpoint,
        last=app.producer.last()[_SHARD],
        verdict=app.verdict(),
        objects=app.objects(),
    )


@dataclass(kw_only=True)
class Rebirth:
    """The second life: the lease tables are gone, and the daemon runs without our supervisor."""

    opened: Event
    objects: dict[str, str]
    verdict: Verdict
    before_end: LeaseRow
    """The lease row just before the stream was deleted."""
    last_words: Event
    exit_code: int
    after_end: LeaseRow


@pytest.fixture(scope="module")
def rebirth(crashes: Crashes) -> Rebirth:
    """Play the second life."""
    app = crashes.app
    app.drop_lease_tables()
    tail = app.producer.last()[_SHARD]
    with app.daemon("w2", maxSegmentBytes=2500, flushSeconds=1) as worker:
        opened = worker.events.wait("shard_opened")
        worker.events.wait("checkpoint_written", position=str(tail))
        objects = app.objects()
        tail = app.producer.put_numbered(5)[-1].position
        worker.events.wait("checkpoint_written", position=str(tail))
        before = app.leases()[_SHARD]
        app.kinesis.delete_stream(StreamName=app.name)
        last_words = worker.events.wait("processor_failed")
        code = worker.wait()
    return Rebirth(
        opened=opened,
        objects=objects,
        verdict=app.verdict(),
        before_end=before,
        last_words=last_words,
        exit_code=code,
        after_end=app.leases()[_SHARD],
    )


def test_every_record_is_archived_once(crashes: Crashes) -> None:
    """After all kills: nothing lost, nothing twice, every byte and every partition key right, whole chains."""
    assert_exactly_once(crashes.verdict)


def test_a_checkpoint_inside_an_aggregate_names_its_sub_sequence(crashes: Crashes) -> None:
    """All kills came while the checkpoint lay between two user records of one Kinesis record."""
    assert all(0 < kill.checkpoint.sub < _AGGREGATE - 1 for kill in crashes.kills)


def test_the_next_processor_goes_on_after_the_checkpoint(crashes: Crashes) -> None:
    """`shard_opened` names the checkpoint, sub-sequence number included."""
    for crash in crashes.kills:
        assert crash.reopened["after"] == str(crash.checkpoint)


def test_recovery_takes_seconds(crashes: Crashes) -> None:
    """From SIGKILL to the next commit: nobody waited for the dead leader's lock. The figures are printed."""
    seconds = [kill.seconds_to_commit for kill in crashes.kills]
    print("from SIGKILL to the next commit: processor, daemon, fork server:", [round(took, 1) for took in seconds])  # noqa: T201
    assert max(seconds) < _LEADER_LOCK_SECONDS


def test_sigterm_commits_what_is_held(crashes: Crashes) -> None:
    """The stop commits the open segment, whose records were in no object before."""
    assert len(crashes.shutdown_commits) == 1


def test_sigterm_checkpoints_the_last_record(crashes: Crashes) -> None:
    """After the stop the lease row is at the end of the archive: the next start repeats nothing."""
    assert crashes.checkpoint == str(crashes.last)


def test_sigterm_ends_the_supervisor_with_0(crashes: Crashes) -> None:
    """Asked to stop and stopped in order."""
    assert crashes.exit_code == 0


def test_no_process_outlives_the_supervisor(crashes: Crashes) -> None:
    """Neither the daemon, nor the fork server, nor a stub, nor a processor is left."""
    assert crashes.left_running == []


def test_a_start_without_lease_rows_begins_at_the_oldest_record(rebirth: Rebirth) -> None:
    """The premise of the next test: KCL made a new row and knows no checkpoint."""
    assert rebirth.opened["after"] == "TRIM_HORIZON"


def test_a_lost_lease_table_adds_nothing(crashes: Crashes, rebirth: Rebirth) -> None:
    """Everything is delivered again, and the list of objects and their ETags stays the same."""
    assert rebirth.objects == crashes.objects


def test_the_archive_goes_on_after_a_lost_lease_table(rebirth: Rebirth) -> None:
    """New records follow the old chain; still nothing is lost or doubled."""
    assert_exactly_once(rebirth.verdict)


def test_a_false_shard_end_is_not_believed(rebirth: Rebirth) -> None:
    """KCL takes a deleted stream for the shard's end; the lease row keeps its checkpoint, never SHARD_END."""
    assert rebirth.after_end.checkpoint == rebirth.before_end.checkpoint


def test_a_false_shard_end_ends_the_process_loudly(rebirth: Rebirth) -> None:
    """The processor names the next step, and the daemon exits 1."""
    assert rebirth.last_words["next_step"]
    assert rebirth.exit_code == 1


def _kill_within_an_aggregate(app: Application, worker: Worker, victims: Callable[[], list["Process"]]) -> Kill:
    """Put an aggregate, wait for a checkpoint inside it, SIGKILL, wait until its rest is committed."""
    wait_for_an_early_second()
    mark = worker.events.mark()
    places = app.producer.put_numbered_aggregate(_AGGREGATE)
    sequence = places[0].position.sequence
    worker.events.wait(
        "checkpoint_written",
        since=mark,
        where=lambda event: Position.parse(event["position"]).sequence == sequence,
    )
    victim = victims()[0]
    begun = _CLOCK.monotonic()
    kill(victim, signal.SIGKILL)
    killed = worker.events.mark()
    reopened = worker.events.wait("shard_opened", since=killed)
    checkpoint = Position.parse(worker.events.all("checkpoint_written", before=reopened)[-1]["position"])
    app.producer.put_numbered(10, size=100)
    worker.events.wait("segment_committed", since=killed, where=lambda event: _last(event) >= places[-1].position)
    return Kill(checkpoint=checkpoint, reopened=reopened, seconds_to_commit=_CLOCK.monotonic() - begun)


def _pids(worker: Worker) -> list[int]:
    """Return the process ids of the daemon, the fork server, the stub and the processor."""
    kinds = (worker.daemons(), worker.fork_servers(), worker.stubs(), worker.processors())
    return [process.pid for kind in kinds for process in kind]


def _last(event: Event) -> Position:
    return Position.parse(event["last"])
