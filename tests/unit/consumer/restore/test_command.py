"""`restore`: which rows are kept or replaced, how they are written, and whom that would disturb."""

import pytest

from consumer.leases.rows import Lease, LeaseRows
from consumer.restore.command import (
    Parts,
    apply_plan,
    check_nobody_lives,
    choose_shards,
    rebuild,
    refuse_unreadable,
)
from consumer.restore.plan import RowChange
from minutebook.errors import SafetyRefusal, SettingsError, TableUnavailable
from minutebook.format.minute import parse_iso_time
from minutebook.format.position import Position
from minutebook.terminal import TerminalConsole
from tests.fakes.clock import START_MS, ManualClock
from tests.fakes.lease_table import MemoryLeaseTable
from tests.fakes.restore_scene import NOW, S0, S1, S2, S3, RestoreScene
from tests.fakes.shard import FakeShard
from tests.fakes.stream import FakeStream


def test_a_row_that_is_right_is_kept() -> None:
    """The fewer writes the better."""
    archive = RestoreScene(S0)
    lasts = archive.begun(S0, [NOW])
    row = archive.plan(Lease(S0, lasts[-1], 9))[S0]
    assert (row.action, row.lease.counter) == (RowChange.KEEP, 9)


def test_a_right_row_of_a_dead_owner_is_freed() -> None:
    """Else the next worker waits until KCL takes the owner for dead."""
    archive = RestoreScene(S0)
    lasts = archive.begun(S0, [NOW])
    row = archive.plan(Lease(S0, lasts[-1], 9, "w1"))[S0]
    assert (row.action, row.lease.counter, row.lease.owner) == (RowChange.REPLACE, 10, None)


def test_a_row_that_is_wrong_is_replaced_with_a_higher_counter() -> None:
    """Whatever a dead owner still sends fails on its old counter."""
    archive = RestoreScene(S0)
    archive.begun(S0, [NOW])
    row = archive.plan(Lease(S0, "TRIM_HORIZON", 9, "w1"))[S0]
    assert (row.action, row.lease.counter, row.lease.owner) == (RowChange.REPLACE, 10, None)


def test_a_row_ahead_of_the_archive_goes_back_and_says_so() -> None:
    """Its records are nowhere: reading them again is the only way."""
    archive = RestoreScene(S0)
    archive.begun(S0, [NOW])
    assert "goes back" in archive.plan(Lease(S0, Position(5000), 9))[S0].warnings[0]


def test_the_rows_are_written() -> None:
    """And a second plan finds nothing to do."""
    archive = RestoreScene(S0, S1)
    archive.begun(S0, [NOW])
    table = MemoryLeaseTable()
    assert apply_plan(table, list(archive.plan().values())) == 2
    rows = table.read()
    assert rows is not None
    assert {row.action for row in archive.plan(*rows.leases.values()).values()} == {RowChange.KEEP}
    assert table.leader_released


@pytest.mark.parametrize(("apply", "rows"), [(False, []), (True, [S0, S1])], ids=["plan", "apply"])
def test_only_apply_writes_rows(*, apply: bool, rows: list[str]) -> None:
    """A plan neither makes the table nor waits to see whether a worker lives."""
    archive = RestoreScene(S0, S1)
    archive.begun(S0, [NOW])
    table, clock, console = MemoryLeaseTable(), ManualClock(), TerminalConsole(width=200)
    parts = Parts(table, archive.facts, clock, 10, console)
    with console.capture() as shown:
        written = rebuild(parts, apply=apply, shard_ids=())
    assert (written, table.puts, table.items is not None, clock.slept != []) == (len(rows), rows, apply, apply)
    assert S0 in shown.get()


def test_a_crash_between_two_rows_is_mended_by_running_again() -> None:
    """The rows written are right, the rest is written by the second run."""
    archive = RestoreScene(S0, S1, S2)
    archive.begun(S0, [NOW])
    table = MemoryLeaseTable()

    def crash(shard_id: str) -> None:
        if shard_id == S1:
            raise TableUnavailable("crash")

    table.before_put = crash
    with pytest.raises(TableUnavailable):
        apply_plan(table, list(archive.plan().values()))
    table.before_put = None
    rows = table.read()
    assert rows is not None
    assert apply_plan(table, list(archive.plan(*rows.leases.values()).values())) == 2
    assert table.puts == [S0, S1, S2]


def test_a_worker_that_starts_meanwhile_keeps_its_row() -> None:
    """The condition of the put fails, and the command refuses."""
    archive = RestoreScene(S0)
    archive.begun(S0, [NOW])
    seen = Lease(S0, "TRIM_HORIZON", 9, "w1")
    table = MemoryLeaseTable(seen)
    table.before_put = lambda _: table.seed(seen._replace(counter=10))
    with pytest.raises(SafetyRefusal, match="changed while"):
        apply_plan(table, list(archive.plan(seen).values()))
    assert table.puts == []


def test_a_living_worker_is_refused() -> None:
    """With its name and what it did."""
    lease = Lease(S0, "TRIM_HORIZON", 9, "w1")
    with pytest.raises(SafetyRefusal, match=f"w1 renewed {S0}"):
        check_nobody_lives(LeaseRows({S0: lease}), LeaseRows({S0: lease._replace(counter=10)}))


def test_a_row_that_nobody_can_read_is_refused() -> None:
    """It could be neither replaced on a condition nor left beside the new ones."""
    with pytest.raises(SafetyRefusal, match="leaseCounter"):
        refuse_unreadable(LeaseRows({}, ("lease row of x: leaseCounter is missing",)))
    refuse_unreadable(LeaseRows({}))


def test_one_shard_may_be_chosen() -> None:
    """All of them unless told."""
    shards = {
        shard_id: info for shard_id in (S0, S1) if (info := FakeStream(FakeShard(S0), FakeShard(S1)).shard(shard_id))
    }
    assert (choose_shards(shards, []), choose_shards(shards, [S1])) == ({S0, S1}, {S1})


def test_a_shard_that_is_not_listed_is_refused() -> None:
    """A typing mistake must not restore nothing and say done."""
    with pytest.raises(SettingsError, match=S3):
        choose_shards({}, [S3])


@pytest.mark.parametrize("text", ["yesterday", "2026-11-21", "2026-11-21T10:16:00"])
def test_a_time_names_its_zone(text: str) -> None:
    """Else it would mean another hour on another machine."""
    with pytest.raises(SettingsError, match="zone"):
        parse_iso_time(text)


def test_a_time_is_epoch_milliseconds() -> None:
    """UTC."""
    assert parse_iso_time("2026-11-21T11:16:00+01:00") == START_MS
