"""`restore`: which rows follow from which archive."""

import pytest

from consumer.archived.shard_markers import read_archived_shards
from consumer.leases.rows import Checkpoint
from minutebook.errors import SafetyRefusal, StoreRefused
from minutebook.format.minute import iso_time
from minutebook.format.position import Position
from minutebook.format.tombstone import FOLDER
from minutebook.owner import read_application
from tests.fakes.archive_scene import PREFIX
from tests.fakes.clock import START_MS
from tests.fakes.memory_store import EndlessFault, Fault
from tests.fakes.restore_scene import AT_MS, NOW, S0, S1, S2, RestoreScene
from tests.fakes.stream import DAY_MS


def test_a_shard_goes_on_after_its_tail() -> None:
    """Sequence and sub-sequence number of the last archived record."""
    archive = RestoreScene(S0)
    lasts = archive.begun(S0, [NOW - 2, NOW - 1])
    assert archive.checkpoints() == {S0: lasts[-1]}


def test_every_listed_shard_gets_a_row() -> None:
    """Also those that nothing is archived of."""
    archive = RestoreScene(S0, S1)
    archive.begun(S0, [NOW])
    assert archive.plan().keys() == {S0, S1}


@pytest.mark.parametrize(("start_at_ms", "sentinel"), [(None, "TRIM_HORIZON"), (AT_MS, "AT_TIMESTAMP")])
def test_a_shard_without_data_starts_where_the_application_did(start_at_ms: int | None, sentinel: str) -> None:
    """TRIM_HORIZON in place of a timestamp would archive what lies before the start."""
    assert RestoreScene(S0, start_at_ms=start_at_ms).checkpoints() == {S0: sentinel}


def test_an_application_start_older_than_retention_is_the_trim_horizon() -> None:
    """As `consume` gives it to KCL by then."""
    archive = RestoreScene(S0, start_at_ms=AT_MS)
    archive.clock.advance(2 * 24 * 3600)
    assert archive.checkpoints() == {S0: "TRIM_HORIZON"}


def test_a_child_of_an_archived_shard_starts_at_its_trim_horizon() -> None:
    """It began after the application did, so its own beginning is the right and fixed start."""
    archive = RestoreScene(S0, S1, S2, start_at_ms=AT_MS)
    lasts = archive.begun(S0, [NOW - 3])
    archive.split(S0, S1, S2)
    assert archive.checkpoints() == {S0: lasts[-1], S1: "TRIM_HORIZON", S2: "TRIM_HORIZON"}


def test_a_grandchild_of_an_archived_shard_starts_at_its_trim_horizon() -> None:
    """Nothing came through the shard between."""
    archive = RestoreScene(S0, S1, S2, start_at_ms=AT_MS)
    archive.begun(S0, [NOW - 3])
    archive.split(S0, S1)
    archive.split(S1, S2)
    assert archive.checkpoints()[S2] == "TRIM_HORIZON"


def test_a_child_of_a_shard_before_the_start_keeps_the_start() -> None:
    """The parent ended before the application began: the child holds older records than the start."""
    archive = RestoreScene(S0, S1, start_at_ms=AT_MS)
    archive.split(S0, S1)
    assert archive.checkpoints() == {S0: "AT_TIMESTAMP", S1: "AT_TIMESTAMP"}


def test_a_child_of_a_shard_that_the_stream_forgot_starts_at_its_trim_horizon() -> None:
    """The archive remembers the parent."""
    archive = RestoreScene(S1, start_at_ms=AT_MS)
    archive.stream.shards[S1].parents = (S0,)
    archive.begun(S0, [NOW - 3])
    assert archive.checkpoints() == {S1: "TRIM_HORIZON"}


def test_a_proven_end_is_shard_end() -> None:
    """With records or without."""
    archive = RestoreScene(S0, S1)
    archive.ended(S0, archive.begun(S0, [NOW - 3])[-1])
    archive.ended(S1, None)
    assert archive.checkpoints() == {S0: "SHARD_END", S1: "SHARD_END"}


