"""What follows from what the watch finds: an error that names the shard, a restart, or a lock that is removed."""

import threading
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from consumer.leases.rows import LeaderLock, Lease
from consumer.liveness.lock_memory import LockMemory
from consumer.liveness.poll import POLL_SECONDS, ReaderPoll
from consumer.liveness.rules import LOCK_SECONDS, ReaderWatch, SeenLock
from consumer.worker.state_folder import boot_id
from minutebook.errors import SafetyRefusal
from tests.fakes.clock import ManualClock
from tests.fakes.lease_table import MemoryLeaseTable
from tests.fakes.shard import SHARD

INITIALISED = b'{"message":"Initialization complete. Starting worker loop."}\n'
SEEN = SeenLock(LeaderLock("w2", "v1"), 1_000.0)


class Scene:
    """A worker `w1` that looks every 15 s; its daemon renews its lease, or not."""

    def __init__(self, *, initialised: bool = True) -> None:
        self.clock = ManualClock()
        self.table = MemoryLeaseTable(Lease(SHARD, "TRIM_HORIZON", owner="w1"))
        self.unread: list[int] = []
        self.held: list[frozenset[str] | None] = []
        self.others: frozenset[str] = frozenset()
        self.opened: frozenset[str] = frozenset()
        self.silences: dict[str, float] = {}
        self.poll = ReaderPoll(
            ReaderWatch("w1"),
            self.table,
            self.clock,
            on_poll=self._take,
        )
        self.logs: list[Any] = []
        if initialised:
            self.poll.read_output(INITIALISED)

    def run(self, seconds: float, *, renews: bool = True) -> None:
        """Look for so long."""
        until = self.clock.monotonic() + seconds
        with capture_logs() as logs:
            while self.clock.monotonic() < until:
                self.poll.poll(lambda: self.opened, silences=lambda: self.silences)
                self.clock.advance(POLL_SECONDS)
                if renews:
                    self.renew()
        self.logs += logs

    def _take(self, unread: frozenset[str], held: frozenset[str] | None, others: frozenset[str]) -> None:
        self.unread.append(len(unread))
        self.held.append(held)
        self.others = others

    def renew(self) -> None:
        """Renew the lease."""
        self.table.seed(Lease(SHARD, "TRIM_HORIZON", int(self.clock.monotonic()), owner="w1"))


def test_a_shard_without_a_reader_is_named_once_and_dooms_the_daemon() -> None:
    """Within 150 s, with the way out, and in the metric."""
    scene = Scene()
    scene.run(150)
    (event,) = scene.logs
    assert (event["event"], event["log_level"], event["shard"]) == ("shard_without_reader", "error", SHARD)
    assert event["next_step"]
    assert scene.poll.kill_reason is not None
    assert scene.poll.kill_reason.event == "shard_without_reader"
    assert scene.unread[-1] == 1


def test_a_processor_that_hangs_is_named_each_time_it_does() -> None:
    """In the log, in the metric and in the health check, as long as it says nothing; the daemon goes on."""
    scene = Scene()
    scene.opened = frozenset({SHARD})
    for silence in (5, 125, 140, 5, 125):
        scene.silences = {SHARD: silence}
        scene.run(15)
    assert [event["shard"] for event in scene.logs] == [SHARD, SHARD]
    assert {(event["event"], event["log_level"]) for event in scene.logs} == {("shard_without_reader", "error")}
    assert scene.unread == [0, 1, 1, 0, 1]
    assert scene.poll.kill_reason is None


def test_a_restart_does_not_hide_that_a_shard_has_no_reader() -> None:
    """The next daemon has its time; the shard is without a reader until somebody opens it, or takes its lease."""
    scene = Scene()
    scene.run(150)
    scene.poll.before_start()
    scene.run(30)
    assert (scene.poll.kill_reason, scene.unread[-1]) == (None, 1)
    scene.opened = frozenset({SHARD})
    scene.run(15)
    assert scene.unread[-1] == 0


def test_the_leader_answers_for_what_nobody_has_opened() -> None:
    """Another worker tells of it, and is not to blame; who has the lease is, and everybody where nobody leads."""
    scene = Scene()
    scene.opened = frozenset({SHARD})
    scene.table.seed(Lease("free", "TRIM_HORIZON"))
    blamed_on_others = []
    for leader in (None, "w2", "w1", "w2"):
        scene.table.leader_owner = leader
        scene.run(15 if blamed_on_others else 150)
        blamed_on_others.append(scene.others)
        assert scene.unread[-1] == 1
    free = frozenset({"free"})
    assert blamed_on_others == [frozenset(), free, frozenset(), free]
    scene.table.seed(Lease("free", "TRIM_HORIZON", owner="w1"))
    scene.run(15)
    assert (scene.unread[-1], scene.others) == (1, frozenset())


