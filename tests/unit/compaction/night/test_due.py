"""`--due`: what a night finds to do, and that it finds nothing where nothing may have changed."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.table import Table

from compaction.audit.audit import audit_day
from compaction.inventory.segments import make_row
from compaction.job.context import AuditOptions, JobContext
from compaction.night.days.run import DayRow, count_due, row_of_due, row_of_due_plan
from compaction.night.dry_run import plan_dry_run
from compaction.night.due import DueDay, WorkFailed, do_due, find_due
from compaction.night.rewrite import Compacted, CompactOptions, objection_to_expired, settle_day
from compaction.publish.publisher import Publisher
from compaction.tables.commit import TableCommit
from compaction.tables.plan import Conflict
from compaction.tables.table import IcebergTable
from compaction.verdict.audit_document import decode_audit, encode_audit
from compaction.verdict.exit_code import FAIL_ON
from minutebook.errors import CatalogRefused, SettingsError, StoreRefused
from minutebook.format.minute import MINUTE_MS, minute_path
from minutebook.format.tombstone import tombstone_key
from minutebook.published.generation import DayFolder
from minutebook.store.objects import ListedObject, Listing, StoredObject
from minutebook.store.places import open_storage
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import Address, Storage
from tests.corpus.desk import DAY, OUT, Desk, expire, no_engine, unproven
from tests.corpus.model import PREFIX, Corpus, Shape, make_segment
from tests.fakes.clock import ManualClock
from tests.fakes.failing_storage import PassingStorage
from tests.lives import table
from tests.lives.changes import CHANGES
from tests.lives.memory import in_one_thread
from tests.lives.night import Site
from tests.lives.table import Stage
from tests.lives.world import FIRST_DAY, HOUR, World
from tests.unit.compaction.night.test_altered_objects import Rewrapped, touch

T = TypeVar("T")


def archive_of(desk: Desk) -> Storage:
    """Return the store of its archive."""
    return open_storage(Address(None, str(desk.raw)))


def due(desk: Desk, options: AuditOptions | None = None) -> DueDay:
    """Return what is due of the day."""
    found = find_due(desk.context(), desk.out, options or AuditOptions(), 14)
    return {each.day: each for each in found.days}[DAY]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Return a clean day, published."""
    desk = Desk(tmp_path)
    desk.clock.advance(2 * 86_400)
    assert desk.compact().verdict == "clean"
    return desk


def test_a_day_that_is_not_published_is_due(tmp_path: Path) -> None:
    """Whether or not the output has a folder of it."""
    desk = Desk(tmp_path)
    desk.clock.advance(2 * 86_400)
    assert (due(desk).pointer, due(desk).why) == ("none", "it is not published")


def test_a_clean_day_that_is_as_it_was_is_not_due(desk: Desk) -> None:
    """Nothing of it is read but names."""
    assert due(desk) == DueDay(DAY, "clean")


def test_a_late_object_makes_a_day_due(desk: Desk) -> None:
    """By the folder of its hour."""
    desk.archive_more()
    assert "objects came, went or changed" in due(desk).why


def test_an_object_that_is_gone_makes_a_day_due(desk: Desk) -> None:
    """A deletion leaves no later time anywhere."""
    raw = open_storage(Address(None, str(desk.raw)))
    raw.delete([next(row.key for row in raw.list_objects(DAY.path(PREFIX)))])
    assert "objects came, went or changed" in due(desk).why


def test_a_day_that_is_not_clean_is_due_each_night(tmp_path: Path) -> None:
    """A repair need not touch the archive."""
    desk, _ = unproven(tmp_path)
    desk.clock.advance(2 * 86_400)
    assert (due(desk).pointer, due(desk).why) == ("unknown", "it is not clean")
    assert desk.compact(accept="the shard was deleted").accepted == "the shard was deleted"
    assert due(desk).pointer == "accepted"


def test_a_clean_pointer_by_older_rules_or_without_its_audit_is_unknown(desk: Desk) -> None:
    """So a row says what `minutebook.reader` says, also of a day that a night leaves or fails at."""
    pointer = desk.publisher().current().pointer
    assert pointer is not None
    path = Path(desk.storage.uri(desk.publisher().folder.pointer))
    path.write_text(path.read_text().replace('"rules": 2', '"rules": 1'))
    assert due(desk).pointer == "unknown"
    path.write_text(path.read_text().replace('"rules": 1', '"rules": 2'))
    assert due(desk).pointer == "clean"
    Path(desk.storage.uri(pointer.audit)).unlink()
    assert due(desk).pointer == "unknown"


def test_another_event_id_makes_a_day_due(desk: Desk) -> None:
    """Findings about copies are by the path."""
    assert due(desk, AuditOptions(event_id="id")).why == "the settings were without event ids"


def test_an_expired_day_whose_tombstone_is_damaged_is_named(desk: Desk) -> None:
    """Nobody knows what was deleted of it on purpose."""
    archive_of(desk).put_if_absent(f"{PREFIX}_expired/{DAY}.json", b"{}", {}, "application/json")
    found = due(desk)
    done = do_due(desk.context(), found, CompactOptions(AuditOptions(), desk.out))
    row = row_of_due(found, done, found.pointer, "unknown", has_table=False)
    assert (row.pointer, row.exit_code, "_expired" in row.reason) == ("expired", 4, True)


