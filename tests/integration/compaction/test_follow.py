"""`minutebook follow` on an archive, its nights, and a real table: what one commits, the others take over."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.dynamodb import DynamoDbCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from structlog.testing import capture_logs

from compaction.columns.event_time import with_event_time
from compaction.columns.files.columns_file import read_columns
from compaction.commands.follow import Gauges
from compaction.follow.columns import FollowedColumns
from compaction.follow.copies import CopiesLeftOut, check_keeps_all
from compaction.follow.day import FollowedDay
from compaction.follow.follower import COMPLETE_UNTIL, Follower, Tick
from compaction.live import parts
from compaction.live.day import JOIN_PARTS, LiveDay
from compaction.live.sweep import sweep_live
from compaction.tables.catalog import opened_followed, opened_table
from compaction.tables.history import ROWS_UNTIL
from compaction.tables.shape import TABLE_SCHEMA
from compaction.tables.table import IcebergTable
from compaction.tasks.task import Order, TaskResult
from minutebook.clock import SystemClock
from minutebook.errors import CatalogRefused, OutcomeUnknown, SettingsError, StoreRefused
from minutebook.format.boundaries import CompleteMarker, encode_boundary, marker_key
from minutebook.format.day import Day
from minutebook.format.metadata import ChainStart
from minutebook.format.minute import MINUTE_MS, iso_time, parse_iso_time
from minutebook.format.position import Position
from minutebook.published.generation import DayFolder, Pointer
from minutebook.published.live import decode_live_pointer, live_folder, live_pointer_key
from minutebook.published.schema import SCHEMA
from minutebook.reader import live
from minutebook.reader.live import open_live
from minutebook.store.directory_storage import DirectoryStorage
from minutebook.store.places import StorePrefix
from minutebook.store.storage import Address, ObjectChanged
from tests.corpus.auditing import in_process
from tests.corpus.model import PREFIX
from tests.corpus.shelf import Shelf
from tests.fakes.clock import SkewedClock
from tests.fakes.failing_catalog import FailingCatalog, Fault
from tests.fakes.failing_storage import Crash, crash_points
from tests.follows.house import Between, follow_ports
from tests.integration.lake import local_lake
from tests.lives.night import OUT, Site
from tests.lives.store import IndexedDirectory, Interruptions
from tests.lives.world import FIRST_DAY, HOUR, Sent, World, Written
from tests.searching import one_in

DAY: Final = FIRST_DAY
Name = tuple[str, str, int]


class Pond:
    """A world of two shards, its nights, and a table in a SQLite catalog."""

    def __init__(self, folder: Path) -> None:
        self.lake = local_lake(folder)
        self.world = World(folder / "raw", 7, begin_ms=DAY.begin_ms, shards=2)
        self.site = Site(folder / "days", self.world)
        self.between = Between()
        self.catalogs: list[Any] = []
        self.columns = folder / "columns.toml"
        self.follower = self.new_follower()

    def table(self, fault: Fault | None = None) -> IcebergTable:
        """Open the table as another process does."""
        self.catalogs.append(self.lake.catalog(fault))
        return IcebergTable(self.catalogs[-1], self.lake.name)

    def new_follower(self, fault: Fault | None = None) -> Follower:
        """Start a process that follows."""
        columns = FollowedColumns(self.columns) if self.columns.exists() else None
        follower = Follower(follow_ports(self.site, self.table(fault), self.between)._replace(columns=columns))
        # pyiceberg stamps snapshots by the machine's clock, which is in the world's past.
        follower._expired_ms = self.world.clock.now_ms()
        return follower

    def with_columns(self, text: str) -> None:
        """Write the file of columns; the process and the nights have it from the next tick and run on."""
        is_first = not self.columns.exists()
        self.columns.write_text(text)
        self.site.options = self.site.options._replace(columns=read_columns(self.columns, SCHEMA.names))
        if is_first:
            self.follower = self.new_follower()

    def tick_with(self, minute: int, *payloads: bytes, shard: int = 0) -> Tick:
        """Let a segment with these payloads come, and do a tick."""
        segment = self.written(minute, shard)
        records = [each._replace(data=data) for each, data in zip(segment.records, payloads, strict=True)]
        self.world.put_segment(segment._replace(records=records))
        self.live_until(minute + 1)
        return self.tick_through()

    def values(self, *names: str) -> list[tuple[Any, ...]]:
        """Return columns of the table's rows, in the order of positions; each row once."""
        at = [(row["sequence_number"], row.get("event_index", row.get("number")) or 0) for row in self.lake.rows()]
        rows = [row for _, row in sorted(zip(at, self.lake.rows(), strict=True), key=lambda pair: pair[0])]
        assert len(rows) == len({*at})
        return [tuple(row.get(name) for name in names) for row in rows]

    def arrive(self, minute: int, shard: int = 0) -> None:
        """Let records come to a shard in a minute of the day."""
        self.world.arrive(f"shardId-{shard:012d}", DAY.first_minute + minute)

    def written(self, minute: int, shard: int = 0) -> Written:
        """Return a segment of two records."""
        minute, name = minute + DAY.first_minute, f"shardId-{shard:012d}"
        begin = (shard + 1) * 10**24 + minute * 10
        records = [Sent(name, Position(begin + at), minute * MINUTE_MS + at, b"{}") for at in range(2)]
        return Written(name, minute, records, ChainStart("TRIM_HORIZON"), f"writer-{minute}")

    def readable(self) -> Counter[Name]:
        """Return what a reader of live days sees of the day."""
        raw = StorePrefix(Address(None, str(self.world.store.root)), PREFIX)
        rows = open_live("out", self.site.place, raw, [DAY]).to_reader().read_all().to_pylist()
        return Counter((row["shard_id"], row["sequence_number"], 0) for row in rows)

    def show_zombie(self) -> tuple[Counter[Name], str, Callable[[], None]]:
        """Let a zombie's segment be shown, and the one that it overlaps not be there.

        Returns what is archived with that one, the zombie's key, and what puts that one in the zombie's place.
        """
        self.arrive(10)
        self.live_until(30)
        rows, [key], store = self.archived(), self.world.archive, self.world.store
        zombie, stored = self.world.double(key), store.get(key)
        assert zombie is not None
        assert stored is not None
        store.delete([key])
        self.tick()

        def put_back() -> None:
            store.delete([zombie])
            store.put_if_absent(key, stored.body, stored.metadata, "application/gzip")

        return rows, zombie, put_back

    def live(self) -> LiveDay:
        """Return the live parts of the day, as a night has them."""
        context = self.site.context()
        publisher = self.site.publisher(DAY)
        return LiveDay(publisher, context.archive, PREFIX, context.clock, context.new_id)

    def published(self) -> Pointer:
        """Let the day be published without the table; return its pointer."""
        self.site.table = None
        self.site.night(12)
        pointer = self.site.publisher(DAY).current().pointer
        assert pointer is not None
        return pointer

    def live_until(self, minute: int) -> None:
        """Let time pass, to a minute of the day and eight seconds."""
        self.world.live_until(DAY.begin_ms + minute * MINUTE_MS + 8_000)

    def complete_until(self, until_ms: int) -> int:
        """Let the workers prove that the archive is complete from the first day on until a time; return it."""
        begin, until = iso_time(DAY.begin_ms), iso_time(until_ms)
        marker = CompleteMarker(since=begin, boundary=until, shards={}, gaps=(), writer="w")
        self.world.store.put_if_absent(marker_key(PREFIX, until_ms), encode_boundary(marker), {}, "application/json")
        return until_ms

    def live_days(self, count: int, rest: int = 4 * HOUR) -> None:
        """Let some days pass since the first, with records and quiet shards that are read; and a time more."""
        for number in range(count + 1):
            if self.world.clock.now_ms() <= DAY.shift(number).begin_ms:
                self.world.plan_day(DAY.shift(number))
        self.world.live_until(DAY.shift(count).begin_ms + rest)

    def tick(self, follower: Follower | None = None) -> Tick:
        """Do a tick."""
        return (follower or self.follower).tick()

    def tick_through(self) -> Tick:
        """Do ticks until nothing waits, as the service does; return the last one."""
        while (tick := self.tick()).is_behind:
            pass
        return tick

    def be_told_twice(self) -> None:
        """Let records come in two minutes, and the table be told behind each that it is complete."""
        for minute in (10, 31):
            self.arrive(minute)
            self.live_until(minute + 20)
            until_ms = self.complete_until(DAY.begin_ms + (minute + 10) * MINUTE_MS)
            assert self.tick().complete_until_ms == until_ms

    def night(self) -> str:
        """Let a night run with the table; returns what it did with the table on the day."""
        self.site.table = self.table()
        night = self.site.night(3)
        return str(night.rows[DAY].table)

    def rows(self) -> Counter[Name]:
        """Return the positions in the table, each as often as it is there."""
        return Counter((str(row["shard_id"]), str(row["sequence_number"]), 0) for row in self.lake.rows())

    def archived(self) -> Counter[Name]:
        """Return the positions in the archive."""
        held = [sent for each in self.world.archive.values() for sent in each.records or ()]
        return Counter((sent.shard, str(sent.position.sequence), 0) for sent in held)

    def parts(self) -> int:
        """Count the live parts."""
        return len(self.digests())

    def files(self) -> int:
        """Count the files of live parts, those that no pointer names, too."""
        return len(list(self.site.out.list_objects(f"{live_folder(DayFolder(OUT, DAY))}part-")))

    def digests(self) -> list[str]:
        """Return the digest of each live part's columns."""
        folder = DayFolder(OUT, DAY)
        stored = self.site.out.get(live_pointer_key(folder))
        return [] if stored is None else [part.columns for part in decode_live_pointer(stored.body, folder).parts]


@pytest.fixture
def pond(tmp_path: Path) -> Pond:
    """Return a pond."""
    return Pond(tmp_path)


def test_rows_are_in_the_table_a_tick_after_they_are_archived(pond: Pond) -> None:
    """And it says until when; a tick without news commits nothing."""
    pond.arrive(10)
    pond.live_until(30)
    tick = pond.tick()
    assert (tick.exit_code, tick.rows, pond.rows()) == (0, pond.archived().total(), pond.archived())
    assert pond.lake.table(lambda table: table.properties[ROWS_UNTIL]) == iso_time(tick.begun_ms)
    pond.live_until(31)
    assert (pond.tick().rows, pond.lake.snapshots()) == (0, 1)


def _publish_before_the_last(pond: Pond) -> None:
    """Let a night publish a day of which one shard's last minute has not come yet."""
    pond.arrive(10)
    pond.live_until(30)
    pond.tick()
    pond.arrive(1439, 1)
    pond.world.pause("shardId-000000000001", DAY.end_ms + 3 * HOUR)
    pond.live_until(1440 + 30)
    pond.tick()
    assert pond.night() == "mended"


