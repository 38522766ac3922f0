"""`restore`: which rows follow from which archive, and how they are written."""

from collections.abc import Sequence

import pytest

from archive.errors import SafetyRefusal, SettingsError, StoreRefused, TableUnavailable
from archive.format.position import Position
from consumer.leases.rows import Checkpoint, Lease, LeaseRows
from consumer.restore.command import apply_plan, check_nobody_lives, choose_shards, parse_time, refuse_unreadable
from consumer.restore.facts import gather_facts
from consumer.restore.plan import Action, PlannedRow, plan_rows
from tests.fakes.archive_scene import PREFIX, MemoryScene
from tests.fakes.clock import START_MS
from tests.fakes.lease_table import MemoryLeaseTable
from tests.fakes.memory_store import EndlessFault, Fault
from tests.fakes.shard import FakeShard
from tests.fakes.stream import DAY_MS, FakeStream

NOW = START_MS // 60_000
S0, S1, S2, S3 = (f"shardId-{number:012d}" for number in range(4))
AT_MS = START_MS - DAY_MS // 4


class Archive(MemoryScene):
    """A stream of shards, a bucket, and what a consumer left in it."""

    def __init__(self, *shard_ids: str, start_at_ms: int | None = None) -> None:
        super().__init__(*shard_ids)
        self.settle(self.stream.describe(), start_at_ms=start_at_ms)

    def begun(self, shard_id: str, minutes: Sequence[int], *, missing: Sequence[int] = ()) -> list[Position]:
        """Write start.json and one segment per minute; returns their last positions."""
        self.begin(shard_id)
        return self.chain(shard_id, minutes, missing=missing)

    def ended(self, shard_id: str, last: Position | None) -> None:
        """Close the shard, and write end.json."""
        self.stream.shards[shard_id].close()
        self.end(shard_id, last)

    def split(self, parent: str, *children: str) -> None:
        """Close a shard and link its children."""
        self.stream.shards[parent].close(*children)
        for child in children:
            self.stream.shards[child].parents = (parent,)

    def plan(self, *present: Lease, as_of_ms: int | None = None) -> dict[str, PlannedRow]:
        """Return the plan by shard."""
        facts = gather_facts(
            self.retrying,
            PREFIX,
            self.stream.describe(),
            {shard_id: info for shard_id in self.stream.shards if (info := self.stream.shard(shard_id))},
            now_ms=self.clock.now_ms(),
            as_of_ms=as_of_ms,
        )
        return {row.lease.shard_id: row for row in plan_rows(facts, {lease.shard_id: lease for lease in present})}

    def checkpoints(self, *, as_of_ms: int | None = None) -> dict[str, Checkpoint]:
        """Return the planned checkpoints."""
        return {shard_id: row.lease.checkpoint for shard_id, row in self.plan(as_of_ms=as_of_ms).items()}


def test_a_shard_goes_on_after_its_tail() -> None:
    """Sequence and sub-sequence number of the last archived record."""
    archive = Archive(S0)
    lasts = archive.begun(S0, [NOW - 2, NOW - 1])
    assert archive.checkpoints() == {S0: lasts[-1]}


def test_every_listed_shard_gets_a_row() -> None:
    """Also those that nothing is archived of."""
    archive = Archive(S0, S1)
    archive.begun(S0, [NOW])
    assert archive.plan().keys() == {S0, S1}


@pytest.mark.parametrize(("start_at_ms", "sentinel"), [(None, "TRIM_HORIZON"), (AT_MS, "AT_TIMESTAMP")])
def test_a_shard_without_data_starts_where_the_application_did(start_at_ms: int | None, sentinel: str) -> None:
    """TRIM_HORIZON in place of a timestamp would archive what lies before the start."""
    assert Archive(S0, start_at_ms=start_at_ms).checkpoints() == {S0: sentinel}


def test_an_application_start_older_than_retention_is_the_trim_horizon() -> None:
    """As `consume` gives it to KCL by then."""
    archive = Archive(S0, start_at_ms=AT_MS)
    archive.clock.advance(2 * 24 * 3600)
    assert archive.checkpoints() == {S0: "TRIM_HORIZON"}


def test_a_child_of_an_archived_shard_starts_at_its_trim_horizon() -> None:
    """It began after the application did, so its own beginning is the right and fixed start."""
    archive = Archive(S0, S1, S2, start_at_ms=AT_MS)
    lasts = archive.begun(S0, [NOW - 3])
    archive.split(S0, S1, S2)
    assert archive.checkpoints() == {S0: lasts[-1], S1: "TRIM_HORIZON", S2: "TRIM_HORIZON"}


