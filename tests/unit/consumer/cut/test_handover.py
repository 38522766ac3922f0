"""`minutebook handover`: the rows with which another application goes on behind a cut."""

from pathlib import Path

import pytest

from consumer.cut.command import Sources, check_name, check_unused, handover_rows, write_rows
from consumer.cut.lease_rows import plan_handover
from consumer.leases.rows import Checkpoint, Lease
from consumer.settings.settings import LoadedSettings, load_with_kcl
from consumer.stream.port import ShardInfo
from minutebook.cut import END, NONE, Cut
from minutebook.errors import SafetyRefusal, SettingsError, TableUnavailable
from minutebook.format.minute import iso_time
from minutebook.format.position import Position
from minutebook.owner import read_application
from tests.fakes.archive_scene import APPLICATION, PREFIX
from tests.fakes.clock import START_MS
from tests.fakes.lease_table import MemoryLeaseTable
from tests.fakes.restore_scene import S0, S1, S2, S3, RestoreScene
from tests.fakes.stream import DAY_MS

S4 = "shardId-000000000004"


def cut_of(archive: RestoreScene, age_ms: int = 0, **shards: str) -> Cut:
    """Return a cut of the scene's stream, `age_ms` ago; shards as s0="10:0"."""
    identity, at = archive.stream.describe(), iso_time(archive.clock.now_ms() - age_ms)
    names = {f"shardId-{name.removeprefix('s').zfill(12)}": text for name, text in shards.items()}
    return Cut(stream_arn=identity.arn, stream_created_ms=identity.created_ms, at=at, through=at, shards=names)


def listed(archive: RestoreScene) -> dict[str, ShardInfo]:
    """Return ListShards."""
    return {name: info for name in archive.stream.shards if (info := archive.stream.shard(name))}


def checkpoints(archive: RestoreScene, cut: Cut, *first: str) -> dict[str, Checkpoint]:
    """Return the planned checkpoints by shard."""
    return {row.shard_id: row.checkpoint for row in plan_handover(cut, first, listed(archive))}


def test_what_the_cut_says_becomes_the_checkpoint() -> None:
    """And of a shard that it does not name everything lies behind it."""
    archive = RestoreScene(S0, S1, S2, S3)
    archive.split(S0, S2, S3)
    found = checkpoints(archive, cut_of(archive, s0=END, s1="7:2", s2=NONE), S0, S1)
    assert found == {S0: "SHARD_END", S1: Position(7, 2), S2: "TRIM_HORIZON", S3: "TRIM_HORIZON"}


def test_every_descendant_has_a_row() -> None:
    """Grandchildren, too, also of a shard that the stream has forgotten; else KCL finds a hole and fills it."""
    archive = RestoreScene(S1, S2, S3)
    archive.stream.shards[S1].parents = (S0,)
    archive.split(S1, S2, S3)
    found = checkpoints(archive, cut_of(archive, s0=END), S0)
    assert found == dict.fromkeys((S1, S2, S3), "TRIM_HORIZON")


def test_what_had_ended_before_the_archive_began_has_none() -> None:
    """KCL would deliver its records, which the archive never had."""
    archive = RestoreScene(S0, S1, S2)
    archive.split(S0, S1, S2)
    assert checkpoints(archive, cut_of(archive, s1="5:0"), S1, S2) == {S1: Position(5), S2: "TRIM_HORIZON"}


def test_parents_of_a_merge_have_both_a_row_or_neither() -> None:
    """The stream forgets one of them earlier."""
    archive = RestoreScene(S0, S1, S2)
    for parent in (S0, S1):
        archive.stream.shards[parent].close(S2)
    archive.stream.shards[S2].parents = (S0, S1)
    cut = cut_of(archive, s0=END, s1=END)
    assert set(checkpoints(archive, cut)) == {S0, S1, S2}
    del archive.stream.shards[S0]
    assert set(checkpoints(archive, cut)) == {S2}


def test_rows_name_parents_children_and_hash_keys() -> None:
    """KCL waits for parents by them."""
    archive = RestoreScene(S0, S1, S2)
    archive.split(S0, S1, S2)
    rows = {row.shard_id: row for row in plan_handover(cut_of(archive, s0="5:0"), [S0], listed(archive))}
    assert (rows[S0].children, rows[S1].parents, rows[S1].owner, rows[S1].counter) == ({S1, S2}, {S0}, None, 0)
    assert rows[S1].ending_hash_key == str(2**128 - 1)


@pytest.mark.parametrize("of_it", ["5:0", NONE])
def test_a_shard_behind_the_cut_that_the_stream_forgot_is_refused(of_it: str) -> None:
    """All of it, or a part: what lies behind the cut is gone."""
    archive = RestoreScene(S1)
    with pytest.raises(SafetyRefusal, match="lists it no more"):
        checkpoints(archive, cut_of(archive, s0=of_it))


def test_an_end_that_the_stream_denies_is_refused() -> None:
    """Not the same history."""
    archive = RestoreScene(S0)
    with pytest.raises(SafetyRefusal, match="calls it open"):
        checkpoints(archive, cut_of(archive, s0=END))


def rows_of(archive: RestoreScene, cut: Cut, application: str = "other") -> list[Lease]:
    """Plan as the command does."""
    record = read_application(archive.retrying, PREFIX)
    assert record is not None
    identity, now_ms = archive.stream.describe(), archive.clock.now_ms()
    return handover_rows(
        Sources(archive.retrying, PREFIX, record, identity, listed(archive), now_ms, archive.stream),
        cut,
        application,
    )