def test_a_night_takes_over_and_the_next_one_takes_what_came_late(pond: Pond) -> None:
    """What comes into a day that is published as a whole is the next night's."""
    _publish_before_the_last(pond)
    assert pond.rows() == (shown := pond.archived())
    pond.world.live_until(DAY.end_ms + 5 * HOUR)
    pond.tick()
    assert pond.rows() == shown != pond.archived()
    assert pond.night() == "mended"
    assert (pond.rows(), max(pond.rows().values())) == (pond.archived(), 1)


@pytest.mark.parametrize("request_number", one_in(3, range(20, 200, 15)))
def test_a_row_that_comes_while_a_night_works_stays_until_the_next(pond: Pond, request_number: int) -> None:
    """The night's inventory may not name its segment: its live part stays in the table."""
    pond.arrive(10)
    pond.arrive(1439, 1)
    pond.world.pause("shardId-000000000001", DAY.end_ms + 30 * MINUTE_MS)
    pond.live_until(1440 + 25)
    pond.tick()

    shown = list[Counter[Name]]()

    def meanwhile() -> None:
        pond.live_until(1440 + 45)
        pond.tick()
        shown.append(pond.rows())

    pond.site.table = pond.table()
    pond.site.night(3, Interruptions({request_number: meanwhile}))
    assert max(pond.rows().values()) == 1
    assert all(rows <= pond.rows() for rows in shown)
    pond.night()
    assert pond.rows() == pond.archived()


def test_a_part_of_a_day_takes_over_its_minutes_alone(pond: Pond) -> None:
    """A live part that lies on both sides of `until` is cut, though the objects behind it may be gone."""
    pond.arrive(58)
    pond.arrive(62)
    pond.live_until(180)
    assert pond.tick().segments == 2
    later = next(key for key in pond.world.archive if "/01/02/" in key)
    pond.site.table = pond.table()
    rows = pond.archived()

    def delete() -> None:
        """Once the run has read the object: it compares the table's columns before that."""
        if pond.site.publisher(DAY).current().pointer is None:
            pond.catalogs[-1].before_load = delete
        else:
            pond.world.store.delete([later])

    pond.catalogs[-1].before_load = delete
    done = pond.site.so_far(DAY, DAY.begin_ms + HOUR)
    assert (done.state, done.table and done.table.state) == ("published", "committed")
    assert (pond.rows(), pond.parts()) == (rows, 1)


def test_another_engine_rewrites_and_follow_goes_on(pond: Pond) -> None:
    """Then the next rows replace what it made of as many rows, and the night after finds what was committed."""
    for minute in (10, 40):
        pond.arrive(minute)
        pond.live_until(minute + 20)
        pond.tick()
        pond.lake.table(_optimize)
        assert pond.rows() == pond.archived()
    pond.live_until(1440 + 40)
    pond.tick()
    pond.lake.table(_optimize)
    assert pond.night() == "mended"
    assert pond.rows() == pond.archived()


def test_a_rollback_is_made_up_for(pond: Pond) -> None:
    """The next tick computes what the table should hold, and commits it."""
    snapshots = []
    for minute in (5, 22, 39):
        pond.arrive(minute)
        pond.live_until(minute + 17)
        pond.tick()
        snapshots.append(pond.lake.table(lambda table: table.current_snapshot().snapshot_id))
    pond.lake.table(lambda table: table.manage_snapshots().rollback_to_snapshot(snapshots[0]).commit())
    assert pond.rows() != pond.archived()
    pond.live_until(57)
    pond.tick()
    assert pond.rows() == pond.archived()


@pytest.mark.parametrize("moment", ["before_load", "before_commit"])
def test_two_followers_at_once_show_each_row_once(pond: Pond, moment: str) -> None:
    """The other one does a whole tick, with a segment more, right before the first one loads or commits."""
    pond.arrive(10)
    pond.live_until(30)
    other = pond.new_follower()
    first = pond.new_follower()

    def meanwhile() -> None:
        pond.arrive(31, 1)
        pond.live_until(50)
        pond.tick(other)

    setattr(pond.catalogs[-1], moment, meanwhile)
    pond.tick(first)
    assert pond.rows() == pond.archived()


def test_a_tick_that_dies_at_a_request_to_the_store_is_made_up_for(tmp_path: Path) -> None:
    """At each request, before it or behind it: what is visible is right, and the next process finishes it."""
    for step in crash_points():
        pond = Pond(tmp_path / str(step))
        pond.arrive(10)
        pond.live_until(30)
        pond.tick()
        pond.arrive(40)
        pond.live_until(60)
        before = pond.rows()
        died = Interruptions({step: _die}, after=step % 4 == 1)
        pond.between.use(died)
        try:
            pond.tick()
            is_over = True
        except Crash:
            is_over = False
        pond.between.use(Interruptions())
        assert pond.rows() in (before, pond.archived())
        pond.tick(pond.new_follower())
        assert pond.rows() == pond.archived()
        if is_over:
            return


def test_a_tick_that_dies_at_a_step_of_the_commit_is_made_up_for(tmp_path: Path) -> None:
    """At each request to the catalog and each file of the commit; lost answers, too."""
    for step in crash_points():
        for crash in (True, False):
            pond = Pond(tmp_path / f"{step}-{crash}")
            pond.arrive(10)
            pond.live_until(30)
            fault = Fault(step, applied=step % 4 == 1, crash=crash)
            follower = pond.new_follower(fault)
            try:
                with pond.catalogs[-1]:
                    pond.tick(follower)
            except Crash:
                assert crash
            assert pond.rows() in (Counter(), pond.archived())
            pond.live_until(31)
            pond.tick(pond.new_follower())
            assert pond.rows() == pond.archived()
        if not fault.reached:
            return


def test_many_small_parts_are_joined(pond: Pond, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty become one, and few manifests name them. A night that blocks the day leaves its rows in the table.

    Readers that leave out what removes files have seen each row all the same.
    """
    monkeypatch.setattr(IcebergTable, "expire", lambda *_: 0)
    parts = []
    for minute in range(JOIN_PARTS + 3):
        segment = pond.written(minute)
        pond.world.put_segment(segment._replace(dropped=segment.records if minute == 5 else ()))
        pond.live_until(minute + 1)
        pond.tick_through()
        parts.append(pond.parts())
    assert (max(parts), parts[-1]) == (JOIN_PARTS, 4)
    assert pond.rows() == pond.archived()
    assert pond.lake.table(_appended) == pond.rows().total()
    assert pond.lake.table(_manifests) < JOIN_PARTS // 10
    pond.live_until(1440 + 40)
    pond.night()
    assert pond.site.publisher(DAY).current().pointer is None
    assert pond.rows() == pond.archived()


def test_parts_are_joined_as_far_as_they_fit_into_memory(pond: Pond, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few kilobytes of a file may be gigabytes of rows; a part that is too large by itself is passed over."""
    monkeypatch.setattr("compaction.live.day.JOIN_PARTS", 5)
    monkeypatch.setattr("compaction.live.day._JOIN_BYTES", 100_000)
    for minute, size in enumerate([200_000, 10, 60_000, 60_000, 10, 10, 10]):
        pond.tick_with(minute, b"[" + b" " * size + b"1]", b"{}")
    pond.live_until(8)
    pond.tick()
    files = [row.size for row in pond.site.out.list_objects(f"{live_folder(DayFolder(OUT, DAY))}part-")]
    assert (pond.parts(), len(files)) == (6, 8)  # 10 and 60,000 are one
    assert pond.rows() == pond.archived()


@pytest.mark.parametrize("is_service", [True, False])
@pytest.mark.parametrize("size", [10_000, 24_000, 32_000])
def test_joined_parts_stop_no_later_join(
    pond: Pond, monkeypatch: pytest.MonkeyPatch, size: int, *, is_service: bool
) -> None:
    """Their files are small where rows are packed well, and no other fits beside one: each day would gather all.

    A process for each tick, as cron starts them, does not read all of them again to learn that.
    """
    reads, rows_of = [0], parts._rows
    monkeypatch.setattr("compaction.live.day.JOIN_PARTS", 4)
    monkeypatch.setattr("compaction.live.day._JOIN_BYTES", 64_000)

    def counted(*given: Any) -> Iterator[pa.Table]:  # noqa: ANN401 - as `_rows`
        reads[-1] += 1
        return rows_of(*given)

    monkeypatch.setattr(parts, "_rows", counted)
    for minute in range(24):
        if not is_service:
            pond.follower = pond.new_follower()
        pond.tick_with(minute, b"[" + b" " * size + b"1]", b"{}")
        reads.append(0)
    assert pond.parts() <= 24 * (size + 1_000) // 32_000 + 4
    assert max(reads) <= 6
    assert pond.rows() == pond.archived()


def test_an_object_that_is_gone_for_a_moment_is_listed_again(pond: Pond) -> None:
    """It is three hours old, and was listed: the last ten minutes alone would not show it again."""
    pond.arrive(10)
    pond.live_until(200)
    [key] = pond.world.archive
    stored = pond.world.store.get(key)
    assert stored is not None
    for number in range(1, 50):
        pond.between.use(Interruptions({number: lambda: pond.world.store.delete([key])}))
        follower = pond.new_follower()
        tick = pond.tick(follower)
        pond.between.use(Interruptions())
        pond.world.store.put_if_absent(key, stored.body, stored.metadata, "application/gzip")
        if not tick.rows_until_ms:
            break
    assert (tick.rows_until_ms, tick.exit_code, tick.left_out, pond.rows()) == (0, 0, 0, Counter())
    pond.live_until(201)
    tick = pond.tick(follower)
    assert (tick.rows_until_ms, pond.rows()) == (tick.begun_ms, pond.archived())


def test_parts_that_a_night_has_taken_over_are_not_joined(pond: Pond, monkeypatch: pytest.MonkeyPatch) -> None:
    """They leave the live pointer with the next part; nobody reads them once more, nor writes them."""
    monkeypatch.setattr("compaction.live.day.JOIN_PARTS", 3)
    for minute in (10, 30, 50):
        pond.arrive(minute)
        pond.live_until(minute + 20)
        pond.tick()
    assert pond.parts() == 3
    pond.live_until(180)
    pond.site.table = pond.table()
    assert pond.site.so_far(DAY, DAY.begin_ms + HOUR).state == "published"
    pond.tick()
    before = pond.files()
    pond.arrive(181)
    pond.live_until(201)
    pond.tick()
    assert (pond.files() - before, pond.parts()) == (1, 1)
    assert pond.rows() == pond.archived()


def test_follow_expires_its_own_snapshots_and_no_days_newest(pond: Pond) -> None:
    """What was recorded of a day is found beyond those that are gone: the night is not refused."""
    for minute in (10, 40, 70, 1441):
        pond.arrive(minute)
        pond.live_until(minute + 20)
        pond.tick(pond.new_follower())
    pond.lake.table(_optimize)
    before = pond.lake.snapshots()
    now_ms = SystemClock().now_ms() + 1000
    assert pond.table().expire(now_ms + 24 * HOUR - 60_000) == 0
    assert pond.table().expire(now_ms + 24 * HOUR) == 2
    assert pond.lake.snapshots() == before - 2
    assert pond.night() == "mended"
    assert pond.rows() == pond.archived()


def test_a_table_says_itself_how_long_its_snapshots_are_kept(pond: Pond) -> None:
    """By Iceberg's own property: with one a minute, an hour of them is a metadata file of a twentieth."""
    for minute in (10, 40, 70):
        pond.arrive(minute)
        pond.live_until(minute + 20)
        pond.tick(pond.new_follower())
    now_ms, table, age = SystemClock().now_ms() + 1000, pond.table(), "history.expire.max-snapshot-age-ms"
    table.set_properties({age: "1h"})
    with pytest.raises(CatalogRefused, match=f"{age} = '1h'"):
        table.expire(now_ms)
    table.set_properties({age: "3600000"})
    assert table.expire(now_ms + 3_540_000) == 0
    assert table.expire(now_ms + 3_600_000) == 2
    assert pond.rows() == pond.archived()


def test_a_clock_that_was_ahead_for_a_tick_holds_nothing_back(pond: Pond) -> None:
    """A shard that is an hour behind comes within twelve minutes, and the table is told of polls."""
    clock = SkewedClock(pond.world.clock, 5 * HOUR)
    pond.live_until(100)
    follower = Follower(follow_ports(pond.site, pond.table(), pond.between)._replace(clock=clock))
    pond.tick(follower)
    clock.skew_ms = 0
    pond.live_until(101)
    pond.tick(follower)
    pond.world.put_segment(pond.written(40))
    pond.live_until(112)
    tick = pond.tick(follower)
    assert (tick.rows, pond.rows()) == (2, pond.archived())
    assert pond.lake.table(lambda table: table.properties[ROWS_UNTIL]) == iso_time(tick.begun_ms)


def test_metadata_files_that_leave_the_log_go_where_the_table_says_so(pond: Pond) -> None:
    """By Iceberg's own properties: a commit each minute writes 1,440 a day."""
    pond.tick()
    kept = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "2"}
    pond.table().set_properties(kept)
    for minute in (5, 15, 25, 35):
        pond.arrive(minute)
        pond.live_until(minute + 20)
        pond.tick()
    folder = Path(pond.lake.table(lambda table: table.metadata_location).removeprefix("file://")).parent
    assert len([*folder.glob("*.metadata.json")]) == 3
    assert pond.rows() == pond.archived()