def test_a_grandchild_of_an_archived_shard_starts_at_its_trim_horizon() -> None:
    """Nothing came through the shard between."""
    archive = Archive(S0, S1, S2, start_at_ms=AT_MS)
    archive.begun(S0, [NOW - 3])
    archive.split(S0, S1)
    archive.split(S1, S2)
    assert archive.checkpoints()[S2] == "TRIM_HORIZON"


def test_a_child_of_a_shard_before_the_start_keeps_the_start() -> None:
    """The parent ended before the application began: the child holds older records than the start."""
    archive = Archive(S0, S1, start_at_ms=AT_MS)
    archive.split(S0, S1)
    assert archive.checkpoints() == {S0: "AT_TIMESTAMP", S1: "AT_TIMESTAMP"}


def test_a_child_of_a_shard_that_the_stream_forgot_starts_at_its_trim_horizon() -> None:
    """The archive remembers the parent."""
    archive = Archive(S1, start_at_ms=AT_MS)
    archive.stream.shards[S1].parents = (S0,)
    archive.begun(S0, [NOW - 3])
    assert archive.checkpoints() == {S1: "TRIM_HORIZON"}


def test_a_proven_end_is_shard_end() -> None:
    """With records or without."""
    archive = Archive(S0, S1)
    archive.ended(S0, archive.begun(S0, [NOW - 3])[-1])
    archive.ended(S1, None)
    assert archive.checkpoints() == {S0: "SHARD_END", S1: "SHARD_END"}


def test_a_closed_shard_without_proof_is_read_on() -> None:
    """SHARD_END would skip what is left of it."""
    archive = Archive(S0, S1)
    lasts = archive.begun(S0, [NOW - 3])
    archive.split(S0, S1)
    assert archive.checkpoints()[S0] == lasts[-1]


def test_an_end_that_the_stream_denies_is_refused() -> None:
    """end.json, and an open shard: not the same history."""
    archive = Archive(S0)
    archive.ended(S0, None)
    archive.stream.shards[S0].closed = False
    with pytest.raises(SafetyRefusal, match="calls it open"):
        archive.plan()


def test_parents_children_and_hash_keys_are_in_the_row() -> None:
    """KCL waits for parents by them."""
    archive = Archive(S0, S1, S2)
    archive.split(S0, S1, S2)
    plan = archive.plan()
    assert plan[S0].lease.children == {S1, S2}
    assert plan[S1].lease.parents == {S0}
    assert plan[S1].lease.ending_hash_key == str(2**128 - 1)


def test_rows_are_unowned_and_start_at_counter_0() -> None:
    """The leader assigns unowned rows in its first run."""
    lease = Archive(S0).plan()[S0].lease
    assert (lease.owner, lease.counter) == (None, 0)


@pytest.mark.parametrize(
    ("sentinel", "checkpoint"),
    [("TRIM_HORIZON", "TRIM_HORIZON"), ("AT_TIMESTAMP", "AT_TIMESTAMP"), ("AFTER_SEQUENCE:77:5", Position(77, 5))],
)
def test_a_start_without_a_segment_is_followed(sentinel: str, checkpoint: Checkpoint) -> None:
    """A crash between start.json and the first commit."""
    archive = Archive(S0, start_at_ms=AT_MS)
    archive.begin(S0, sentinel=sentinel)
    assert archive.checkpoints() == {S0: checkpoint}


def test_a_missing_segment_is_read_again() -> None:
    """The row goes back before the gap and says so."""
    archive = Archive(S0)
    lasts = archive.begun(S0, [NOW - 3, NOW - 2, NOW - 1], missing=[1])
    row = archive.plan()[S0]
    assert row.lease.checkpoint == lasts[0]
    assert "missing" in row.warnings[0]


def test_a_tail_older_than_retention_is_said() -> None:
    """Records may be gone: the audit will say unknown, so a person hears it now."""
    archive = Archive(S0)
    archive.begun(S0, [NOW])
    archive.clock.advance(25 * 3600)
    assert "retention" in archive.plan()[S0].warnings[0]


def test_as_of_a_time_goes_back() -> None:
    """The last segment of the minutes that were over by then."""
    archive = Archive(S0)
    lasts = archive.begun(S0, [NOW - 3, NOW - 2, NOW - 1])
    assert archive.checkpoints(as_of_ms=(NOW - 1) * 60_000 + 59_999) == {S0: lasts[1]}