def test_a_closed_shard_without_proof_is_read_on() -> None:
    """SHARD_END would skip what is left of it."""
    archive = RestoreScene(S0, S1)
    lasts = archive.begun(S0, [NOW - 3])
    archive.split(S0, S1)
    assert archive.checkpoints()[S0] == lasts[-1]


def test_an_end_that_the_stream_denies_is_refused() -> None:
    """end.json, and an open shard: not the same history."""
    archive = RestoreScene(S0)
    archive.ended(S0, None)
    archive.stream.shards[S0].closed = False
    with pytest.raises(SafetyRefusal, match="calls it open"):
        archive.plan()


def test_parents_children_and_hash_keys_are_in_the_row() -> None:
    """KCL waits for parents by them."""
    archive = RestoreScene(S0, S1, S2)
    archive.split(S0, S1, S2)
    plan = archive.plan()
    assert plan[S0].lease.children == {S1, S2}
    assert plan[S1].lease.parents == {S0}
    assert plan[S1].lease.ending_hash_key == str(2**128 - 1)


def test_rows_are_unowned_and_start_at_counter_0() -> None:
    """The leader assigns unowned rows in its first run."""
    lease = RestoreScene(S0).plan()[S0].lease
    assert (lease.owner, lease.counter) == (None, 0)


@pytest.mark.parametrize(
    ("sentinel", "checkpoint"),
    [("TRIM_HORIZON", "TRIM_HORIZON"), ("AT_TIMESTAMP", "AT_TIMESTAMP"), ("AFTER_SEQUENCE:77:5", Position(77, 5))],
)
def test_a_start_without_a_segment_is_followed(sentinel: str, checkpoint: Checkpoint) -> None:
    """A crash between start.json and the first commit."""
    archive = RestoreScene(S0, start_at_ms=AT_MS)
    archive.begin(S0, sentinel=sentinel)
    assert archive.checkpoints() == {S0: checkpoint}


def test_a_missing_segment_is_read_again() -> None:
    """The row stands before the gap and says so."""
    archive = RestoreScene(S0)
    lasts = archive.begun(S0, [NOW - 3, NOW - 2, NOW - 1], missing=[1])
    row = archive.plan()[S0]
    assert row.lease.checkpoint == lasts[0]
    assert "missing" in row.warnings[0]


def test_a_tail_older_than_retention_is_said() -> None:
    """Records may be gone: the audit will say unknown, so a person hears it now."""
    archive = RestoreScene(S0)
    archive.begun(S0, [NOW])
    archive.clock.advance(25 * 3600)
    assert "retention" in archive.plan()[S0].warnings[0]


def test_a_tail_is_found_whatever_the_retention_is_now() -> None:
    """It was lowered from seven days to one: the chain began with what was five days old when it was first read.

    The search must not end before the chain does, or the row goes back to the sentinel, and the worker refuses it.
    """
    archive = RestoreScene(S0, created_ms=START_MS - 30 * DAY_MS)
    archive.begin(S0, begun_at=iso_time(START_MS))
    lasts = archive.chain(S0, [NOW - 5 * 1440, NOW - 5 * 1440 + 1])
    archive.stream.retention_ms = DAY_MS
    assert archive.checkpoints() == {S0: lasts[-1]}


@pytest.mark.parametrize(
    ("start_at_ms", "sentinel", "oldest_days"),
    [(None, "TRIM_HORIZON", 31), (AT_MS, "AT_TIMESTAMP", 1.25), (AT_MS, "AFTER_SEQUENCE:7:0", 31)],
)
def test_the_search_ends_where_the_application_or_the_stream_began(
    start_at_ms: int | None, sentinel: str, oldest_days: float
) -> None:
    """A shard without a segment costs a walk through every hour of the archive up to there; no further."""
    archive = RestoreScene(S0, start_at_ms=start_at_ms, created_ms=START_MS - 30 * DAY_MS)
    archive.begin(S0, sentinel=sentinel)
    record = read_application(archive.retrying, PREFIX)
    assert record is not None
    shard = read_archived_shards(archive.retrying, PREFIX)[S0]
    assert shard.oldest_minute(record) == NOW - int(oldest_days * 1440)