def settled(desk: Desk, context: JobContext | None = None) -> DayRow:
    """Do what is due of the day, which is expired; return its row."""
    context = context or desk.context()
    found = find_due(context, desk.out, AuditOptions(), 14).by_day[DAY]
    assert found.is_expired
    done = do_due(context, found, CompactOptions(AuditOptions(), desk.out))
    return row_of_due(found, done, found.pointer, "unknown", has_table=False)


def test_an_expired_day_that_is_published_as_then_is_settled(desk: Desk) -> None:
    """Nothing is due, and nobody is told."""
    published = desk.publisher().current().pointer
    assert published is not None
    expire(desk, published.generation, days=0)
    assert (settled(desk).exit_code, settled(desk).done) == (0, ("nothing",))


@pytest.mark.parametrize(("how", "code"), [("pointer", 4), ("day", 3), ("older", 4), ("all older", 3), ("part", 4)])
def test_an_expired_day_that_is_not_published_as_then_is_named(desk: Desk, how: str, code: int) -> None:
    """Its output was lost, or comes from an older backup: nothing else holds the records, and nothing is swept."""
    folder = desk.publisher().folder
    path = Path(desk.storage.uri(folder.pointer))
    before, old = path.read_bytes(), {row.key for row in desk.storage.list_objects(folder.path)}
    if "older" in how:
        desk.archive_more()
        desk.compact()
    published = desk.publisher().current().pointer
    assert published is not None
    expire(desk, published.generation, days=0)
    keys = {row.key for row in desk.storage.list_objects(folder.path)}
    gone = {"pointer": {folder.pointer}, "day": keys, "all older": keys - old}.get(how, set())
    desk.storage.delete(gone)
    if "older" in how:
        path.write_bytes(before)
    if how == "part":
        path.write_bytes(before.replace(b'"until": null', b'"until": "2026-11-20T23:00:00Z"'))
    left = {row.key for row in desk.storage.list_objects(folder.path)}
    desk.clock = ManualClock(desk.after_grace_ms())
    rows = [settled(desk) for _ in range(2)]
    for row in rows:
        assert (row.pointer, row.exit_code) == ("expired", code)
        assert "restore" in row.reason
        assert "restore" in row.next_step
    # The older pointer's clean verdict is given up: its rows are not those by which the objects were deleted.
    first = ("withdrawn", "blocked") if how in {"older", "all older", "part"} else ("blocked",)
    assert [row.done for row in rows] == [first, ("blocked",)]
    pointer = desk.publisher().current().pointer
    assert pointer is None or pointer.verdict == "unknown"
    assert left <= {row.key for row in desk.storage.list_objects(folder.path)}


class _Unlisted(PassingStorage):
    """A storage that refuses to list the day."""

    def list_objects(self, prefix: str) -> Iterator[ListedObject]:
        """Pass on or refuse."""
        if prefix == DAY.path(PREFIX):
            raise StoreRefused(f"LIST {prefix}: AccessDenied")
        return super().list_objects(prefix)

    def _send(self, request: Callable[[], T]) -> T:
        return request()


def put_older_pointer_back(desk: Desk) -> dict[str, str]:
    """Expire a day that was published twice, put the older pointer back, and pass the grace; return its objects."""
    folder = desk.publisher().folder
    path = Path(desk.storage.uri(folder.pointer))
    before = path.read_bytes()
    desk.archive_more()
    desk.compact()
    published = desk.publisher().current().pointer
    assert published is not None
    expire(desk, published.generation, days=0)
    path.write_bytes(before)
    desk.clock = ManualClock(desk.after_grace_ms())
    return {row.key: row.etag for row in desk.storage.list_objects(OUT)}


def test_an_expired_day_whose_tombstone_is_damaged_stays_as_it_is(desk: Desk) -> None:
    """An older pointer was put back, and nobody can say so: symlinks and table do not follow it, no file goes."""
    before = put_older_pointer_back(desk)
    Path(archive_of(desk).uri(tombstone_key(PREFIX, DAY))).write_bytes(b"{")
    row = settled(desk)
    assert (row.pointer, row.done, row.exit_code) == ("expired", ("blocked",), 4)
    assert "nobody knows what was published then" in row.reason
    assert desk.compact(engine=no_engine).state == "held"
    assert {row.key: row.etag for row in desk.storage.list_objects(OUT)} == before


def test_an_expired_day_that_cannot_be_listed_is_compared_with_its_tombstone(desk: Desk) -> None:
    """It says what was published then, whatever came since."""
    before = put_older_pointer_back(desk)
    context = desk.context()
    archive = RetryingStorage(_Unlisted(context.archive.storage), context.archive.new_backoff)
    row = settled(desk, context._replace(archive=archive))
    assert (row.pointer, row.done, row.exit_code) == ("expired", ("withdrawn", "blocked"), 4)
    assert "was published then" in row.reason
    assert "AccessDenied" in row.reason
    assert before.items() - {row.key: row.etag for row in desk.storage.list_objects(OUT)}.items() == {
        (desk.publisher().folder.pointer, before[desk.publisher().folder.pointer])
    }


