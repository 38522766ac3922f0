"""A supervisor gives its dead daemon's leader lock back, and never fails over it."""

import pytest
from structlog.testing import capture_logs

from consumer.leases.hand_over import release_own_lock
from tests.fakes.lease_table import MemoryLeaseTable


def _table(leader: str | None) -> MemoryLeaseTable:
    table = MemoryLeaseTable()
    table.leader_owner = leader
    return table


def test_the_own_lock_is_released() -> None:
    """Else shards without a reader wait for two minutes after every crash of the leader."""
    table = _table("w1")
    with capture_logs() as logs:
        release_own_lock(table, "w1")
    assert (table.leader_owner, [log["event"] for log in logs]) == (None, ["leader_lock_released"])


@pytest.mark.parametrize("leader", ["w2", None])
def test_nobody_elses_lock_is_touched(leader: str | None) -> None:
    """And nothing is said of it."""
    table = _table(leader)
    with capture_logs() as logs:
        release_own_lock(table, "w1")
    assert (table.leader_owner, logs) == (leader, [])


def test_an_unreachable_table_prevents_no_start() -> None:
    """The lock runs out by itself."""
    table = _table("w1")
    table.unavailable = True
    with capture_logs() as logs:
        release_own_lock(table, "w1")
    assert [log["event"] for log in logs] == ["leader_lock_kept"]
