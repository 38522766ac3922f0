"""A dead leader's lock is not waited for anew after each restart of `consume`."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from consumer.leases.rows import LeaderLock
from consumer.liveness.lock_memory import LockMemory
from consumer.liveness.poll import POLL_SECONDS, ReaderPoll
from consumer.liveness.rules import LOCK_SECONDS, ReaderWatch, SeenLock
from consumer.worker.state_folder import boot_id
from tests.fakes.clock import ManualClock
from tests.fakes.lease_table import MemoryLeaseTable

SEEN = SeenLock(LeaderLock("w2", "v1"), 1_000.0)


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