def test_an_expired_day_with_another_verdict_than_then_is_named(tmp_path: Path) -> None:
    """It was clean when it was expired: what readers see is an older state; one that was accepted is settled."""
    desk, _ = unproven(tmp_path)
    desk.clock.advance(2 * 86_400)
    published = desk.publisher().current().pointer
    assert published is not None
    desk.compact(accept="the shard was deleted")
    path = Path(desk.storage.uri(desk.publisher().folder.pointer))
    accepted = path.read_bytes()
    expire(desk, published.generation, days=0)
    assert settled(desk).exit_code == 0
    path.write_bytes(accepted.replace(desk_audit(desk), published.audit.encode()))
    row = settled(desk)
    assert (row.done, row.exit_code, "its verdict is unknown" in row.reason) == (("blocked",), 4, True)


def test_an_expired_day_with_an_older_manifest_of_its_generation_is_named(desk: Desk) -> None:
    """Its objects were stored again before it was expired: what readers see is the state before that.

    A younger manifest is a run's that was under way then, and of another output of the archive none is known here.
    """
    path = Path(desk.storage.uri(desk.publisher().folder.pointer))
    older = path.read_bytes()
    desk.clock.advance(60)
    touch(desk, 30)
    assert desk.compact().state == "already"
    newer, pointer = path.read_bytes(), desk.publisher().current().pointer
    assert pointer is not None
    assert msgspec.json.decode(older)["generation"] == pointer.generation
    expire(desk, pointer.generation, days=0, manifest=pointer.manifest)
    assert settled(desk).exit_code == 0
    path.write_bytes(older)
    row = settled(desk)
    assert (row.done, row.exit_code) == (("withdrawn", "blocked"), 4)
    assert f"the older {msgspec.json.decode(older)['manifest']}" in row.reason
    path.write_bytes(newer)
    raw = archive_of(desk)
    stone = msgspec.json.decode(Path(raw.uri(tombstone_key(PREFIX, DAY))).read_bytes())
    for manifest in (msgspec.json.decode(older)["manifest"], pointer.manifest.replace(desk.out.prefix, "elsewhere/")):
        stone.update(manifest=manifest)
        Path(raw.uri(tombstone_key(PREFIX, DAY))).write_bytes(msgspec.json.encode(stone))
        assert settled(desk).exit_code == 0


@pytest.mark.parametrize("expired", [(1,), (2,)])
def test_what_comes_beside_an_expired_day_is_seen(tmp_path: Path, expired: tuple[int, ...]) -> None:
    """The neighbour's objects are gone on purpose; another one, of the day's records, is not the tombstone's."""
    offset = -700 if expired == (1,) else -2140
    desk = Desk(tmp_path, Corpus(DAY, shape=Shape(minutes=(offset, 0, 1, 2, 600, 601, 1439, 1441))))
    desk.clock.advance(2 * 86_400)
    desk.corpus.write_marks(archive_of(desk))
    for day in (DAY.shift(-2), DAY.shift(-1), DAY):
        desk.compact(day=day)
    for back in expired:
        pointer = Publisher(desk.publisher().storage, DayFolder(desk.out.prefix, DAY.shift(-back))).current().pointer
        assert pointer is not None
        expire(desk, pointer.generation, days=back)
    assert due(desk).why == ""
    shard = desk.corpus.shards[0]
    first = shard.segments[shard.in_day(DAY)[0]]
    doubling = make_segment(
        shard.shard_id,
        DAY.first_minute - 1,
        first.records[:3],
        first.metadata.after,
        "zombie",
        shard.segments[0].metadata,
    )
    archive_of(desk).put_if_absent(doubling.key, doubling.body, doubling.fields, "application/gzip")
    assert due(desk).doubted is not None
    assert desk.compact().verdict == "defects"


class _ExpiredBeside(PassingStorage):
    """An archive whose day is expired by another host as soon as it is listed."""

    def __init__(self, storage: Storage, expires: Callable[[], None]) -> None:
        super().__init__(storage)
        self._expires: Callable[[], None] | None = expires

    def list_objects(self, prefix: str) -> Iterator[ListedObject]:
        """Expire, once, and list."""
        self._expire(prefix)
        return super().list_objects(prefix)

    def list_level(self, prefix: str) -> Listing:
        """Expire, once, and list."""
        self._expire(prefix)
        return super().list_level(prefix)

    def _expire(self, prefix: str) -> None:
        if prefix.startswith(DAY.path(PREFIX)) and self._expires is not None:
            expires, self._expires = self._expires, None
            expires()

    def _send(self, request: Callable[[], T]) -> T:
        return request()


def test_a_day_that_is_expired_beside_the_night_stays_clean(desk: Desk) -> None:
    """What the night misses was deleted by this verdict: giving it up would block the day for ever."""
    pointer = desk.publisher().current().pointer
    assert pointer is not None
    context = desk.context()
    beside = _ExpiredBeside(
        context.archive.storage, lambda: expire(desk, pointer.generation, days=0, manifest=pointer.manifest)
    )
    context = context._replace(archive=RetryingStorage(beside, context.archive.new_backoff))
    found = find_due(context, desk.out, AuditOptions(), 14).by_day[DAY]
    assert found.doubted is not None
    with pytest.raises(WorkFailed) as caught:
        do_due(context, found, CompactOptions(AuditOptions(), desk.out))
    assert (caught.value.is_withdrawn, "expired meanwhile" in str(caught.value)) == (False, True)
    assert desk.publisher().current().pointer == pointer
    assert settled(desk).exit_code == 0