def test_processes_that_end_before_their_first_hour_expire_by_the_hour(pond: Pond) -> None:
    """With --once a table would gather all snapshots, and write them again with each commit."""
    for minute in (5, 15, 25):
        pond.arrive(minute)
        pond.live_until(minute + 20)
        pond.tick()
    due_ms = SystemClock().now_ms() + 24 * HOUR
    assert pond.table().expire(due_ms, HOUR) == 0
    pond.tick(Follower(follow_ports(pond.site, pond.table(), pond.between)))
    assert (pond.lake.snapshots(), pond.rows()) == (1, pond.archived())


def test_times_of_a_table_never_step_back(pond: Pond, monkeypatch: pytest.MonkeyPatch) -> None:
    """Iceberg's Java reads no such table: a host was an hour ahead for one commit, and is right again."""
    for minute, ahead in ((5, 0), (15, 3600), (25, 0)):
        host = SimpleNamespace(time=lambda ahead=ahead: SystemClock().now_ms() / 1000 + ahead)
        monkeypatch.setattr("pyiceberg.table.snapshots.time", host)
        pond.arrive(minute)
        pond.live_until(minute + 20)
        assert pond.tick().exit_code == 0
    for change in (lambda: pond.table().set_properties({"a": "b"}), lambda: pond.table().expire(2**45)):
        with pytest.raises(CatalogRefused, match="s in the future"):
            change()
    metadata = pond.lake.table(lambda table: table.metadata)
    times = [entry.timestamp_ms for entry in metadata.snapshot_log]
    assert (len(times), times) == (3, sorted(times))
    assert metadata.last_updated_ms == times[-1]
    assert pond.rows() == pond.archived()


def test_overlapping_segments_are_left_out_and_named(pond: Pond) -> None:
    """A zombie's segment repeats records of one that is shown: it is no row, before a night has judged it."""
    pond.arrive(10)
    pond.live_until(30)
    rows = pond.archived()
    assert pond.world.double(next(iter(pond.world.archive))) is not None
    tick = pond.tick()
    assert (tick.left_out, pond.rows()) == (1, rows)


def test_a_segment_that_overlaps_rows_of_an_earlier_tick_is_left_out(pond: Pond) -> None:
    """Its slot lies in a part that is shown: other parts need no look."""
    for minute in (10, 40):
        pond.arrive(minute)
        pond.live_until(minute + 20)
        assert pond.tick().left_out == 0
    rows = pond.archived()
    assert pond.world.double(next(iter(pond.world.archive))) is not None
    restarted = Follower(follow_ports(pond.site, pond.table(), pond.between))  # it lists the whole day
    assert (pond.tick(restarted).left_out, pond.rows()) == (1, rows)


def test_a_store_that_is_away_ends_nothing(pond: Pond) -> None:
    """The tick tells an error, the rows of before stay, and the next tick goes on."""
    pond.arrive(10)
    pond.live_until(30)
    pond.tick()
    pond.arrive(31)
    pond.live_until(50)

    def away() -> None:
        raise OSError(28, "No space left on device")

    pond.between.use(Interruptions({4: away}))
    tick = pond.tick()
    assert (tick.exit_code, tick.rows_until_ms < tick.begun_ms) == (5, True)
    pond.between.use(Interruptions())
    assert pond.tick().exit_code == 0
    assert pond.rows() == pond.archived()


def test_a_night_deletes_live_parts_that_nothing_names_any_more(pond: Pond) -> None:
    """Once the day is published as a whole, and the grace is over; the day's rows are those of its files."""
    pond.arrive(10)
    pond.live_until(30)
    pond.tick()
    pond.world.live_until(DAY.end_ms + HOUR)
    pond.tick()
    for day in range(1, 7):
        pond.world.live_until(DAY.shift(day).end_ms + HOUR)
        pond.site.table = pond.table()
        pond.site.night(9)
    left = [row.key for row in pond.site.out.list_objects(live_folder(DayFolder(OUT, DAY)))]
    assert (left, pond.parts()) == ([live_pointer_key(DayFolder(OUT, DAY))], 0)
    assert pond.rows() == pond.archived()


def test_a_live_part_that_somebody_deleted_is_written_again(pond: Pond) -> None:
    """Its segments are in no part now: all of the day is listed. Facts that are gone are read off the part itself."""
    pond.arrive(10)
    pond.live_until(30)
    pond.tick()
    folder = live_folder(DayFolder(OUT, DAY))
    for what in ("_facts/", "part-"):
        pond.site.out.delete([row.key for row in pond.site.out.list_objects(f"{folder}{what}")])
        follower = pond.new_follower()
        while pond.tick(follower).is_behind:
            pass
        assert (pond.rows(), pond.parts()) == (pond.archived(), 1)


def test_a_live_file_that_went_without_its_facts_is_written_again(pond: Pond) -> None:
    """Nobody can read the table meanwhile; with the next poll of the whole day."""
    for minute in (10, 40):
        pond.arrive(minute)
        pond.live_until(minute + 15)
        pond.tick()
    folder = live_folder(DayFolder(OUT, DAY))
    gone = [row.key for row in pond.site.out.list_objects(folder) if row.key.startswith(f"{folder}part-")]
    pond.site.out.delete(gone[:1])
    with pytest.raises(FileNotFoundError):
        pond.rows()
    pond.live_until(61)
    while pond.tick().is_behind:
        pass
    assert pond.rows() == pond.archived()


def test_a_live_pointer_that_does_not_parse_holds_the_day(pond: Pond) -> None:
    """Neither follow nor a night takes rows out of the table; a person restores it, or deletes it."""
    pond.arrive(10)
    pond.live_until(1440 + 30)
    pond.tick()
    key = live_pointer_key(DayFolder(OUT, DAY))
    pond.site.out.replace(key, b"{")
    assert (pond.tick().exit_code, pond.night(), pond.rows()) == (6, "held", pond.archived())
    pond.site.out.delete([key])
    assert (pond.night(), pond.rows()) == ("mended", pond.archived())


def test_a_catalog_whose_commits_are_not_conditional_is_refused() -> None:
    """Of two commits at once one would be lost."""
    assert not IcebergTable(DynamoDbCatalog.__new__(DynamoDbCatalog), "events.raw").is_conditional()
    assert IcebergTable(FailingCatalog.__new__(FailingCatalog), "events.raw").is_conditional()


def test_a_table_by_event_is_refused(tmp_path: Path) -> None:
    """A night makes its files."""
    place = StorePrefix(Address(None, str(tmp_path)), "")
    with opened_table("events.raw", None, place, by_event=True) as table:
        table.look(DAY)
    with pytest.raises(SettingsError, match="by the day of its events"), opened_followed("events.raw", None, place):
        pass


def test_no_night_makes_a_followed_table_one_by_event(pond: Pond) -> None:
    """Live rows would leave it, and follow would be refused from then on."""
    pond.arrive(10)
    pond.arrive(70)
    pond.live_until(90)
    pond.tick()
    pond.site.options = pond.site.options._replace(columns=with_event_time(None, "meta.ts", 30, SCHEMA.names))
    pond.catalogs.append(pond.lake.catalog())
    pond.site.table = IcebergTable(pond.catalogs[-1], pond.lake.name, by_event=True)
    done = pond.site.so_far(DAY, DAY.begin_ms + HOUR)
    assert done.state == "published"
    assert isinstance(done.table_error, CatalogRefused)
    assert "events.raw is followed" in str(done.table_error)
    assert (pond.tick().exit_code, pond.rows()) == (0, pond.archived())


def test_an_output_without_producer_duplicates_is_refused(tmp_path: Path) -> None:
    """Which rows are copies, follow does not know."""
    shelf = Shelf(StorePrefix(Address(None, str(tmp_path)), ""))
    shelf.publish(DAY, "one")
    publisher = shelf.publisher(DAY)
    check_keeps_all(publisher.storage, shelf.place, DAY.shift(1).begin_ms)
    pointer, manifest = publisher.published()
    assert pointer is not None
    assert manifest is not None
    left_out = msgspec.json.encode(msgspec.structs.replace(manifest, removed=3))
    (tmp_path / pointer.manifest).write_bytes(left_out)
    with pytest.raises(SettingsError, match="without 3 producer duplicates"):
        check_keeps_all(publisher.storage, shelf.place, DAY.shift(1).begin_ms)