def test_the_search_goes_as_far_back_as_kinesis_keeps_records() -> None:
    """A year, before start.json was written."""
    archive = RestoreScene(S0, created_ms=START_MS - 3000 * DAY_MS)
    archive.begin(S0, begun_at=iso_time(START_MS - 10 * DAY_MS))
    record = read_application(archive.retrying, PREFIX)
    assert record is not None
    shard = read_archived_shards(archive.retrying, PREFIX)[S0]
    assert shard.oldest_minute(record) == NOW - (10 + 365 + 1) * 1440


def test_as_of_a_time_goes_back() -> None:
    """The last segment of the minutes that were over by then."""
    archive = RestoreScene(S0)
    lasts = archive.begun(S0, [NOW - 3, NOW - 2, NOW - 1])
    assert archive.checkpoints(as_of_ms=(NOW - 1) * 60_000 + 59_999) == {S0: lasts[1]}


def test_as_of_a_time_before_the_end_is_not_the_end() -> None:
    """end.json lies behind that time."""
    archive = RestoreScene(S0)
    lasts = archive.begun(S0, [NOW - 3, NOW - 2, NOW - 1])
    archive.ended(S0, lasts[-1])
    assert archive.checkpoints(as_of_ms=(NOW - 1) * 60_000) == {S0: lasts[1]}


def test_as_of_a_time_after_the_end_is_the_end() -> None:
    """The chain is seen to reach it."""
    archive = RestoreScene(S0)
    archive.ended(S0, archive.begun(S0, [NOW - 3, NOW - 2])[-1])
    assert archive.checkpoints(as_of_ms=NOW * 60_000) == {S0: "SHARD_END"}


def test_as_of_a_time_before_everything_starts_anew() -> None:
    """Where start.json says."""
    archive = RestoreScene(S0)
    archive.begun(S0, [NOW - 3])
    assert archive.checkpoints(as_of_ms=(NOW - 10) * 60_000) == {S0: "TRIM_HORIZON"}


def test_nothing_archived_is_refused() -> None:
    """A wrong prefix would rewind every shard."""
    archive = RestoreScene(S0)
    archive.bucket.delete(f"{PREFIX}_application.json")
    with pytest.raises(SafetyRefusal, match="nothing to restore"):
        archive.plan()


def test_another_stream_is_refused() -> None:
    """Its sequence numbers mean nothing here."""
    archive = RestoreScene(S0)
    archive.stream.recreate(START_MS)
    with pytest.raises(SafetyRefusal, match="earlier stream"):
        archive.plan()


def test_another_applications_properties_are_refused() -> None:
    """Its table would get the ends of chains that it never wrote."""
    archive = RestoreScene(S0)
    archive.application = "another"
    with pytest.raises(SafetyRefusal, match="the checkpoints of another are not believed"):
        archive.plan()


def test_an_outage_of_the_store_is_an_error() -> None:
    """Never a plan that begins anew."""
    archive = RestoreScene(S0)
    archive.begun(S0, [NOW])
    archive.store.faults = EndlessFault(Fault.REFUSED, verbs=["LIST"])
    with pytest.raises(StoreRefused, match="AccessDenied"):
        archive.plan()


DAMAGE = [b"", b"gone", b'{"format": 9}']


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_shard_goes_on_after_its_tail_and_the_tombstone_is_named(damage: bytes) -> None:
    """A segment between two others is gone: it was expired, for all that can be told."""
    scene = RestoreScene(S0)
    ends = scene.begun(S0, [NOW - 9, NOW - 8, NOW - 7], missing=[1])
    key = f"{PREFIX}{FOLDER}2026-11-21.json"
    scene.bucket.place(key, damage)
    row = scene.plan()[S0]
    assert row.lease.checkpoint == ends[2]
    assert any(key in warning for warning in row.warnings)


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_hole_on_other_days_is_a_hole(damage: bytes) -> None:
    """It is read again."""
    scene = RestoreScene(S0)
    ends = scene.begun(S0, [NOW - 9, NOW - 8, NOW - 7], missing=[1])
    scene.bucket.place(f"{PREFIX}{FOLDER}2026-10-01.json", damage)
    assert scene.checkpoints() == {S0: ends[0]}