@pytest.mark.parametrize("is_day_gone", [True, False])
def test_an_expired_day_before_the_window_whose_output_is_gone_is_named(desk: Desk, *, is_day_gone: bool) -> None:
    """Nothing else holds its records; its turn comes even where no folder is left."""
    pointer = desk.publisher().current().pointer
    assert pointer is not None
    expire(desk, pointer.generation, days=0)
    folder = desk.publisher().folder
    gone = [row.key for row in desk.storage.list_objects(folder.path)] if is_day_gone else [folder.pointer]
    desk.storage.delete(gone)
    desk.clock = ManualClock(DAY.shift(40).begin_ms + 3_600_000)
    assert DAY in find_due(desk.context(), desk.out, AuditOptions(), 14).older.open_days
    turns = 0
    for _ in range(8):
        turns += DAY in {each.day for each in find_due(desk.context(), desk.out, AuditOptions(), 14).older.in_turn}
        desk.clock.advance(86_400)
    assert turns >= 1


def test_a_kept_object_of_an_expired_day_that_is_gone_is_named(desk: Desk) -> None:
    """The end of a shard's chain is read from it."""
    pointer = desk.publisher().current().pointer
    assert pointer is not None
    expire(desk, pointer.generation, days=0)
    raw, key = archive_of(desk), desk.corpus.shards[2].segments[-1].key
    path = Path(raw.uri(tombstone_key(PREFIX, DAY)))
    stone = msgspec.json.decode(path.read_bytes())
    stone["shards"][desk.corpus.shards[2].shard_id]["kept"] = [key]
    path.write_bytes(msgspec.json.encode(stone))
    row = settled(desk)
    assert (row.exit_code, key in row.reason, "restore" in row.next_step) == (4, True, True)


def test_a_blocked_day_that_no_table_was_compared_with_is_not_the_same_there() -> None:
    """It counts as open by itself, not as one that the table alone lacks."""
    blocked = Compacted("held", None, None, "unknown", reason="damaged")
    rows = [
        row_of_due(DueDay(DAY, word, is_expired=True), blocked, word, "unknown", has_table=True)
        for word in ("expired", "clean", "none")
    ]
    assert [row.table for row in rows] == ["held", "held", "same"]
    assert count_due(rows[:1]).days_open == 1


def desk_audit(desk: Desk) -> bytes:
    """Return the key of the audit that the pointer names."""
    published = desk.publisher().current().pointer
    assert published is not None
    return published.audit.encode()


def test_a_window_begins_with_the_application_and_not_with_the_first_object(desk: Desk) -> None:
    """A day of which nothing was archived has a row; also one that was published, and of which nothing is left."""
    raw, desk.clock = archive_of(desk), ManualClock(DAY.shift(4).begin_ms + 3_600_000)
    raw.delete([row.key for row in raw.list_objects(PREFIX) if make_row(PREFIX, row).parsed is not None])
    days = [each.day for each in find_due(desk.context(), desk.out, AuditOptions(), 14).days]
    assert days == [DAY, DAY.shift(1), DAY.shift(2), DAY.shift(3)]


def test_a_prefix_without_anything_is_refused(tmp_path: Path) -> None:
    """It is a wrong one, or no consumer has ever run: no rows, and exit code 0, would look like a good night."""
    desk = Desk(tmp_path)
    raw = archive_of(desk)
    raw.delete([row.key for row in raw.list_objects("")])
    with pytest.raises(SettingsError, match="nothing is archived at"):
        find_due(desk.context(), desk.out, AuditOptions(), 14)


def test_an_expired_day_of_the_window_has_a_row_when_nothing_is_left_of_it(desk: Desk) -> None:
    """Its table follows it, too."""
    raw, expired = archive_of(desk), DAY.shift(-2)
    raw.put_if_absent(f"{PREFIX}_expired/{expired}.json", b"{}", {}, "application/json")
    assert expired in {each.day for each in find_due(desk.context(), desk.out, AuditOptions(), 14).days}


def test_a_day_that_was_held_and_is_repaired_is_counted_as_published(desk: Desk) -> None:
    """The run that withdrew it had counted the rows of other objects."""
    raw = archive_of(desk)
    key = [row.key for row in raw.list_objects(DAY.path(PREFIX)) if make_row(PREFIX, row).parsed is not None][2]
    stored = raw.get(key)
    assert stored is not None
    raw.delete([key])
    assert desk.compact().state == "held"
    raw.put_if_absent(key, stored.body, stored.metadata, "application/gzip")
    assert desk.compact().verdict == "clean"
    pointer, manifest = desk.publisher().published()
    assert pointer is not None
    assert manifest is not None
    assert desk.publisher().damage(pointer, manifest) == ""
    assert due(desk) == DueDay(DAY, "clean")


@in_one_thread()
def test_a_damaged_mark_concerns_its_day_and_the_one_before() -> None:
    """A night reads the marks of several days at once, a judgement does not: no day is judged again for ever."""
    stage = Stage(until=5)
    stage.world.clock.advance(60)
    stage.site.night(6)
    for offset in (-1, 0, 1, 2):
        copy = stage.copy()
        CHANGES["foreign mark added"](copy.archive, table.DAY.shift(offset))
        assert bool(copy.why()) == (offset in {0, 1}), offset