def test_the_shards_of_this_worker_are_told() -> None:
    """Not those of others, nor those that have ended; nothing while the daemon makes its tables."""
    scene = Scene(initialised=False)
    scene.run(15)
    scene.poll.read_output(INITIALISED)
    scene.table.seed(Lease("ended", "SHARD_END", owner="w1"))
    scene.table.seed(Lease("other", "TRIM_HORIZON", owner="w2"))
    scene.run(15)
    assert scene.held == [None, frozenset({SHARD})]


def test_a_log_configuration_without_kcls_line_does_not_blind_the_watch() -> None:
    """Else nobody would miss a reader, and a task that is well would be unhealthy: an open shard says enough."""
    scene = Scene(initialised=False)
    scene.opened = frozenset({SHARD})
    scene.run(15)
    assert scene.held == [frozenset({SHARD})]
    scene.opened = frozenset()
    scene.run(150)
    assert (scene.poll.kill_reason is not None, scene.unread[-1]) == (True, 1)


def test_a_shard_that_is_read_is_no_matter() -> None:
    """Nothing is said, nothing is done."""
    scene = Scene()
    scene.opened = frozenset({SHARD})
    scene.run(600)
    assert (scene.logs, scene.poll.kill_reason, set(scene.unread)) == ([], None, {0})


def test_a_daemon_that_is_not_initialised_has_time() -> None:
    """KCL makes its tables and their index first, which may take minutes."""
    scene = Scene(initialised=False)
    scene.run(600)
    assert scene.poll.kill_reason is None


@pytest.mark.parametrize("initialised", [False, True])
def test_a_dead_lock_is_removed_under_its_version(*, initialised: bool) -> None:
    """By a worker that is not elected because of it, too; it is given time to be wrong."""
    scene = Scene(initialised=initialised)
    scene.opened = frozenset({SHARD})
    scene.table.leader_owner = "gone"
    scene.run(105)
    assert scene.table.leader_owner == "gone"
    scene.run(30)
    assert scene.table.leader_owner is None
    assert [event["event"] for event in scene.logs] == ["leader_lock_dead"]


def test_a_lock_that_its_holder_moves_stays() -> None:
    """Between look and delete, too: the delete names the version that did not move."""
    scene = Scene()
    scene.opened = frozenset({SHARD})
    scene.table.leader_owner = "w2"
    for number in range(20):
        scene.table.leader_version = str(number)
        scene.run(60)
    assert scene.table.leader_owner == "w2"
    assert not scene.table.release_leader("w2", "an older one")


def test_a_lock_that_moved_after_the_look_stays() -> None:
    """Its holder lives: the delete names the version that was seen."""
    scene = Scene()
    scene.opened = frozenset({SHARD})
    scene.table.leader_owner = "slow"
    asked = iter(range(1000))

    def move_late() -> None:
        # Each look asks for the lock, for the rows, and then removes the lock: its holder is faster, once.
        if scene.clock.monotonic() - began > LOCK_SECONDS and next(asked) == 1:
            scene.table.leader_version = "2"

    began = scene.clock.monotonic()
    scene.table.on_ask = move_late
    scene.run(LOCK_SECONDS + 2 * POLL_SECONDS)
    assert scene.table.leader_owner == "slow"


def test_a_lock_is_looked_at_when_it_would_be_dead() -> None:
    """Not up to a poll later: a lost host's shards have waited long enough."""
    scene = Scene()
    scene.opened = frozenset({SHARD})
    scene.table.leader_owner = "gone"
    began, wait = scene.clock.monotonic(), 0.0
    while scene.table.leader_owner is not None:
        scene.clock.advance(wait)
        scene.renew()
        wait = scene.poll.poll(lambda: scene.opened)
        assert 0 < wait <= POLL_SECONDS
    assert scene.clock.monotonic() - began <= LOCK_SECONDS + 1


def test_the_next_daemon_begins_anew() -> None:
    """Where nobody else has its name."""
    scene = Scene()
    scene.run(150)
    scene.poll.before_start()
    assert scene.poll.kill_reason is None
    assert scene.clock.slept == [pytest.approx(10 / 3 + 1)]
    scene.run(100)
    assert scene.poll.kill_reason is None


def test_another_daemon_with_this_worker_id_is_refused() -> None:
    """It renews the leases while ours is dead; going on would let them flicker for ever."""
    scene = Scene()
    scene.run(150)
    scene.clock.on_sleep = lambda _: scene.renew()
    scene.clock.advance(5)
    with pytest.raises(SafetyRefusal, match="another daemon uses the worker id w1") as caught:
        scene.poll.before_start()
    assert "workerId" in caught.value.next_step


def test_a_first_start_asks_nobody() -> None:
    """It costs no time where there is no doubt."""
    scene = Scene()
    scene.poll.before_start()
    assert scene.clock.slept == []