def test_a_cut_that_is_nearly_trimmed_is_refused() -> None:
    """An hour before the stream forgets what lies behind it."""
    archive = RestoreScene(S0)
    assert rows_of(archive, cut_of(archive, DAY_MS - 3_600_000, s0="5:0"))
    with pytest.raises(SafetyRefusal, match="may be trimmed"):
        rows_of(archive, cut_of(archive, DAY_MS - 3_599_000, s0="5:0"))


@pytest.mark.parametrize("trimmed", [S0, S1, None])
def test_a_cut_older_than_a_day_is_proven_by_what_the_stream_holds(trimmed: str | None) -> None:
    """A retention that was raised does not bring back what had been trimmed: S1 lies behind the cut whole."""
    archive = RestoreScene(S0, S1, created_ms=START_MS - 9 * DAY_MS)
    archive.stream.retention_ms = 7 * DAY_MS
    put = {name: archive.stream.shards[name].put(b"x", START_MS - DAY_MS) for name in (S0, S1)}
    archive.begin(S1, first=str(put[S1].position))
    cut = cut_of(archive, 30 * 3_600_000, s0=str(put[S0].position), s1=NONE)
    if trimmed is None:
        assert [row.checkpoint for row in rows_of(archive, cut)] == [put[S0].position, "TRIM_HORIZON"]
        return
    archive.stream.shards[trimmed].trim_through(put[trimmed].position)
    with pytest.raises(SafetyRefusal, match=f"holds all of {trimmed}.*{put[trimmed].position} is trimmed"):
        rows_of(archive, cut)


def test_an_old_cut_before_a_shard_without_a_record_is_refused() -> None:
    """Nothing tells which record of it was the first behind the cut."""
    archive = RestoreScene(S0, created_ms=START_MS - 9 * DAY_MS)
    archive.stream.retention_ms = 7 * DAY_MS
    with pytest.raises(SafetyRefusal, match="nothing of it is archived"):
        rows_of(archive, cut_of(archive, 30 * 3_600_000))
    assert rows_of(archive, cut_of(archive))


def test_a_cut_of_another_stream_is_refused() -> None:
    """Shard ids repeat, positions do not; one that was made again keeps its name."""
    archive = RestoreScene(S0)
    cut = cut_of(archive, s0="5:0")
    other = Cut(stream_arn=cut.stream_arn, stream_created_ms=1, at=cut.at, through=cut.through, shards=cut.shards)
    with pytest.raises(SafetyRefusal, match="the cut is one of the stream"):
        rows_of(archive, other)


def test_the_archiving_application_is_refused() -> None:
    """Its rows would be replaced."""
    archive = RestoreScene(S0)
    with pytest.raises(SafetyRefusal, match="archives this stream"):
        rows_of(archive, cut_of(archive, s0="5:0"), APPLICATION)


def test_rows_of_an_application_that_has_run_are_left_alone() -> None:
    """Even one; a row that no version can read, too."""
    row = Lease(S0, Position(5))
    with pytest.raises(SafetyRefusal, match="rows already"):
        check_unused(MemoryLeaseTable(row._replace(counter=1)), [row])
    with pytest.raises(SafetyRefusal, match="rows already"):
        check_unused(MemoryLeaseTable(Lease(S4, "TRIM_HORIZON")), [row])
    check_unused(MemoryLeaseTable(), [row])


def test_a_worker_that_has_started_is_refused() -> None:
    """Its first act is the leader's row; leases come later."""
    table = MemoryLeaseTable()
    table.create()
    table.leader_owner = "w1"
    with pytest.raises(SafetyRefusal, match="w1 of this application has started"):
        check_unused(table, [Lease(S0, Position(5))])


def test_a_split_between_two_runs_is_no_obstacle() -> None:
    """The row of the first run knows no children."""
    row = Lease(S0, Position(5))
    assert check_unused(MemoryLeaseTable(row), [row._replace(children=frozenset({S1, S2}))]) == {S0}


def properties(folder: Path, **more: str) -> LoadedSettings:
    """Return the settings of the archive's properties file."""
    fields = {
        "streamName": "s",
        "applicationName": "app",
        "regionName": "us-east-1",
        "minutebook.bucket": "bucket",
        **more,
    }
    file = folder / "m.properties"
    file.write_text("".join(f"{name} = {text}\n" for name, text in fields.items()))
    return load_with_kcl(file, {})


def test_a_name_that_no_application_has_is_refused(tmp_path: Path) -> None:
    """Empty, or no name of a table; and that of the archive's own table."""
    loaded = properties(tmp_path, tableName="leases")
    for name in ("", "ab", "a b/c", "x" * 256):
        with pytest.raises(SettingsError, match="--application must be 3 to 255"):
            check_name(loaded, name)
    with pytest.raises(SafetyRefusal, match="a table of the application that archives"):
        check_name(loaded, "leases")
    check_name(loaded, "enricher")


def test_a_crash_between_two_rows_is_mended_by_running_again() -> None:
    """The rows that it left are those that are planned."""
    rows = [Lease(S0, Position(5)), Lease(S1, "TRIM_HORIZON")]
    table = MemoryLeaseTable()

    def crash(shard_id: str) -> None:
        if shard_id == S1:
            raise TableUnavailable("crash")

    table.before_put = crash
    with pytest.raises(TableUnavailable):
        write_rows(table, rows)
    table.before_put = None
    present = check_unused(table, rows)
    assert present == {S0}
    write_rows(table, [row for row in rows if row.shard_id not in present])
    read = table.read()
    assert read is not None
    assert list(read.leases.values()) == rows


def test_a_worker_that_starts_meanwhile_keeps_its_row() -> None:
    """The condition of the put fails."""
    table = MemoryLeaseTable()
    table.before_put = lambda _: table.seed(Lease(S0, "LATEST", 3, "w1"))
    with pytest.raises(SafetyRefusal, match="has started"):
        write_rows(table, [Lease(S0, Position(5))])