def test_a_new_finding_that_blocks_an_accepted_day_ends_its_acceptance(tmp_path: Path) -> None:
    """Both verdicts are `defects`, and readers see no accepted day where nobody accepted what is wrong now."""
    desk = Desk(tmp_path)
    desk.clock.advance(2 * 86_400)
    raw = open_storage(desk.archive)
    lost, broken = (desk.corpus.shards[0].segments[number] for number in (3, 4))
    raw.delete([lost.key])
    assert desk.compact(accept="it is lost").accepted == "it is lost"
    assert due(desk).pointer == "accepted"
    raw.delete([broken.key])
    raw.put_if_absent(broken.key, broken.body[:20], broken.fields, "application/gzip")
    for _ in range(2):
        assert desk.compact().state == "held"
        assert (due(desk).pointer, due(desk).why) == ("defects", "it is not clean")


def test_the_table_follows_what_stays_published_of_a_day_that_is_blocked(tmp_path: Path) -> None:
    """The commit of the run before was lost; the verdict is withdrawn, and the rows stay readable everywhere."""
    place = tmp_path / "warehouse"
    catalog = SqlCatalog("default", uri=f"sqlite:///{tmp_path / 'catalog.sqlite'}", warehouse=f"file://{place}")
    table, desk = IcebergTable(catalog, "events.raw"), Desk(tmp_path)
    desk.clock.advance(2 * 86_400)
    assert desk.compact().state == "published"
    broken = desk.corpus.shards[0].segments[3]
    raw = open_storage(desk.archive)
    raw.delete([broken.key])
    raw.put_if_absent(broken.key, broken.body[:20], broken.fields, "application/gzip")
    states = []
    for _ in range(2):
        done = desk.compact(table=table)
        states.append((done.state, done.table and done.table.state))
    assert states == [("held", "committed"), ("held", "already")]
    assert catalog.load_table("events.raw").scan().count() == len(desk.published_rows())
    catalog.close()


def test_a_published_file_that_is_in_the_table_twice_is_mended_by_a_commit(tmp_path: Path) -> None:
    """Somebody added it again with the check for duplicates off: each of its rows was there twice."""
    place = tmp_path / "warehouse"
    catalog = SqlCatalog("default", uri=f"sqlite:///{tmp_path / 'catalog.sqlite'}", warehouse=f"file://{place}")
    table, desk = IcebergTable(catalog, "events.raw"), Desk(tmp_path)
    assert desk.compact(table=table).state == "published"
    (file,) = (row.key for row in desk.storage.list_objects(desk.out.prefix) if "/part-" in row.key)
    lake = catalog.load_table("events.raw")
    lake.add_files([f"file://{desk.storage.uri(file)}"], check_duplicate_files=False)
    assert lake.scan().count() == 2 * len(desk.published_rows())
    states = [(done.table and done.table.state) for done in (desk.compact(table=table), desk.compact(table=table))]
    assert states == ["committed", "already"]
    assert catalog.load_table("events.raw").scan().count() == len(desk.published_rows())
    catalog.close()


def delete_a_row(lake: Table, path: Path) -> None:
    """Delete one row of the table, as an engine that copies on write does."""
    pq.write_table(lake.scan().to_arrow().slice(1), path)
    with lake.transaction() as transaction, transaction.update_snapshot().overwrite() as overwrite:
        for task in lake.scan().plan_files():
            overwrite.delete_data_file(task.file)
        overwrite.append_data_file(parquet_file_to_data_file(lake.io, lake.metadata, f"file://{path}"))


def test_a_table_whose_rows_are_not_those_committed_holds_its_day(tmp_path: Path) -> None:
    """Somebody deleted a row there, and the day is published anew: the row says both."""
    place = tmp_path / "warehouse"
    catalog = SqlCatalog("default", uri=f"sqlite:///{tmp_path / 'catalog.sqlite'}", warehouse=f"file://{place}")
    table, desk = IcebergTable(catalog, "events.raw"), Desk(tmp_path)
    desk.clock.advance(2 * 86_400)
    assert desk.compact(table=table).state == "published"
    delete_a_row(catalog.load_table("events.raw"), tmp_path / "copied.parquet")
    desk.archive_more()
    found = due(desk)
    done = do_due(desk.context()._replace(table=table), found, CompactOptions(AuditOptions(), desk.out))
    row = row_of_due(found, done, done.verdict, "unknown", has_table=True)
    assert (row.state, row.pointer, row.done) == ("published", "unknown", ("rewritten", "withdrawn"))
    assert (row.table, row.exit_code, "were committed" in row.reason) == ("held", 6, True)
    assert "find out who writes to the table" in row.next_step
    assert count_due([row]).days_not_in_table == 1
    catalog.close()


CONFLICT = TableCommit("cat.ns.t", "held", "", 0, (Conflict("price", "string", "int64"),))


def test_an_expired_day_that_the_table_holds_out_has_the_code_of_the_table() -> None:
    """As a clean one."""
    done = Compacted("already", None, None, "clean", table=CONFLICT)
    for each in (DueDay(DAY, "clean"), DueDay(DAY, "expired", is_expired=True)):
        row = row_of_due(each, done, each.pointer, "unknown", has_table=True)
        assert (row.exit_code, row.table, "price" in row.reason) == (2, "held", True)