def test_as_of_a_time_before_the_end_is_not_the_end() -> None:
    """end.json lies behind that time."""
    archive = Archive(S0)
    lasts = archive.begun(S0, [NOW - 3, NOW - 2, NOW - 1])
    archive.ended(S0, lasts[-1])
    assert archive.checkpoints(as_of_ms=(NOW - 1) * 60_000) == {S0: lasts[1]}


def test_as_of_a_time_after_the_end_is_the_end() -> None:
    """The chain is seen to reach it."""
    archive = Archive(S0)
    archive.ended(S0, archive.begun(S0, [NOW - 3, NOW - 2])[-1])
    assert archive.checkpoints(as_of_ms=NOW * 60_000) == {S0: "SHARD_END"}


def test_as_of_a_time_before_everything_starts_anew() -> None:
    """Where start.json says."""
    archive = Archive(S0)
    archive.begun(S0, [NOW - 3])
    assert archive.checkpoints(as_of_ms=(NOW - 10) * 60_000) == {S0: "TRIM_HORIZON"}


def test_nothing_archived_is_refused() -> None:
    """A wrong prefix would rewind every shard."""
    archive = Archive(S0)
    archive.bucket.delete(f"{PREFIX}_application.json")
    with pytest.raises(SafetyRefusal, match="nothing to restore"):
        archive.plan()


def test_another_stream_is_refused() -> None:
    """Its sequence numbers mean nothing here."""
    archive = Archive(S0)
    archive.stream.recreate(START_MS)
    with pytest.raises(SafetyRefusal, match="earlier stream"):
        archive.plan()


def test_a_row_that_is_right_is_kept() -> None:
    """The fewer writes the better."""
    archive = Archive(S0)
    lasts = archive.begun(S0, [NOW])
    row = archive.plan(Lease(S0, lasts[-1], 9))[S0]
    assert (row.action, row.lease.counter) == (Action.KEEP, 9)


def test_a_right_row_of_a_dead_owner_is_freed() -> None:
    """Else the next worker waits until KCL takes the owner for dead."""
    archive = Archive(S0)
    lasts = archive.begun(S0, [NOW])
    row = archive.plan(Lease(S0, lasts[-1], 9, "w1"))[S0]
    assert (row.action, row.lease.counter, row.lease.owner) == (Action.REPLACE, 10, None)


def test_a_row_that_is_wrong_is_replaced_with_a_higher_counter() -> None:
    """Whatever a dead owner still sends fails on its old counter."""
    archive = Archive(S0)
    archive.begun(S0, [NOW])
    row = archive.plan(Lease(S0, "TRIM_HORIZON", 9, "w1"))[S0]
    assert (row.action, row.lease.counter, row.lease.owner) == (Action.REPLACE, 10, None)


def test_a_row_ahead_of_the_archive_goes_back_and_says_so() -> None:
    """Its records are nowhere: reading them again is the only way."""
    archive = Archive(S0)
    archive.begun(S0, [NOW])
    assert "goes back" in archive.plan(Lease(S0, Position(5000), 9))[S0].warnings[0]


def test_the_rows_are_written() -> None:
    """And a second plan finds nothing to do."""
    archive = Archive(S0, S1)
    archive.begun(S0, [NOW])
    table = MemoryLeaseTable()
    assert apply_plan(table, list(archive.plan().values())) == 2
    rows = table.read()
    assert rows is not None
    assert {row.action for row in archive.plan(*rows.leases.values()).values()} == {Action.KEEP}
    assert table.leader_released


def test_a_crash_between_two_rows_is_mended_by_running_again() -> None:
    """The rows written are right, the rest is written by the second run."""
    archive = Archive(S0, S1, S2)
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
    archive = Archive(S0)
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


def test_an_outage_of_the_store_is_an_error() -> None:
    """Never a plan that begins anew."""
    archive = Archive(S0)
    archive.begun(S0, [NOW])
    archive.store.faults = EndlessFault(Fault.REFUSED, verbs=["LIST"])
    with pytest.raises(StoreRefused, match="AccessDenied"):
        archive.plan()


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
        parse_time(text)


def test_a_time_is_epoch_milliseconds() -> None:
    """UTC."""
    assert parse_time("2026-11-21T11:16:00+01:00") == START_MS