def test_a_file_that_the_table_names_is_not_swept(pond: Pond) -> None:
    """A commit may fail for days: the table is left at older files, which stay until it has moved on."""
    pond.arrive(10)
    pond.live_until(30)
    pond.tick()
    pond.world.live_until(DAY.shift(9).end_ms)
    live = pond.live()
    pointer = pond.published()
    files = pond.lake.table(lambda table: [task.file.file_path for task in table.scan().plan_files()])
    name, now_ms = pond.lake.table(lambda table: str(table.metadata.table_uuid)), pond.world.clock.now_ms()
    assert live.keep(live.read(), [])
    assert not [key for key in sweep_live(live, pointer, files, {name}, now_ms + HOUR) if "/part-" in key]
    assert pond.rows() == pond.archived()
    assert sweep_live(live, pointer, (), {"another"}, now_ms + HOUR) == []
    assert [key.rpartition("/")[2] for key in sweep_live(live, pointer, (), {name}, now_ms + HOUR)] == [
        uri.rpartition("/")[2] for uri in files
    ]


def test_a_segment_that_overlaps_what_a_night_published_leaves_the_table(pond: Pond) -> None:
    """Follow had shown a zombie's segment, and not the one that the night knows: no record is there twice."""
    rows, zombie, put_back = pond.show_zombie()
    assert pond.rows().total() == rows.total() - 1
    zombies = pond.world.store.get(zombie)
    assert zombies is not None
    put_back()
    pond.live_until(180)
    pond.site.table = pond.table()
    pond.catalogs[-1].before_load = lambda: pond.world.store.put_if_absent(
        zombie, zombies.body, zombies.metadata, "application/gzip"
    )
    assert pond.site.so_far(DAY, DAY.begin_ms + HOUR).state == "published"
    assert pond.rows() == rows


def test_readers_see_no_record_twice_whose_deleted_segment_was_shown(pond: Pond) -> None:
    """A night has published the records in another segment; the table, and so the live part, waits for a commit."""
    rows, _, put_back = pond.show_zombie()
    put_back()
    pond.live_until(1440 + 40)
    pond.published()
    assert (pond.readable(), pond.parts()) == (rows, 1)