def test_a_blocked_day_has_the_worse_code_of_audit_and_table() -> None:
    """And says both."""
    refused = CatalogRefused("no permission", next_step="grant it")
    done = Compacted("held", None, None, "unknown", table_error=refused)
    row = row_of_due(DueDay(DAY, "none", "it is not published"), done, "none", "unknown", has_table=True)
    assert (row.exit_code, row.table, row.done) == (2, "away", ("blocked",))
    assert row.reason == "blocked by unknown; it began with: it is not published; no permission"
    assert row.next_step.endswith("; grant it")


def test_fail_on_defects_holds_for_a_day_that_a_night_could_not_prove() -> None:
    """Readers see the verdict that this night gave: no other run has published it."""
    done = Compacted("published", None, None, "unknown")
    each = DueDay(DAY, "none", "it is not published")
    codes = [row_of_due(each, done, "unknown", fail_on).exit_code for fail_on in FAIL_ON]
    assert dict(zip(FAIL_ON, codes, strict=True)) == {"defects": 0, "unknown": 4}


def test_facts_that_are_gone_make_a_day_due(desk: Desk) -> None:
    """They are made again while all objects are as they were: later nobody could say what one was."""
    desk.storage.delete([row.key for row in desk.storage.list_objects(desk.out.prefix) if "/_facts/" in row.key])
    assert "facts below" in due(desk).why
    assert desk.compact().verdict == "clean"
    assert due(desk) == DueDay(DAY, "clean")


def test_the_lines_of_a_day_that_is_held_are_read_once(desk: Desk) -> None:
    """What blocks a day for a week is told each night, by its facts, and leaves no copy of its Parquet each time."""
    lost = desk.corpus.shards[0].segments[3]
    archive_of(desk).delete([lost.key])
    desk.archive_more()
    assert desk.compact().state == "held"
    files = {row.key for row in desk.storage.list_objects(desk.out.prefix) if "/part-" in row.key}
    for _ in range(3):
        desk.clock.advance(86_400)
        done = desk.compact(engine=no_engine)
        assert (done.state, done.verdict) == ("held", "defects")
    assert {row.key for row in desk.storage.list_objects(desk.out.prefix) if "/part-" in row.key} == files
    archive_of(desk).put_if_absent(lost.key, lost.body, lost.fields, "application/gzip")
    assert desk.compact().verdict == "clean"


def planned(desk: Desk, audit: AuditOptions | None = None) -> str:
    """Return what a dry run says."""
    options = CompactOptions((audit or AuditOptions())._replace(published=desk.out), desk.out)
    return plan_dry_run(desk.context(), DAY, options).action


def test_a_dry_run_decides_as_a_night_does(desk: Desk) -> None:
    """A day whose objects are as they were may have lost what proved it."""
    assert planned(desk) == "nothing to do"
    raw = archive_of(desk)
    raw.delete([row.key for row in raw.list_objects(f"{PREFIX}_read/")])
    assert planned(desk) == "would be judged again: its marks are others"
    raw.delete([next(row.key for row in raw.list_objects(DAY.path(PREFIX)))])
    assert planned(desk) == "would be rewritten"


def test_a_dry_run_says_what_becomes_of_a_day_that_was_stored_again_or_expired(desk: Desk) -> None:
    """The same contents are compared and not read anew; without raw objects nothing can be."""
    desk.store_again(desk.corpus.shards[0].segments[desk.corpus.shards[0].in_day(DAY)[3]], 30)
    assert planned(desk).startswith("would be judged again: objects came, went or changed")
    published = desk.publisher().current().pointer
    assert published is not None
    expire(desk, published.generation, days=0)
    assert planned(desk) == "would stay as it was published: its raw objects were expired"


def test_a_dry_run_of_a_part_says_that_it_is_judged_again(tmp_path: Path) -> None:
    """Where what its own verdict rests on has changed, and not because hours came since."""
    desk = Desk(tmp_path)
    part = AuditOptions(so_far_ms=DAY.begin_ms + 11 * 3_600_000)
    assert desk.compact(audit=part).verdict == "clean"
    assert planned(desk, part) == "nothing to do"
    desk.store_again(desk.corpus.shards[0].segments[desk.corpus.shards[0].in_day(DAY)[0]], 30)
    assert planned(desk, part).startswith("would be judged again: it is published until")
    assert planned(desk) == "would be rewritten"


def test_a_dry_run_says_that_an_expired_day_would_be_blocked(desk: Desk) -> None:
    """An older pointer was put back: for one day, and for a night."""
    put_older_pointer_back(desk)
    assert "was published then" in planned(desk)
    assert planned(desk).startswith("would be held: its raw objects were expired")
    found, options = due(desk), CompactOptions(AuditOptions(), desk.out)
    objection = objection_to_expired(desk.context(), desk.publisher().storage, DAY, options, found.tombstone)
    assert row_of_due_plan(found, objection).reason.startswith("would be blocked: its raw objects were expired, and")


@pytest.mark.parametrize("how", ["cut", "gone"])
def test_a_dry_run_says_that_a_damaged_pointer_is_replaced(desk: Desk, how: str) -> None:
    """As the run does."""
    path = Path(desk.storage.uri(desk.publisher().folder.pointer))
    path.unlink() if how == "gone" else path.write_bytes(path.read_bytes()[:20])
    assert planned(desk) == "would be rewritten"


