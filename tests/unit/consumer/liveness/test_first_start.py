"""A first start says what it waits for, and makes the table that KCL would wait for."""

import pytest
from structlog.testing import capture_logs

from consumer.leases.rows import Lease, LeaseRows
from consumer.liveness.first_start import FirstStart
from tests.fakes.lease_table import MemoryLeaseTable

_LINES = (
    b'{"message":"Initializing LeaseCoordinator attempt {}"}',
    b'{"message":"Lease table is still empty. Checking again in {} ms"}',
    b'{"message":"Lease table is still empty. Checking again in {} ms"}',
    b'{"message":"Worker {} is initiating the lease sync."}',
    b'{"message":"Waiting for Lease table GSI creation"}',
    b'{"message":"Initialization complete. Starting worker loop."}',
)


def _said(start: FirstStart) -> list[str]:
    with capture_logs() as logs:
        start.before_start()
        for line in _LINES:
            start.read_output(line)
    return [log["event"] for log in logs]


def test_what_it_waits_for_is_said_once_each() -> None:
    """At the beginning, and when KCL comes to it."""
    table = MemoryLeaseTable()
    assert _said(FirstStart(table, protected=True)) == ["first_start"] * 5
    assert (table.items, table.protected) == ({}, True)


def test_an_empty_table_is_a_first_start_too() -> None:
    """Somebody made the table, by a template for instance."""
    table = MemoryLeaseTable()
    table.create()
    assert _said(FirstStart(table)) == ["first_start"] * 5


def test_later_starts_say_nothing() -> None:
    """Their shards have rows."""
    assert _said(FirstStart(MemoryLeaseTable(Lease("shardId-000000000000", "TRIM_HORIZON")))) == []


def test_the_rows_of_a_later_start_are_passed_on() -> None:
    """Of a first one there are none."""
    passed: list[LeaseRows] = []
    lease = Lease("shardId-000000000000", "TRIM_HORIZON")
    for table in (MemoryLeaseTable(lease), MemoryLeaseTable()):
        FirstStart(table, on_rows=passed.append).before_start()
    assert passed == [LeaseRows({lease.shard_id: lease})]


def test_a_table_that_only_kcl_can_make_is_left_to_it() -> None:
    """With backups to a point in time, which it asks for as it makes the table."""
    table = MemoryLeaseTable()
    FirstStart(table, makes_table=False).before_start()
    assert table.items is None


def test_a_table_that_cannot_be_reached_prevents_no_start() -> None:
    """KCL says why it cannot start, if it cannot."""
    table = MemoryLeaseTable()
    table.unavailable = True
    assert _said(FirstStart(table)) == ["table_left_to_kcl"]


@pytest.mark.parametrize("protected", [True, False])
def test_the_table_is_protected_as_the_file_says(protected: bool) -> None:  # noqa: FBT001 - cases
    """LeaseTableDeletionProtectionEnabled."""
    table = MemoryLeaseTable()
    FirstStart(table, protected=protected).before_start()
    assert table.protected == protected