def test_readers_look_for_rows_beside_a_published_segment_alone(pond: Pond, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of a million rows with a late segment of two: each look reads of all published files."""
    pond.arrive(10)
    pond.live_until(180)
    pond.site.table = pond.table()
    assert pond.site.so_far(DAY, DAY.begin_ms + HOUR).state == "published"
    late = pond.written(10)
    for segment in (late, pond.written(185), pond.written(186)):
        pond.world.put_segment(segment)
    pond.live_until(200)
    assert (pond.tick().left_out, pond.parts()) == (0, 1)
    asked, is_published = list[int](), live._is_published

    def counted(rows: pa.Table, *files: Any) -> pa.BooleanArray:  # noqa: ANN401 - as `_is_published`
        asked.append(rows.num_rows)
        return is_published(rows, *files)

    monkeypatch.setattr(live, "_is_published", counted)
    assert pond.readable() == pond.archived()
    assert asked == [len(late.records)]


def test_a_table_is_complete_until_a_boundary_that_was_read_before_the_poll(pond: Pond) -> None:
    """A boundary that begins with the archive; a poll of ten minutes does not carry one over that is older."""
    pond.arrive(10)
    pond.live_until(30)
    first = pond.complete_until(DAY.begin_ms + 20 * MINUTE_MS)
    assert pond.tick().complete_until_ms == first
    assert pond.lake.table(lambda table: table.properties[COMPLETE_UNTIL]) == iso_time(first)
    pond.live_until(36)
    second = pond.complete_until(DAY.begin_ms + 35 * MINUTE_MS)
    assert pond.tick().complete_until_ms == first  # the poll begins at 26
    pond.live_until(41)
    assert pond.tick().complete_until_ms == second  # the poll of three hours


def test_a_segment_that_was_deleted_before_a_night_leaves_the_table(pond: Pond) -> None:
    """Behind what is published the inventory lacks it, and no LIST shows it: its rows go with the night."""
    pond.arrive(10)
    pond.live_until(30)
    key = next(iter(pond.world.archive))
    other = pond.world.put_segment(pond.written(50, shard=1))
    pond.live_until(60)
    pond.tick()
    pond.world.delete(other)
    assert (pond.parts(), pond.rows().total() > pond.archived().total()) == (1, True)
    pond.live_until(180)
    pond.site.table = pond.table()
    assert pond.site.so_far(DAY, DAY.begin_ms + HOUR).state == "published"
    assert (pond.rows(), key in pond.world.archive) == (pond.archived(), True)


def test_two_followers_agree_on_what_is_gone(pond: Pond) -> None:
    """One of them saw the segment there, the other one does not: its rows do not come and go."""
    pond.arrive(30)
    key = pond.world.put_segment(pond.written(50, shard=1))
    pond.live_until(70)
    one, two = pond.new_follower(), pond.new_follower()
    pond.tick(one)
    pond.tick(two)
    stored = pond.world.store.get(key)
    assert stored is not None
    pond.world.store.delete([key])
    pond.site.table = None
    pond.live_until(180)
    assert pond.site.so_far(DAY, DAY.begin_ms + HOUR).state == "published"
    pond.world.store.put_if_absent(key, stored.body, stored.metadata, "application/gzip")
    pond.tick(one)
    pond.world.delete(key)
    for minute in range(181, 186):
        pond.live_until(minute)
        pond.tick(one)
        pond.tick(two)
    snapshots = pond.lake.snapshots()
    pond.live_until(186)
    pond.tick(one)
    pond.tick(two)
    assert (pond.rows(), pond.lake.snapshots()) == (pond.archived(), snapshots)


def test_a_published_segment_that_is_gone_takes_no_other_rows_along(pond: Pond) -> None:
    """Nobody can say any more what it covered: that is no reason against a segment that is archived and shown."""
    pond.arrive(30)
    pond.live_until(180)
    pond.tick()
    pond.site.table = pond.table()
    assert pond.site.so_far(DAY, DAY.begin_ms + HOUR).state == "published"
    [(key, published)] = pond.world.archive.items()
    assert published.records is not None
    last = published.records[-1]
    positions = [Position(last.position.sequence + 5 + at) for at in range(2)]
    late = [Sent(last.shard, position, last.arrival_ms + 1, b"{}") for position in positions]
    pond.world.put_segment(Written(published.shard, published.minute, late, last.position, "writer-b"))
    pond.live_until(191)
    pond.tick()
    rows = pond.rows()
    assert rows == pond.archived()
    pond.world.store.delete([key])
    pond.live_until(260)
    pond.tick(pond.new_follower())
    assert pond.rows() == rows


def test_snapshots_expire_only_while_the_current_one_is_as_it_was(pond: Pond) -> None:
    """Somebody goes back to one of them between the load and the commit: the table would be empty without it."""
    for minute in (10, 40, 70):
        pond.arrive(minute)
        pond.live_until(minute + 20)
        pond.tick(pond.new_follower())
    first = pond.lake.table(lambda table: table.snapshots()[0].snapshot_id)
    table = pond.table()

    def go_back() -> None:
        pond.lake.table(lambda other: other.manage_snapshots().set_current_snapshot(snapshot_id=first).commit())

    pond.catalogs[-1].before_commit = go_back
    assert table.expire(SystemClock().now_ms() + 24 * HOUR + 1000) == 0
    assert pond.rows().total() > 0


def test_readers_of_live_days_see_each_row_once(pond: Pond) -> None:
    """Published, in a live part, or in a segment that neither holds; a zombie's segment repeats none."""
    pond.arrive(58)
    pond.arrive(62)
    pond.live_until(180)
    pond.tick()
    assert pond.readable() == pond.archived()
    assert pond.site.so_far(DAY, DAY.begin_ms + HOUR).state == "published"
    assert (pond.parts(), pond.readable()) == (1, pond.archived())
    pond.arrive(181, 1)
    pond.live_until(200)
    rows = pond.archived()
    assert pond.readable() == rows
    assert pond.world.double(next(key for key in pond.world.archive if "/01/02/" in key)) is not None
    assert pond.readable() == rows
    pond.tick()
    assert pond.readable() == rows
    pond.world.store.delete([row.key for row in pond.world.store.list_objects(f"{PREFIX}2027/01/04/01/02/")])
    assert pond.readable() == rows


def test_the_table_says_until_when_it_is_complete_only_with_a_boundary(pond: Pond) -> None:
    """Nobody has published one here."""
    pond.arrive(10)
    pond.live_until(30)
    pond.tick()
    assert COMPLETE_UNTIL not in pond.lake.table(lambda table: table.properties)


def test_a_night_commits_the_live_rows_of_a_day_that_it_blocks(pond: Pond) -> None:
    """The day was never published: live rows that the table has not yet, or has lost, are all that readers have."""
    pond.arrive(10)
    pond.live_until(30)
    pond.tick()
    first = pond.lake.table(lambda table: table.current_snapshot().snapshot_id)
    segment = pond.written(40)
    pond.world.put_segment(segment._replace(dropped=segment.records))  # a defect: copies without an original
    pond.arrive(42)
    pond.live_until(58)
    pond.tick()
    pond.lake.table(lambda table: table.manage_snapshots().rollback_to_snapshot(first).commit())
    assert pond.rows() != pond.archived()
    pond.live_until(1440 + 40)
    pond.night()
    assert pond.site.publisher(DAY).current().pointer is None
    assert pond.rows() == pond.archived()


def test_live_files_outlast_the_run_that_replaces_them(pond: Pond) -> None:
    """A query may read the snapshot of before; the next night deletes them."""
    pond.arrive(10)
    pond.live_until(30)
    pond.tick()
    pond.world.live_until(DAY.shift(9).end_ms)
    live = pond.live()
    pond.published()  # by nights that could not commit
    assert live.keep(live.read(), [])
    pond.world.live_until(DAY.shift(13).end_ms)

    def night() -> int:
        pond.site.table = pond.table()
        pond.site.night(15)
        return len([row for row in pond.site.out.list_objects(live.folder) if "/part-" in row.key])

    assert (night(), pond.rows()) == (1, pond.archived())
    assert (night(), pond.rows()) == (0, pond.archived())


def test_a_damaged_segment_takes_no_other_rows_along(pond: Pond) -> None:
    """It is left out and named; those of its tick are shown."""
    good, bad = (pond.world.put_segment(pond.written(10, shard)) for shard in range(2))
    pond.live_until(20)
    pond.world.damage(bad)
    tick = pond.tick()
    assert (tick.left_out, tick.segments, tick.exit_code) == (1, 1, 0)
    assert {shard for shard, _, _ in pond.rows()} == {pond.world.archive[good].shard}


def test_a_damaged_live_part_stops_no_new_rows(pond: Pond) -> None:
    """Parts cannot be joined with it: that is told, and what comes is shown nevertheless."""
    for minute in range(JOIN_PARTS):
        pond.world.put_segment(pond.written(minute))
        pond.live_until(minute + 1)
        pond.tick()
    folder = live_folder(DayFolder(OUT, DAY))
    first = next(row.key for row in pond.site.out.list_objects(f"{folder}part-"))
    pond.site.out.replace(first, b"damaged")
    for minute in (JOIN_PARTS, JOIN_PARTS + 1):
        pond.world.put_segment(pond.written(minute))
        pond.live_until(minute + 1)
        assert (pond.tick().exit_code, pond.parts()) == (0, minute + 1)
    assert len(pond.lake.table(lambda table: list(table.scan().plan_files()))) == JOIN_PARTS + 2


def test_a_table_that_lacks_a_day_is_not_complete(pond: Pond) -> None:
    """A process begins with the fourth day: all from where boundaries begin must be clean, and in the table."""
    pond.live_days(3)
    until_ms = pond.complete_until(DAY.shift(3).begin_ms)
    assert pond.tick(pond.new_follower()).complete_until_ms == 0
    pond.published()
    assert pond.tick(pond.new_follower()).complete_until_ms == 0
    pond.site.table = pond.table()
    pond.site.night(12)
    assert pond.tick(pond.new_follower()).complete_until_ms == until_ms


def test_a_table_is_not_complete_over_a_day_that_older_rules_judged(pond: Pond) -> None:
    """Its verdict counts for no reader; the next night judges it again."""
    pond.live_days(3)
    until_ms = pond.complete_until(DAY.shift(3).begin_ms)
    pond.published()
    pond.site.table = pond.table()
    pond.site.night(12)
    key = DayFolder(OUT, DAY.shift(1)).pointer
    stored = pond.site.out.get(key)
    assert stored is not None
    pond.site.out.replace(key, msgspec.json.encode(msgspec.json.decode(stored.body) | {"rules": 1}))
    assert pond.tick(pond.new_follower()).complete_until_ms == 0
    pond.site.out.replace(key, stored.body)
    assert pond.tick(pond.new_follower()).complete_until_ms == until_ms


def test_what_an_earlier_process_said_holds_and_no_day_behind_it_is_skipped(pond: Pond) -> None:
    """The catalog was away for three days, and the next process begins with the fifth: nights mend these first."""
    pond.live_days(1, rest=MINUTE_MS)
    first_ms = pond.complete_until(DAY.begin_ms + 23 * HOUR)
    assert pond.tick().complete_until_ms == first_ms
    pond.live_days(4)
    last_ms = pond.complete_until(DAY.shift(4).begin_ms)
    pond.published()
    assert pond.tick(pond.new_follower()).complete_until_ms == first_ms
    pond.site.table = pond.table()
    pond.site.night(12)
    pond.lake.table(_forget)  # nothing is recorded of old days where another engine expires snapshots
    assert pond.tick(pond.new_follower()).complete_until_ms == last_ms


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("way", ["dropped", "renamed", "set back"])
def test_a_table_that_is_made_anew_or_set_back_is_complete_no_more(
    pond: Pond, way: str, is_restarted: object
) -> None:
    """Today and yesterday come back at once, and until nights mend the days before it says so."""
    pond.live_days(3)
    before_ms = pond.complete_until(DAY.shift(3).begin_ms)
    pond.site.table = pond.table()
    pond.site.night(12)
    assert pond.tick().complete_until_ms == before_ms
    with pond.lake.catalog() as catalog:
        if way == "dropped":
            catalog.drop_table(pond.lake.name)
        elif way == "renamed":
            catalog.rename_table(pond.lake.name, "events.former")
        else:
            table = catalog.load_table(pond.lake.name)
            first = min(table.snapshots(), key=lambda each: each.sequence_number)
            table.manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()
    pond.live_days(3, rest=5 * HOUR)
    until_ms = pond.complete_until(DAY.shift(3).begin_ms + 4 * HOUR)
    follower = pond.new_follower() if is_restarted else pond.follower
    while pond.tick(follower).is_behind:
        pass
    lacks = pond.archived() - pond.rows()
    assert lacks.total() > 0
    tick = pond.tick(follower)
    said = pond.lake.table(lambda table: table.properties.get(COMPLETE_UNTIL, iso_time(0)))
    assert (tick.exit_code, tick.complete_until_ms, said) == (0, 0, iso_time(0))
    pond.site.table = pond.table()
    pond.site.night(12)
    assert pond.archived() == pond.rows()
    pond.live_days(3, rest=6 * HOUR)  # the poll of the whole day
    assert pond.tick(follower).complete_until_ms == until_ms


def test_a_table_that_is_set_back_by_its_last_snapshot_is_complete_no_more(pond: Pond) -> None:
    """What it was told counts while it was made from the very snapshot that was told with it."""
    pond.be_told_twice()

    def told_of(table: Any) -> tuple[str, str]:  # noqa: ANN401 - pyiceberg's
        metadata = table.metadata
        place = f"{metadata.table_uuid}/{metadata.current_snapshot_id}/{metadata.last_sequence_number}"
        return table.properties["minutebook.told-of"], place

    told, place = pond.lake.table(told_of)
    assert told == place
    with pond.lake.catalog() as catalog:
        table = catalog.load_table(pond.lake.name)
        parent = table.current_snapshot().parent_snapshot_id
        table.manage_snapshots().rollback_to_snapshot(parent).commit()
    follower = pond.new_follower()
    with capture_logs() as logs:
        tick = pond.tick(follower)
    assert "table_set_back" in [each["event"] for each in logs]
    assert (tick.complete_until_ms, tick.is_behind, pond.rows()) == (0, True, pond.archived())


def test_a_table_is_not_complete_while_a_day_is_held(pond: Pond) -> None:
    """A night has published what came late, in a type that the table does not take: it is in no live part."""
    pond.with_columns(EXACT)
    for number in range(2):
        pond.world.plan_day(DAY.shift(number))
    pond.live_until(1200)
    pond.arrive(1300, shard=1)
    pond.world.pause("shardId-000000000001", DAY.end_ms + 20 * MINUTE_MS)
    pond.live_until(1440 + 10)
    before_ms = pond.complete_until(DAY.begin_ms + 1190 * MINUTE_MS)
    assert pond.tick().complete_until_ms == before_ms
    pond.with_columns('[columns.n]\ntype = "bool"\n')
    pond.live_until(1440 + 43)
    assert pond.night() == "held"
    pointer = pond.site.publisher(DAY).current().pointer
    assert pointer is not None
    assert pointer.verdict == "clean"
    pond.complete_until(DAY.end_ms + 35 * MINUTE_MS)
    assert pond.tick().exit_code == 2
    for minute in range(44, 130):  # the hour's LIST and another try of the commit are of different ticks
        pond.live_until(1440 + minute)
        tick = pond.tick()
        assert (tick.exit_code in {0, 2}, tick.complete_until_ms) == (True, before_ms)
        assert tick.rows_until_ms < DAY.end_ms + 43 * MINUTE_MS
    assert pond.archived() - pond.rows()
    rows_until = pond.lake.table(lambda table: table.properties[ROWS_UNTIL])
    assert parse_iso_time(rows_until) < DAY.end_ms + 43 * MINUTE_MS


def test_no_rows_until_is_told_of_a_day_that_is_held_at_midnight(pond: Pond) -> None:
    """Today is held by `--so-far`, becomes yesterday, then the day before: its rows are in no table."""
    pond.with_columns(EXACT)
    pond.arrive(10)
    pond.live_until(60)
    before_ms = pond.tick().rows_until_ms
    pond.with_columns('[columns.n]\ntype = "bool"\n')
    pond.live_until(180)
    pond.site.table = pond.table()
    done = pond.site.so_far(DAY, DAY.begin_ms + HOUR)
    assert (done.state, done.table is not None and done.table.state) == ("published", "held")
    pond.arrive(170)
    gauges = Gauges(pond.world.clock, 60_000, {"application": "a", "table": "t"})
    for minute in (185, 1439, *range(1441, 1460), 2879, *range(2881, 2892)):
        pond.live_until(minute)
        tick = pond.tick()
        gauges.set(tick)
        assert tick.rows_until_ms == before_ms
        assert gauges.health().is_healthy  # a restart mends nothing
    assert pond.archived() - pond.rows()


def test_no_rows_until_is_told_of_a_day_whose_commits_are_refused(pond: Pond) -> None:
    """Somebody has deleted a file of it from the table; nobody repairs that for two midnights."""
    for minute in (10, 40):
        pond.world.put_segment(pond.written(minute))
        pond.live_until(minute + 15)
        before_ms = pond.tick().rows_until_ms

    def drop_one(table: Any) -> None:  # noqa: ANN401 - pyiceberg's
        with table.transaction() as transaction, transaction.update_snapshot().overwrite() as overwrite:
            overwrite.delete_data_file(next(iter(table.scan().plan_files())).file)

    pond.lake.table(drop_one)
    pond.world.put_segment(pond.written(70))
    for minute in (90, 1439, *range(1441, 1445), 2879, *range(2881, 2893)):
        pond.live_until(minute)
        assert pond.tick().rows_until_ms == before_ms
    assert (pond.archived() - pond.rows()).total() > 2


@pytest.mark.parametrize("is_alone", [False, True])
def test_properties_are_set_beside_another_commit(
    pond: Pond, monkeypatch: pytest.MonkeyPatch, *, is_alone: bool
) -> None:
    """On a quiet stream they are told by themselves, and somebody commits meanwhile: once, or each time."""
    pond.arrive(10)
    pond.live_until(30)
    pond.tick()
    table, told = pond.table(), {COMPLETE_UNTIL: iso_time(DAY.begin_ms)}
    others, write = iter(range(1 if is_alone else 100)), SqlCatalog._write_metadata

    def written(**named: Any) -> None:  # noqa: ANN401 - pyiceberg's own
        write(**named)
        if next(others, None) is not None:
            pond.lake.table(_optimize)

    monkeypatch.setattr(pond.catalogs[-1], "_write_metadata", written)
    if is_alone:
        table.set_properties(told)
        assert pond.lake.table(lambda table: table.properties[COMPLETE_UNTIL]) == iso_time(DAY.begin_ms)
        return
    with pytest.raises(OutcomeUnknown, match="keep changing"):
        table.set_properties(told)


@pytest.mark.parametrize(("way", "parts"), [("deleted", 1), ("set back", 2)])
def test_no_row_leaves_with_a_live_pointer_that_a_person_sets_back(pond: Pond, way: str, parts: int) -> None:
    """Its segments are written again before the next commit; a night that comes between takes none along."""
    key, pointers = live_pointer_key(DayFolder(OUT, DAY)), []
    for minute in (10, 40):
        pond.world.put_segment(pond.written(minute))
        pond.live_until(minute + 5)
        pond.tick()
        pointers.append(pond.site.out.get(key))
    other = pond.new_follower()
    pond.tick(other)
    rows, snapshots = pond.rows(), pond.lake.snapshots()
    pond.site.out.delete([key])
    if way == "set back":
        assert pointers[0] is not None
        pond.site.out.replace(key, pointers[0].body)
    pond.live_until(46)
    tick = pond.tick()
    assert (tick.is_behind, tick.exit_code, pond.rows(), pond.lake.snapshots()) == (False, 0, rows, snapshots + 1)
    assert (pond.tick(other).is_behind, pond.rows(), pond.parts()) == (False, rows, parts)


def test_a_lost_row_stays_while_its_object_is_gone_for_a_moment(pond: Pond, monkeypatch: pytest.MonkeyPatch) -> None:
    """The live pointer was set back, and the object is listed, and not there just when it is to be written again."""
    key, pointers = live_pointer_key(DayFolder(OUT, DAY)), []
    for minute in (10, 40):
        newest = pond.world.put_segment(pond.written(minute))
        pond.live_until(minute + 5)
        pond.tick()
        pointers.append(pond.site.out.get(key))
    rows, stored = pond.rows(), pond.world.store.get(newest)
    assert stored is not None
    assert pointers[0] is not None
    pond.site.out.replace(key, pointers[0].body)

    def without_it(orders: Sequence[Order]) -> list[TaskResult]:
        pond.world.store.delete([newest])
        return in_process(orders)

    pond.live_until(200)
    with monkeypatch.context() as patched:
        patched.setattr("tests.follows.house.in_process", without_it)
        tick = pond.tick()
    assert (pond.world.store.get(newest), tick.rows_until_ms < tick.begun_ms, pond.rows()) == (None, True, rows)
    pond.world.store.put_if_absent(newest, stored.body, stored.metadata, "application/gzip")
    pond.live_until(201)
    while pond.tick().is_behind:
        assert pond.rows() == rows
    assert pond.rows() == pond.archived()


def test_a_live_pointer_that_is_deleted_within_a_commit_holds_the_commit(pond: Pond) -> None:
    """Between the write and the load of the table: the next tick makes up for it."""
    pond.world.put_segment(pond.written(10))
    pond.live_until(15)
    pond.tick()
    pond.world.put_segment(pond.written(16))
    pond.live_until(20)
    rows = pond.rows()
    pond.catalogs[-1].before_load = lambda: pond.site.out.delete([live_pointer_key(DayFolder(OUT, DAY))])
    assert (pond.tick().exit_code, pond.rows()) == (6, rows)
    while pond.tick().is_behind:
        pass
    assert pond.rows() == pond.archived()


def test_a_live_pointer_that_is_deleted_at_a_request_takes_no_row_along(pond: Pond) -> None:
    """At each request of a tick with news: no row leaves, and the table says no time that it does not hold."""
    key = live_pointer_key(DayFolder(OUT, DAY))
    for step in one_in(3, range(1, 24)):
        pond.world.put_segment(pond.written(step))
        pond.live_until(step + 1)
        rows = pond.rows()
        pond.between.use(Interruptions({step: lambda: pond.site.out.delete([key])}))
        tick = pond.tick()
        pond.between.use(Interruptions())
        assert rows <= pond.rows()
        assert tick.rows_until_ms < tick.begun_ms or pond.rows() == pond.archived()
        while pond.tick().is_behind:
            assert rows <= pond.rows()
        pond.tick()
        assert pond.rows() == pond.archived()


def test_a_second_loss_while_rows_come_back_takes_no_row_along(pond: Pond, monkeypatch: pytest.MonkeyPatch) -> None:
    """They come back part by part, and the live pointer is deleted again at a request: nothing is believed gone."""
    monkeypatch.setattr("compaction.follow.day.MOST_SEGMENTS", 1)
    key = live_pointer_key(DayFolder(OUT, DAY))
    for step in one_in(4, range(1, 60)):
        pond.world.put_segment(pond.written(step))
        pond.live_until(step + 1)
        while pond.tick().is_behind:
            pass
        rows = pond.rows()
        pond.site.out.delete([key])
        pond.between.use(Interruptions({step: lambda: pond.site.out.delete([key])}))
        while pond.tick().is_behind:
            assert pond.rows() == rows
        pond.between.use(Interruptions())
        while pond.tick().is_behind:
            assert pond.rows() == rows
        assert pond.rows() == rows == pond.archived()


@pytest.mark.parametrize("lost", ["pointer", "pointer in a poll", "file"])
def test_what_was_shown_comes_back_before_what_overlaps_it(pond: Pond, lost: str) -> None:
    """A zombie's segment was left out, and its key is the smaller one: as a row it would take the other's place."""
    shown = pond.written(100)
    first, second = shown.records
    third = second._replace(position=Position(second.position.sequence + 1), arrival_ms=second.arrival_ms + 1)
    pond.world.put_segment(shown._replace(records=[second, third], after=first.position))
    pond.live_until(102)
    pond.tick()
    rows = pond.rows()
    pond.world.put_segment(shown._replace(records=[first, second], writer="zombie"))
    pond.live_until(103)
    assert pond.tick().left_out == 1
    key = live_pointer_key(DayFolder(OUT, DAY))
    if lost == "pointer":
        pond.site.out.delete([key])
        pond.live_until(104)
        assert pond.tick().is_behind
        assert pond.rows() == rows
    elif lost == "pointer in a poll":
        pond.live_until(121)
        pond.between.use(Interruptions({45: lambda: pond.site.out.delete([key])}))
        assert pond.tick().is_behind
        pond.between.use(Interruptions())
        assert pond.rows() == rows
    else:
        pond.site.out.delete([row.key for row in pond.site.out.list_objects("") if "/_live/part-" in row.key])
        pond.live_until(121)
    while pond.tick().is_behind:
        pass
    assert (pond.rows(), pond.tick().left_out) == (rows, 1)


def test_the_table_is_told_nothing_while_rows_of_yesterday_are_lost(pond: Pond) -> None:
    """Its live pointer is deleted at a request of a tick that has news of today, and looks at yesterday's files."""
    key = live_pointer_key(DayFolder(OUT, DAY))
    pond.world.put_segment(pond.written(1437))
    pond.live_until(1439)
    pond.tick()
    for step in range(1, 24):
        pond.world.put_segment(pond.written(1440 + 11 * step))
        pond.live_until(1441 + 11 * step)
        told = pond.lake.table(lambda table: table.properties[ROWS_UNTIL])
        pond.between.use(Interruptions({step: lambda: pond.site.out.delete([key])}))
        tick = pond.tick()
        pond.between.use(Interruptions())
        if tick.is_behind:
            assert pond.lake.table(lambda table: table.properties[ROWS_UNTIL]) == told
        while pond.tick().is_behind:
            pass
        assert pond.rows() == pond.archived()


def test_what_is_published_at_a_request_is_no_loss(pond: Pond) -> None:
    """A part of the day takes half of a live part over while a tick works: nothing fails, or is written twice."""
    for number, step in enumerate(one_in(3, range(3, 20)), 1):
        pond.arrive(number * 60 - 30)
        pond.arrive(number * 60 + 30, 1)
        pond.live_until(number * 60 + 50)
        pond.tick()
        pond.live_until(number * 60 + 55)
        until_ms = DAY.begin_ms + number * HOUR
        done = list[str]()

        def publish(until_ms: int = until_ms, done: list[str] = done) -> None:
            pond.site.table = pond.table()
            done.append(pond.site.so_far(DAY, until_ms).state)

        pond.between.use(Interruptions({step: publish}))
        tick = pond.tick()
        pond.between.use(Interruptions())
        assert (tick.exit_code, tick.is_behind) == (0, False), (step, done)
        pond.tick()
        assert pond.rows() == pond.archived()


def test_of_a_published_day_only_what_was_shown_comes_back(pond: Pond) -> None:
    """A row came while the night worked, and its live part is deleted; what came since is the next night's."""
    pond.arrive(10)
    pond.arrive(1439, 1)
    pond.world.pause("shardId-000000000001", DAY.end_ms + 30 * MINUTE_MS)
    pond.live_until(1440 + 25)
    pond.tick()

    def meanwhile() -> None:
        pond.live_until(1440 + 45)
        pond.tick()

    pond.site.table = pond.table()
    pond.site.night(3, Interruptions({38: meanwhile}))
    rows, published = pond.rows(), pond.site.publisher(DAY).current().pointer
    assert (published is not None, rows) == (True, pond.archived())
    pond.site.out.delete([live_pointer_key(DayFolder(OUT, DAY))])
    pond.world.put_segment(pond.written(30, shard=1))
    pond.live_until(1440 + 46)
    while pond.tick().is_behind:
        assert pond.rows() == rows
    assert (pond.rows(), pond.parts()) == (rows, 1)


def test_a_night_that_was_set_back_is_made_up_for_when_snapshots_have_expired(pond: Pond) -> None:
    """It had taken what came late; what follow commits and expires since must not make it one of the branch again."""
    _publish_before_the_last(pond)
    since = 2 * 1440 + 5 * 60
    for minute in (since, since + 30):
        pond.arrive(minute)
        pond.live_until(minute + 20)
        pond.tick()
    before = pond.lake.table(lambda table: table.current_snapshot().snapshot_id)
    assert pond.night() == "mended"
    pond.lake.table(lambda table: table.manage_snapshots().rollback_to_snapshot(before).commit())
    for minute in (since + 52, since + 62, since + 72):
        pond.arrive(minute)
        pond.live_until(minute + 9)
        pond.tick()
    pond.table().expire(pond.world.clock.now_ms())
    assert pond.rows() != pond.archived()
    assert pond.night() == "mended"
    assert pond.rows() == pond.archived()


def test_a_table_that_is_set_back_to_another_engines_snapshot_goes_on(pond: Pond) -> None:
    """What was recorded before it is kept from expiry: its rows are known by their number."""
    for minute in (10, 40, 70, 100):
        pond.arrive(minute)
        pond.live_until(minute + 20)
        pond.tick(pond.new_follower())
        if minute == 40:
            pond.lake.table(_optimize)
            theirs = pond.lake.table(lambda table: table.current_snapshot().snapshot_id)
    assert pond.table().expire(SystemClock().now_ms() + 24 * HOUR + 1000) == 2
    pond.lake.table(lambda table: table.manage_snapshots().set_current_snapshot(snapshot_id=theirs).commit())
    pond.live_until(121)
    assert pond.tick(pond.new_follower()).exit_code == 0
    assert pond.rows() == pond.archived()


def test_follow_ends_when_nights_begin_to_leave_copies_out(pond: Pond) -> None:
    """It is noticed with the first day that they publish so, not at the next start."""
    pond.arrive(10)
    pond.live_until(1440 + 40)
    pond.tick()
    pointer = pond.published()
    _, manifest = pond.site.publisher(DAY).published()
    assert manifest is not None
    pond.site.out.replace(pointer.manifest, msgspec.json.encode(msgspec.structs.replace(manifest, removed=3)))
    pond.live_until(1440 + 41)
    with pytest.raises(CopiesLeftOut, match="without 3 producer duplicates"):
        pond.tick()


def test_an_object_that_the_store_refuses_is_left_out_alone(pond: Pond, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named, and comes within the hour once it may be read; a store that refuses everything is an error."""
    keys = [pond.world.put_segment(pond.written(10, shard)) for shard in range(2)]
    pond.live_until(20)
    denied = {keys[0]}

    for name in ("get", "open_read"):
        monkeypatch.setattr(DirectoryStorage, name, _refusing(getattr(DirectoryStorage, name), denied))
    tick = pond.tick()
    assert (tick.left_out, tick.segments, tick.exit_code) == (1, 1, 0)
    denied.clear()
    pond.live_until(61)
    assert (pond.tick().left_out, pond.rows()) == (0, pond.archived())
    denied |= {pond.world.put_segment(pond.written(62)), *keys}
    pond.live_until(64)
    assert pond.tick().exit_code == 2


def test_many_late_segments_cost_a_list_an_hour(pond: Pond, monkeypatch: pytest.MonkeyPatch) -> None:
    """They came behind what is published, and the inventory lacks them: are they still there?"""
    pond.arrive(70)
    pond.live_until(180)
    pond.tick()
    pond.site.table = None
    assert pond.site.so_far(DAY, DAY.begin_ms + 2 * HOUR).state == "published"
    for minute in range(30, 70):
        pond.world.put_segment(pond.written(minute, shard=1))
    pond.live_until(200)
    lists = list[str]()
    original = IndexedDirectory.list_objects

    def counted(self: IndexedDirectory, prefix: str) -> Any:  # noqa: ANN401 - an iterator
        lists.append(prefix)
        return original(self, prefix)

    monkeypatch.setattr(IndexedDirectory, "list_objects", counted)
    pond.tick()
    assert pond.rows() == pond.archived()
    assert len([prefix for prefix in lists if "2027" in prefix]) < 30


def test_a_day_that_is_over_costs_two_requests_a_tick(pond: Pond) -> None:
    """Its pointer, and its live pointer; none of them is a LIST once it is published."""
    pond.arrive(10)
    pond.live_until(1440 + 30)
    pond.tick()
    pond.night()
    for minute in (31, 32):
        pond.live_until(1440 + minute)
        pond.tick()
    yesterday = FollowedDay(follow_ports(pond.site, pond.table(), pond.between), DAY)
    for _ in range(2):
        yesterday.list_new(pond.world.clock.now_ms())
        yesterday.write()
        yesterday.commit({})
    pond.between.use(counted := Interruptions())
    yesterday.list_new(pond.world.clock.now_ms())
    yesterday.write()
    assert (yesterday.has_changed(pond.world.clock.now_ms()), counted.requests) == (False, 2)


N: Final = '[columns.n]\ntype = "int64"\n'
N_WHO: Final = f'{N}[columns.who]\ntype = "struct<id: int32>"\n'
EXACT: Final = '[columns.n]\ntype = "decimal(26,0)"\n'
"""The payloads of a world's records are their numbers, {"n": 1000000000000000000123456}."""


def test_typed_columns_are_in_the_table_minutes_after_the_record(pond: Pond) -> None:
    """A value that does not fit stops no tick; nights, of a part of a day, too, take over by their own columns."""
    pond.with_columns(f'{EXACT}[columns.small]\npath = "n"\ntype = "int64"\n')
    for minute in (58, 62):
        pond.arrive(minute)
    pond.live_until(180)
    assert (pond.tick().exit_code, pond.parts()) == (0, 1)
    assert pond.digests() == [read_columns(pond.columns, SCHEMA.names).digest]
    rows = pond.values("sequence_number", "n", "small")
    assert rows == [(number, Decimal(number), None) for _, number, _ in sorted(pond.archived())]
    assert all("small: " in why for (why,) in pond.values("_unfit"))
    pond.with_columns(f'{EXACT}[columns.text]\npath = "n"\ntype = "json"\n')
    pond.site.table = pond.table()
    assert pond.site.so_far(DAY, DAY.begin_ms + HOUR).state == "published"
    assert (pond.values("sequence_number", "n", "small"), pond.parts()) == (rows, 1)
    assert {(text, why is None) for text, why in pond.values("text", "_unfit")[-2:]} == {(None, False)}
    assert pond.readable() == pond.rows() == pond.archived()
    pond.live_until(1440 + 40)
    pond.tick()
    assert pond.night() == "mended"
    assert pond.values("sequence_number", "n", "small") == rows
    assert [text for (text,) in pond.values("text")] == [number for number, _, _ in rows]


def test_the_file_of_columns_changes_between_ticks(pond: Pond) -> None:
    """It is read again at each; one that does not parse is told, and the former columns go on."""
    pond.with_columns(N)
    pond.tick_with(10, b'{"n": 1}', b'{"n": 2}')
    pond.columns.write_text("[columns.n]\ntype = ")
    with capture_logs() as logs:
        assert pond.tick_with(11, b'{"n": 3}', b'{"n": 4}').exit_code == 0
        assert pond.tick_with(12, b'{"n": 5}', b'{"n": 6}').exit_code == 0
    assert [each["event"] for each in logs].count("columns_not_read") == 1
    pond.with_columns(N_WHO)
    pond.tick_with(61, b'{"n": 7, "who": {"id": 1}}', b"{}")
    former, *_, latest = digests = pond.digests()
    assert (digests, latest) == ([former] * 3 + [latest], read_columns(pond.columns, SCHEMA.names).digest)
    expected = [(number, None) for number in range(1, 7)] + [(7, {"id": 1}), (None, None)]
    assert pond.values("n", "who") == expected


def test_parts_of_unequal_columns_are_not_joined(pond: Pond, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of equal ones are, and keep their values."""
    monkeypatch.setattr("compaction.live.day.JOIN_PARTS", 3)
    pond.with_columns(N)
    for minute in (0, 1, 2):
        pond.tick_with(minute, b'{"n": 1}', b'{"n": "x"}')
        if minute == 0:
            pond.with_columns(N_WHO)
    assert (pond.parts(), len({*pond.digests()})) == (3, 2)
    for minute in (3, 4):
        pond.tick_with(minute, b'{"n": 1, "who": {"id": 9}}', b'{"n": "x"}')
    assert (pond.parts(), len({*pond.digests()})) == (3, 2)
    expected = [(1, None), (None, None)] * 3 + [(1, {"id": 9}), (None, None)] * 2
    assert [(n, who) for n, who, _ in pond.values("n", "who", "_unfit")] == expected
    assert sum("n: " in (why or "") for (why,) in pond.values("_unfit")) == 5


def test_a_column_that_the_table_does_not_take_is_left_out_until_the_night(pond: Pond) -> None:
    """It is told once, the other columns and all rows are shown; the night, which judges it, holds the day."""
    pond.with_columns(EXACT)
    pond.arrive(10)
    pond.live_until(30)
    pond.tick()
    before = pond.values("n", "m")
    pond.with_columns('[columns.n]\ntype = "bool"\n[columns.m]\npath = "n"\ntype = "json"\n')
    with capture_logs() as logs:
        for minute in (31, 51):
            pond.arrive(minute)
            pond.live_until(minute + 20)
            assert pond.tick().exit_code == 0
    told = [each["conflicts"] for each in logs if each["event"] == "columns_left_out"]
    assert told == [["column n: the table has decimal(26, 0), the day bool"]]
    live = pond.values("sequence_number", "n", "m", "_unfit")
    assert [row[:3] for row in live[len(before) :]] == [(row[0], None, row[0]) for row in live[len(before) :]]
    assert [why is None for *_, why in live[len(before) :]].count(True) >= 2  # those after the table has said no
    assert ([row[1:3] for row in live[: len(before)]], pond.rows()) == (before, pond.archived())
    pond.live_until(1440 + 40)
    pond.tick()
    assert pond.night() == "held"
    assert (pond.rows(), pond.values("sequence_number", "n", "m", "_unfit")) == (pond.archived(), live)
    pond.with_columns(EXACT)
    pond.night()
    assert pond.values("n") == [(Decimal(number),) for _, number, _ in sorted(pond.archived())]


def test_events_of_one_record_are_rows_of_live_parts(pond: Pond, monkeypatch: pytest.MonkeyPatch) -> None:
    """Joined, too; where the table does not take their number, each record is one row again."""
    monkeypatch.setattr("compaction.live.day.JOIN_PARTS", 2)
    pond.with_columns('decode = [{each = "a"}]\n[columns.n]\npath = "a.n"\ntype = "int64"\n')
    for minute in (10, 11, 12):
        assert pond.tick_with(minute, b'{"a": [{"n": 1}, {"n": 2}]}', b'{"a": []}').exit_code == 0
    expected = [(0, 1), (1, 2), (None, None)] * 3
    assert (pond.values("event_index", "n"), pond.parts()) == (expected, 2)
    monkeypatch.setattr("compaction.live.day.JOIN_PARTS", JOIN_PARTS)
    pond.lake.table(lambda table: _rename(table, "event_index", "number"))
    assert pond.tick_with(13, b'{"a": [{"n": 1}, {"n": 2}]}', b'{"a": []}').exit_code == 0
    assert [digest == "" for digest in pond.digests()] == [False, False, True]
    assert pond.rows().keys() == pond.archived().keys()
    assert pond.values("number", "n") == [*expected, (None, None), (None, None)]


def test_typed_columns_survive_a_tick_that_dies_at_a_request(tmp_path: Path) -> None:
    """Before it or behind it, with a column that the table does not take: the next tick ends it."""
    for step in one_in(4, range(1, 24)):
        pond = Pond(tmp_path / str(step))
        pond.with_columns(N)
        pond.tick_with(10, b'{"n": 1}', b'{"n": 2}')
        pond.with_columns('[columns.n]\ntype = "string"\n[columns.m]\ntype = "bool"\n')
        before = pond.values("n")
        died = Interruptions({step: _die}, after=step % 4 == 1)
        pond.between.use(died)
        with suppress(Crash):
            pond.tick_with(11, b'{"n": "a", "m": true}', b"{}")
        pond.between.use(Interruptions())
        assert pond.values("n") in (before, [*before, (None,), (None,)])
        pond.tick(pond.new_follower())
        assert pond.values("n", "m") == [(1, None), (2, None), (None, True), (None, None)]


def _rename(table: Any, name: str, to: str) -> None:  # noqa: ANN401 - pyiceberg's
    with table.update_schema() as update:
        update.rename_column(name, to)


def _optimize(table: Any) -> None:  # noqa: ANN401 - pyiceberg's
    """Pack each day's rows into one file, as another engine's maintenance does: one snapshot without our words."""
    tasks = list(table.scan().plan_files())
    days = {str(task.file.partition[0]): int(task.file.partition[0]) for task in tasks}
    uris = []
    for number in days.values():
        begin, end = (Day(day).date.isoformat() for day in (number, number + 1))
        condition = f"arrival_time >= '{begin}T00:00:00+00:00' and arrival_time < '{end}T00:00:00+00:00'"
        uris.append(f"{table.location()}/data/rewritten-{number}-{len(table.snapshots())}.parquet")
        path = Path(uris[-1].removeprefix("file://"))
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table.scan(row_filter=condition).to_arrow(), path)
    with table.transaction() as transaction, transaction.update_snapshot().overwrite() as overwrite:
        for task in tasks:
            overwrite.delete_data_file(task.file)
        for uri in uris:
            overwrite.append_data_file(parquet_file_to_data_file(table.io, table.metadata, uri))


def _appended(table: Any) -> int:  # noqa: ANN401 - pyiceberg's
    """Return the rows of all appends: what a reader sees that leaves overwrites out."""
    summaries = [each.summary for each in table.snapshots()]
    appends = [each.additional_properties for each in summaries if each.operation.value == "append"]
    return sum(int(each["added-records"]) for each in appends)


def _manifests(table: Any) -> int:  # noqa: ANN401 - pyiceberg's
    return len(table.current_snapshot().manifests(table.io))


def _die() -> None:
    raise Crash("here")


def _forget(table: Any) -> None:  # noqa: ANN401 - pyiceberg's
    """Expire all snapshots but the current one."""
    old = [each.snapshot_id for each in table.snapshots() if each != table.current_snapshot()]
    table.maintenance.expire_snapshots().by_ids(old).commit()


def _refusing(read: Callable[..., Any], denied: Collection[str]) -> Callable[..., Any]:
    def refuse(self: DirectoryStorage, key: str, *rest: Any) -> Any:  # noqa: ANN401 - of two methods
        if key in denied:
            raise StoreRefused(f"GET {key}: AccessDenied")
        return read(self, key, *rest)

    return refuse


def test_two_followed_tables_keep_each_others_files(pond: Pond) -> None:
    """A process that is always second writes no part, and its table names them all the same."""
    pond.catalogs.append(pond.lake.catalog())
    others = IcebergTable(pond.catalogs[-1], "events.other")
    second = Follower(follow_ports(pond.site, others, pond.between))
    second._expired_ms = pond.world.clock.now_ms()
    segment = pond.written(40)
    pond.world.put_segment(segment._replace(dropped=segment.records))  # blocks the day
    for minute in (42, 60, 90):
        pond.arrive(minute)
        pond.live_until(minute + 15)
        pond.tick()
        pond.tick(second)
    held = pond.archived()
    for number in range(1, 9):
        pond.world.live_until(DAY.shift(number).begin_ms + HOUR)
        pond.site.table = pond.table()
        pond.site.night(12, accept={DAY: "known"} if number == 3 else None)
    with pond.lake.catalog() as catalog:
        rows = catalog.load_table("events.other").scan().to_arrow().to_pylist()
    assert Counter((str(row["shard_id"]), str(row["sequence_number"]), 0) for row in rows) == held


def test_a_renamed_table_keeps_its_files(pond: Pond) -> None:
    """Another one of its name is made; nights of this one know nothing of what the first one names."""
    pond.arrive(10)
    pond.live_until(30)
    pond.tick()
    held = pond.archived()
    with pond.lake.catalog() as catalog:
        catalog.rename_table(pond.lake.name, "events.kept")
    pond.follower = pond.new_follower()
    pond.tick()
    for number in range(1, 9):
        pond.world.live_until(DAY.shift(number).begin_ms + HOUR)
        pond.site.table = pond.table()
        pond.site.night(12)
    with pond.lake.catalog() as catalog:
        assert catalog.load_table("events.kept").scan().to_arrow().num_rows == held.total()


def test_what_was_accepted_so_far_is_not_complete(pond: Pond) -> None:
    """The pointer names the damaged segment, and the table lacks its records, until a night has made it whole."""
    for number in range(3):
        pond.world.plan_day(DAY.shift(number))
    pond.live_until(100)
    until_ms = pond.complete_until(DAY.begin_ms + 95 * MINUTE_MS)
    assert pond.tick().complete_until_ms == until_ms
    pond.live_until(240)
    held = pond.archived()
    pond.world.damage(min(key for key, each in pond.world.archive.items() if each.minute > DAY.first_minute + 102))
    pond.complete_until(DAY.begin_ms + 235 * MINUTE_MS)
    tick = pond.tick()
    assert (tick.left_out, tick.complete_until_ms) == (1, until_ms)
    pond.site.table = pond.table()
    pond.site.options = pond.site.options._replace(accept="a person knows")
    assert pond.site.so_far(DAY, DAY.begin_ms + 4 * HOUR).state == "published"
    for minute in (301, 362, 1440 + 40, 1440 + 120):
        pond.live_until(minute)
        pond.complete_until(DAY.begin_ms + (minute - 5) * MINUTE_MS)
        assert pond.tick().complete_until_ms == until_ms
    assert (held - pond.rows()).total() > 0


def test_a_verdict_by_older_rules_makes_no_table_complete(pond: Pond) -> None:
    """It is judged again before anything rests on it."""
    pond.world.plan_day(DAY)
    pond.world.plan_day(DAY.shift(1))
    pond.live_until(600)
    until_ms = pond.complete_until(DAY.begin_ms + 590 * MINUTE_MS)
    assert pond.tick().complete_until_ms == until_ms
    pond.live_until(1440 + 200)
    pond.site.table = pond.table()
    pond.site.night(3)
    key = DayFolder(OUT, DAY).pointer
    stored = pond.site.out.get(key)
    assert stored is not None
    pond.site.out.replace(key, msgspec.json.encode(msgspec.json.decode(stored.body) | {"rules": 1}))
    pond.complete_until(DAY.begin_ms + (1440 + 190) * MINUTE_MS)
    assert pond.tick().complete_until_ms == until_ms


def test_a_table_set_back_whose_snapshots_have_expired_is_complete_no_more(pond: Pond) -> None:
    """A person rolls it back and removes what was left behind: its sequence number tells."""
    pond.be_told_twice()
    with pond.lake.catalog() as catalog:
        table = catalog.load_table(pond.lake.name)
        gone = table.current_snapshot()
        table.manage_snapshots().rollback_to_snapshot(gone.parent_snapshot_id).commit()
        table.maintenance.expire_snapshots().by_ids([gone.snapshot_id]).commit()
    with capture_logs() as logs:
        tick = pond.tick(pond.new_follower())
    assert "table_set_back" in [each["event"] for each in logs]
    assert (tick.complete_until_ms, pond.rows()) == (0, pond.archived())


def test_an_object_that_is_listed_and_cannot_be_read_is_named(pond: Pond, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it is asked again and again without a pause; a person can find it."""
    for minute in (10, 40):
        newest = pond.world.put_segment(pond.written(minute))
        pond.live_until(minute + 5)
        pond.tick()
    read = DirectoryStorage.open_read

    def open_read(self: DirectoryStorage, key: str, *more: Any) -> Any:  # noqa: ANN401 - as it is
        if key == newest:
            raise ObjectChanged(key)
        return read(self, key, *more)

    monkeypatch.setattr(DirectoryStorage, "open_read", open_read)
    pond.site.out.delete([live_pointer_key(DayFolder(OUT, DAY))])
    with capture_logs() as logs:
        for minute in (46, 47, 48):
            pond.live_until(minute)
            assert (pond.tick().is_behind, pond.tick().exit_code) == (False, 0)
    told = [each for each in logs if each["event"] == "segment_not_read"]
    assert [each["key"] for each in told] == [newest]


def test_a_table_whose_snapshots_have_no_numbers_is_refused(tmp_path: Path) -> None:
    """Of format version 1: follow's own expiry would take away what is known of its days."""
    place = StorePrefix(Address(None, str(tmp_path)), "")
    with opened_followed("events.raw", None, place) as table:
        table._catalog.create_namespace_if_not_exists("events")
        table._catalog.create_table(table._identifier, TABLE_SCHEMA, properties={"format-version": "1"})
    with pytest.raises(SettingsError, match="format version 1") as caught, opened_followed("events.raw", None, place):
        pass
    assert "'format-version'='2'" in caught.value.next_step


@pytest.mark.parametrize("first", [600, 1433])
def test_parts_are_joined_in_commits_of_their_own(pond: Pond, monkeypatch: pytest.MonkeyPatch, first: int) -> None:
    """Also of yesterday, which is committed where something has changed: appends show each row."""
    monkeypatch.setattr("compaction.live.day.JOIN_PARTS", 4)
    monkeypatch.setattr(IcebergTable, "expire", lambda *_: 0)
    for minute in range(first, first + 7):
        pond.world.put_segment(pond.written(minute))
        pond.live_until(minute + (1 if first == 600 else 8))
        pond.tick_through()
    assert pond.rows() == pond.archived()
    assert pond.lake.table(_appended) == pond.rows().total() == 14


def test_live_files_of_an_earlier_version_are_swept_by_the_tables_name(pond: Pond) -> None:
    """Its pointers name tables, and no UUIDs."""
    pond.arrive(10)
    pond.live_until(30)
    pond.tick()
    key = live_pointer_key(DayFolder(OUT, DAY))
    stored = pond.site.out.get(key)
    assert stored is not None
    pond.site.out.replace(
        key, msgspec.json.encode(msgspec.json.decode(stored.body) | {"tables": [pond.table().name]})
    )
    for number in range(1, 9):
        pond.world.live_until(DAY.shift(number).begin_ms + HOUR)
        pond.site.table = pond.table()
        pond.site.night(12)
    assert not [row.key for row in pond.site.out.list_objects(f"{live_folder(DayFolder(OUT, DAY))}part-")]