def garble(desk: Desk) -> bytes:
    """Write other bytes over a published file, as many; return what was there."""
    (key,) = (row.key for row in desk.storage.list_objects(desk.out.prefix) if "/part-" in row.key)
    path = Path(desk.storage.uri(key))
    body = path.read_bytes()
    path.write_bytes(body[:200] + bytes(200) + body[400:])
    return body


def test_a_published_file_that_is_overwritten_is_written_again(desk: Desk) -> None:
    """By its ETag: it has the size that was published. The next night finds nothing to do."""
    garble(desk)
    assert "is not the file that was published" in due(desk).why
    assert desk.compact().state == "published"
    assert len(desk.published_rows()) == desk.corpus.records
    assert due(desk) == DueDay(DAY, "clean")


def test_a_verdict_that_is_given_again_keeps_the_etags_of_its_files(tmp_path: Path) -> None:
    """The files are those of the first publication, and so is what they are compared with."""
    desk, proof = unproven(tmp_path)
    desk.clock.advance(2 * 86_400)
    desk.corpus.shards[2].checkpoint = proof
    assert desk.compact().done == ("judged again",)
    desk.store_again(desk.corpus.shards[0].segments[3], 30)
    assert desk.compact().verdict == "clean"
    garble(desk)
    assert "is not the file that was published" in due(desk).why


def test_a_day_of_an_earlier_release_takes_the_etags_of_its_files(desk: Desk) -> None:
    """Its audit has none: the first judgement takes those that it finds."""
    published = desk.publisher().current().pointer
    assert published is not None
    path = Path(desk.storage.uri(published.audit))
    audit = decode_audit(path.read_bytes())
    assert audit.basis is not None
    basis = msgspec.structs.replace(audit.basis, files=())
    path.write_bytes(encode_audit(msgspec.structs.replace(audit, basis=basis)))
    assert due(desk) == DueDay(DAY, "clean")
    assert desk.compact().done == ("judged again",)
    garble(desk)
    assert "is not the file that was published" in due(desk).why


def test_a_file_of_an_expired_day_that_is_overwritten_is_named(desk: Desk) -> None:
    """Nothing can make it again. One that was restored has another ETag, and is known by its bytes."""
    published = desk.publisher().current().pointer
    assert published is not None
    body = garble(desk)
    expire(desk, published.generation, days=0)
    rows = [settled(desk) for _ in range(2)]
    assert [row.done for row in rows] == [("withdrawn", "blocked"), ("blocked",)]
    assert all((row.exit_code, "is not the file" in row.reason) == (4, True) for row in rows)
    (key,) = (row.key for row in desk.storage.list_objects(desk.out.prefix) if "/part-" in row.key)
    Path(desk.storage.uri(key)).write_bytes(body)
    desk.storage = Rewrapped(Path(desk.out.address.root), [key])
    found = due(desk)
    options, storage = CompactOptions(AuditOptions(), desk.out), desk.publisher().storage
    done = settle_day(desk.context(), storage, DAY, options, found.tombstone, is_expired=True)
    assert (done.state, done.verdict) == ("already", "clean")
    now = desk.publisher().current().pointer
    assert now is not None
    assert (now.verdict, now.manifest) == ("clean", published.manifest)


def test_a_blocked_day_is_named_with_its_age(desk: Desk) -> None:
    """And with what blocks it, and what to do."""
    archive_of(desk).delete([desk.corpus.shards[0].segments[3].key])
    found = due(desk)
    done = do_due(desk.context(), found, CompactOptions(AuditOptions(), desk.out))
    row = row_of_due(found, done, "defects", "unknown", today=DAY.shift(5))
    assert row.reason.startswith("blocked by broken_chain, 4 day(s) after its end; it began with: objects came, went")
    assert row.next_step.startswith(f"minutebook audit --date {DAY} shows it")


def test_a_day_that_another_run_withdrew_meanwhile_is_named(desk: Desk) -> None:
    """The run itself judged it clean: its row says what readers see, and the exit code is not 0."""
    segment = desk.corpus.shards[0].segments[3]
    archive_of(desk).delete([segment.key])
    archive_of(desk).put_if_absent(segment.key, segment.body, segment.fields, "application/gzip")
    found = due(desk)
    done = do_due(desk.context(), found, CompactOptions(AuditOptions(), desk.out))
    assert done.verdict == "clean"
    row = row_of_due(found, done, "defects", "unknown")
    assert (row.exit_code, row.reason) == (4, "another run has published it meanwhile: readers see defects")


def test_the_segment_that_those_at_the_edge_stand_on_is_looked_at(tmp_path: Path) -> None:
    """Of a shard with a segment in the last minute before the day, and one long before that, which is deleted.

    A break below the segment at the edge reaches into the day, by which an audit calls it broken.
    """
    world = World(tmp_path / "raw", 1, begin_ms=FIRST_DAY.begin_ms, shards=1)
    (shard,) = world.readings
    for number, minute in ((0, 1), (1, 1), (1, 1439), (2, 1), (2, 700), (3, 1)):
        world.arrive(shard, FIRST_DAY.shift(number).first_minute + minute)
    for hour in range(8, 72, 8):
        world.at(FIRST_DAY.begin_ms + hour * HOUR + 5 * MINUTE_MS, world.read_on)
    site = Site(tmp_path / "out", world)
    world.live_until(FIRST_DAY.shift(3).begin_ms + 40 * MINUTE_MS)
    day = FIRST_DAY.shift(2)
    assert site.night(5).rows[day].pointer == "clean"
    world.clock.advance(60)
    world.delete(world.segments(FIRST_DAY.shift(1))[0])
    world.clock.advance(60)
    found = find_due(site.context(), site.place, AuditOptions(), 5).by_day[day]
    assert found.why == f"{shard} is another one before it"
    assert audit_day(site.context(), day, AuditOptions()).audit.verdict == "defects"