def test_a_table_that_cannot_be_read_is_said_once() -> None:
    """It goes on looking, and says so again after it could see."""
    scene = Scene()
    for unavailable in (True, True, False, True):
        scene.table.unavailable = unavailable
        with capture_logs() as logs:
            assert scene.poll.step(frozenset) == POLL_SECONDS
        scene.logs += logs
    assert [event["event"] for event in scene.logs] == ["leases_unread"] * 2
    assert scene.poll.kill_reason is None


def test_a_watch_that_fails_is_not_silent() -> None:
    """A defect of ours ends the daemon's run, with the stack."""

    def fail() -> frozenset[str]:
        raise ZeroDivisionError("a defect")

    scene = Scene()
    with capture_logs() as logs:
        scene.poll.step(fail)
    assert [(event["event"], event["log_level"]) for event in logs] == [("reader_watch_failed", "error")]
    assert scene.poll.kill_reason is not None
    assert "a defect" in scene.poll.kill_reason.error


def test_the_thread_looks_until_it_is_stopped() -> None:
    """At once, and every `poll_seconds`."""
    looked = threading.Event()
    scene = Scene()
    scene.table.on_ask = looked.set
    scene.poll.start(frozenset)
    assert looked.wait(20)
    scene.poll.stop()
    assert not [thread for thread in threading.enumerate() if thread.name == "reader-watch"]


def test_what_is_kept_is_recalled(tmp_path: Path) -> None:
    """By the next supervisor on this host."""
    LockMemory(tmp_path / "w1.leader", "boot").keep(SEEN)
    assert LockMemory(tmp_path / "w1.leader", "boot").recall(1_001) == SEEN
    assert [path.name for path in tmp_path.iterdir()] == ["w1.leader"]


@pytest.mark.parametrize(
    ("boot", "now"),
    [("another", 2_000.0), ("", 2_000.0), ("boot", 999.0)],
    ids=["another start of the host", "a host without a name for its start", "a time that lies ahead"],
)
def test_seconds_of_another_start_count_for_nothing(tmp_path: Path, boot: str, now: float) -> None:
    """A lock is removed for what was seen, never for what a clock says."""
    LockMemory(tmp_path / "w1.leader", "boot").keep(SEEN)
    assert LockMemory(tmp_path / "w1.leader", boot).recall(now) is None


@pytest.mark.parametrize("content", [b"", b"{", b"{}", b"[1]", b"\xff"])
def test_what_cannot_be_understood_is_nothing(tmp_path: Path, content: bytes) -> None:
    """A file that was cut off costs two minutes."""
    (tmp_path / "w1.leader").write_bytes(content)
    assert LockMemory(tmp_path / "w1.leader", "boot").recall(2_000) is None


def test_a_disk_that_takes_no_file_is_told_once(tmp_path: Path) -> None:
    """And stops nothing."""
    memory = LockMemory(tmp_path / "missing" / "w1.leader", "boot")
    with capture_logs() as logs:
        memory.keep(SEEN)
        memory.keep(SEEN._replace(since=2_000.0))
    assert [event["event"] for event in logs] == ["leader_lock_not_remembered"]


def test_this_host_has_a_name_for_its_start(tmp_path: Path) -> None:
    """Else nothing would ever be remembered, and nobody would notice."""
    LockMemory(tmp_path / "w1.leader", boot_id()).keep(SEEN)
    assert LockMemory(tmp_path / "w1.leader", boot_id()).recall(2_000) == SEEN


def test_a_dead_lock_is_removed_in_time_whatever_is_restarted(tmp_path: Path) -> None:
    """A new supervisor every 40 s: each goes on where the last one ended."""
    clock, table = ManualClock(), MemoryLeaseTable()
    table.leader_owner = "w2"
    began = clock.monotonic()
    while table.leader_owner is not None and clock.monotonic() - began < 600:
        memory = LockMemory(tmp_path / "w1.leader", "boot")
        poll = ReaderPoll(ReaderWatch("w1"), table, clock, memory=memory)
        for _ in range(3):
            poll.poll(frozenset)
            clock.advance(POLL_SECONDS)
    assert clock.monotonic() - began <= LOCK_SECONDS + 4 * POLL_SECONDS


def test_a_lock_that_moves_meanwhile_is_alive(tmp_path: Path) -> None:
    """Its version is another one by then."""
    clock, table = ManualClock(), MemoryLeaseTable()
    table.leader_owner = "w2"
    for number in range(20):
        table.leader_version = str(number)
        memory = LockMemory(tmp_path / "w1.leader", "boot")
        ReaderPoll(ReaderWatch("w1"), table, clock, memory=memory).poll(frozenset)
        clock.advance(LOCK_SECONDS)
    assert table.leader_owner == "w2"