def published(tmp_path: Path, minutes: dict[int, tuple[int, ...]], stepping: tuple[int, int], shards: int) -> Site:
    """Publish three days, by the minutes of each in which the first shard's records arrive; find nothing due of them.

    Behind the `stepping` minute of a day, the next stamps step back into the minute before it. The other shards are
    quiet from the first minute of the first day on.
    """
    world = World(tmp_path / "raw", 1, begin_ms=FIRST_DAY.begin_ms, shards=shards)
    busy, *quiet = world.readings
    for name in quiet:
        world.arrive(name, FIRST_DAY.first_minute + 1)
    for number, of_day in minutes.items():
        for minute in of_day:
            world.arrive(busy, FIRST_DAY.shift(number).first_minute + minute)
            if (number, minute) == stepping:
                world.step_back(busy, FIRST_DAY.shift(number).first_minute + minute)
    for hour in range(8, 104, 8):
        world.at(FIRST_DAY.begin_ms + hour * HOUR + 5 * MINUTE_MS, world.read_on)
    site = Site(tmp_path / "out", world)
    world.live_until(FIRST_DAY.shift(3).begin_ms + 40 * MINUTE_MS)
    assert {row.pointer for row in site.night(5).rows.values()} == {"clean"}
    world.clock.advance(60)
    found = find_due(site.context(), site.place, AuditOptions(), 5).by_day
    assert {day: each.why for day, each in found.items()} == {FIRST_DAY.shift(number): "" for number in range(3)}
    return site


def test_a_day_before_which_stamps_step_back_out_of_the_edge_is_left_alone(tmp_path: Path) -> None:
    """Its nearest neighbour lies in an earlier minute than the segment before that."""
    published(tmp_path, {0: (1,), 1: (1, 1437), 2: (1, 700), 3: (1,)}, (1, 1437), shards=1)


def test_a_day_behind_which_stamps_step_back_into_the_edge_is_left_alone(tmp_path: Path) -> None:
    """Also beside a quiet shard: a judgement lists whole hours for it, and a night has its rows of them alone."""
    each = (1, 1435, 1439)
    published(tmp_path, {0: each, 1: each, 2: (1, 3, 1435, 1439), 3: (1,)}, (2, 3), shards=2)


def test_a_segment_at_the_edge_whose_stamps_step_back_out_of_it_is_looked_at(tmp_path: Path) -> None:
    """It is deleted: a break between two segments at the edge reaches into the day."""
    site = published(tmp_path, {0: (1,), 1: (1, 1437, 1439), 2: (1, 700), 3: (1,)}, (1, 1437), shards=1)
    day, before = FIRST_DAY.shift(2), FIRST_DAY.shift(1)
    (gone,) = site.world.store.list_objects(f"{PREFIX}{minute_path(before.first_minute + 1436)}/")
    site.world.delete(gone.key)
    found = find_due(site.context(), site.place, AuditOptions(), 5).by_day[day]
    assert found.why == "shardId-000000000000 is another one before it"
    assert audit_day(site.context(), day, AuditOptions()).audit.verdict == "defects"


def test_a_checkpoint_that_passes_a_quiet_shard_later_leaves_clean_days_alone(tmp_path: Path) -> None:
    """Their times were proven without it: a segment that is gone was stored later, and blocks what comes."""
    site = published(tmp_path, {0: (1,), 1: (1, 700)}, (0, 0), shards=1)
    (shard,) = site.world.readings
    site.world.ahead[shard] = 7
    site.world.live_until(FIRST_DAY.shift(4).begin_ms + 40 * MINUTE_MS)
    night = site.night(5)
    done = {day: (row.pointer, row.done) for day, row in night.rows.items()}
    new = FIRST_DAY.shift(3)
    assert done.pop(new) == ("none", ("blocked",))
    assert set(done.values()) == {("clean", ("nothing",))}
    assert audit_day(site.context(), FIRST_DAY.shift(1), AuditOptions()).audit.verdict == "defects"


class _Recorded(PassingStorage):
    """A storage that notes which keys are read."""

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage)
        self.keys: list[str] = []

    def get(self, key: str) -> StoredObject | None:
        """Return the object."""
        self.keys.append(key)
        return super().get(key)

    def _send(self, request: Callable[[], T]) -> T:
        return request()


def test_what_is_published_of_a_day_is_checked_once_a_night(desk: Desk) -> None:
    """The search for what is due has read inventory and audits of a day that is as it was."""
    assert due(desk) == DueDay(DAY, "clean")
    recorded = _Recorded(open_storage(desk.out.address))
    out = RetryingStorage(recorded, desk.context().archive.new_backoff)
    options = CompactOptions(AuditOptions(), desk.out)
    assert settle_day(desk.context(), out, DAY, options, is_expired=False).state == "already"
    assert not [key for key in recorded.keys if "inventory" in key or "audit" in key]
