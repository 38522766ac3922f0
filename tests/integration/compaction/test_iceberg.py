"""Days in an Iceberg table: whole, once, of the newest generation, whatever crashes, races or is lost."""

import itertools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import parquet_file_to_data_file

from archive.clock import SystemClock
from archive.errors import CatalogRefused, CatalogUnavailable, SafetyRefusal
from archive.format.day import Day
from archive.store.places import StorePrefix, open_storage
from archive.store.storage import Address
from compaction.iceberg.table import IcebergTable
from compaction.job.context import AuditOptions
from compaction.publish.publisher import GRACE_MS
from compaction.rewrite import CompactOptions, compact_day
from compaction.tasks.parquet import SCHEMA
from demo.embedded import ACCESS_KEY, REGION, SECRET_KEY, EmbeddedAws
from tests.corpus.auditing import job_context
from tests.corpus.model import PREFIX
from tests.corpus.shelf import Row, Shelf, keys_of
from tests.fakes.failing_catalog import FailingCatalog, FailingRestCatalog, Fault
from tests.fakes.failing_storage import Crash
from tests.integration.rest_catalog import rest_catalog

DAY = Day.parse("2026-11-20")
NEXT = DAY.shift(1)
REST_JARS = os.environ.get("ICEBERG_REST_JARS")
"""Where `make catalogs` put the REST server: folders' lakes then have their tables in its catalog."""
_NUMBERS = itertools.count(1)


class Lake:
    """A shelf of published days, and a catalog that any number of clients open."""

    def __init__(self, place: StorePrefix, properties: dict[str, str], name: str = "events.raw") -> None:
        self.shelf = Shelf(place)
        self.properties = properties
        self.name = name

    def catalog(self, fault: Fault | None = None) -> FailingCatalog | FailingRestCatalog:
        """Open the catalog as another process does."""
        if self.properties["uri"].startswith("http"):
            return FailingRestCatalog("default", fault, **self.properties)
        return FailingCatalog("default", fault, **self.properties)

    def commit(self, day: Day = DAY, fault: Fault | None = None) -> str | None:
        """Bring the table into step with the day's pointer, in a client of its own; returns the state."""
        with self.catalog(fault) as catalog:
            done = self.shelf.commit(IcebergTable(catalog, self.name), day)
        return None if done is None else done.state

    def table(self, act: Callable[[Any], object]) -> Any:  # noqa: ANN401 - whatever is asked
        """Do something with the table."""
        with self.catalog() as catalog:
            return act(catalog.load_table(self.name))

    def rows(self) -> list[Row]:
        """Read the whole table; empty when there is none."""
        with self.catalog() as catalog:
            if not catalog.table_exists(self.name):
                return []
            found: list[Row] = catalog.load_table(self.name).scan().to_arrow().to_pylist()
            return found

    def snapshots(self) -> int:
        """Count the table's snapshots."""
        count: int = self.table(lambda table: len(table.snapshots()))
        return count


@pytest.fixture(scope="module", autouse=True)
def rest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Start the REST catalog, where it is asked for."""
    if REST_JARS is None:
        yield
        return
    with (
        rest_catalog(Path(REST_JARS), tmp_path_factory.mktemp("rest")) as address,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("ICEBERG_REST_URI", address)
        yield


def local_lake(folder: Path) -> Lake:
    """Return a lake in a folder."""
    out = folder / "out"
    out.mkdir(parents=True)
    if REST_JARS is not None:
        place = StorePrefix(Address(None, str(out)), "tables/")
        return Lake(place, {"uri": os.environ["ICEBERG_REST_URI"]}, f"events{next(_NUMBERS)}.raw")
    properties = {"uri": f"sqlite:///{folder / 'catalog.sqlite'}", "warehouse": f"file://{folder / 'warehouse'}"}
    return Lake(StorePrefix(Address(None, str(out)), "tables/"), properties)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Return an empty lake in a folder."""
    return local_lake(tmp_path)


@pytest.fixture
def s3_lake(embedded_aws: EmbeddedAws, bucket: str, tmp_path: Path) -> Lake:
    """Return an empty lake on the embedded S3; its catalog is a local file."""
    properties = {
        "uri": f"sqlite:///{tmp_path / 'catalog.sqlite'}",
        "warehouse": f"s3://{bucket}/warehouse",
        "s3.endpoint": embedded_aws.s3_endpoint,
        "s3.region": REGION,
        "s3.access-key-id": ACCESS_KEY,
        "s3.secret-access-key": SECRET_KEY,
        "s3.force-virtual-addressing": "false",
    }
    return Lake(StorePrefix(Address(bucket, "", REGION, embedded_aws.s3_endpoint), "tables/"), properties)


def test_a_published_day_is_committed_once(lake: Lake) -> None:
    """The rows are those of the Parquet files; a second run finds its generation there and commits nothing."""
    rows = lake.shelf.publish(DAY, "one")
    assert lake.commit() == "committed"
    assert keys_of(lake.rows()) == keys_of(rows)
    assert (lake.commit(), lake.snapshots()) == ("already", 1)


def test_the_same_on_s3(s3_lake: Lake) -> None:
    """Also generations that follow, and other days."""
    s3_lake.shelf.publish(DAY, "one")
    other = s3_lake.shelf.publish(NEXT, "one")
    assert (s3_lake.commit(), s3_lake.commit(NEXT)) == ("committed", "committed")
    late = s3_lake.shelf.publish(DAY, "two", (3, 4))
    assert (s3_lake.commit(), s3_lake.commit()) == ("committed", "already")
    assert keys_of(s3_lake.rows()) == keys_of(late + other)
    assert s3_lake.snapshots() == 3


def test_another_engine_reads_the_same_rows(lake: Lake) -> None:
    """DuckDB, on the files that the current snapshot names."""
    lake.shelf.publish(DAY, "old")
    lake.commit()
    rows = lake.shelf.publish(DAY, "one")
    lake.commit()
    names = lake.table(lambda table: [task.file.file_path for task in table.scan().plan_files()])
    relation = duckdb.connect().read_parquet([name.removeprefix("file://") for name in names])
    found = relation.select("* REPLACE (epoch_us(arrival_time) AS arrival_time)").to_arrow_table().to_pylist()
    times = pc.cast(pa.Table.from_pylist(rows, SCHEMA)["arrival_time"], "int64").to_pylist()
    assert keys_of(found) == keys_of([row | {"arrival_time": time} for row, time in zip(rows, times, strict=True)])


def test_a_filter_by_time_finds_its_rows(lake: Lake) -> None:
    """Bounds and partition of the files are right: the day's last millisecond, and nothing of the next day."""
    lake.shelf.publish(DAY, "one")
    lake.shelf.publish(NEXT, "one")
    lake.commit()
    lake.commit(NEXT)
    condition = "arrival_time >= '2026-11-20T23:59:59.999+00:00' and arrival_time < '2026-11-21T00:00:00.002+00:00'"
    found = lake.table(lambda table: table.scan(row_filter=condition).to_arrow().to_pylist())
    assert sorted(row["arrival_time"].isoformat() for row in found) == [
        "2026-11-20T23:59:59.999000+00:00",
        "2026-11-21T00:00:00+00:00",
    ]


def test_a_generation_replaces_the_former_of_its_day_in_one_snapshot(lake: Lake) -> None:
    """No snapshot, current or past, shows a day that is missing, mixed or doubled."""
    first, other = lake.shelf.publish(DAY, "one"), lake.shelf.publish(NEXT, "one")
    lake.commit()
    lake.commit(NEXT)
    second = lake.shelf.publish(DAY, "two", (4,))
    lake.commit()

    def history(table: Any) -> list[list[tuple[object, ...]]]:  # noqa: ANN401 - a table of pyiceberg
        return [keys_of(table.scan(snapshot_id=one.snapshot_id).to_arrow().to_pylist()) for one in table.snapshots()]

    assert lake.table(history) == [keys_of(first), keys_of(first + other), keys_of(second + other)]


def test_a_day_that_became_empty_is_emptied(lake: Lake) -> None:
    """A generation without rows takes the former one's out."""
    lake.shelf.publish(DAY, "one")
    other = lake.shelf.publish(NEXT, "one")
    lake.commit()
    lake.commit(NEXT)
    lake.shelf.publish(DAY, "none", (0,))
    assert (lake.commit(), lake.commit()) == ("committed", "already")
    assert keys_of(lake.rows()) == keys_of(other)


def test_a_day_that_is_not_published_is_left_alone(lake: Lake) -> None:
    """No pointer, no commit."""
    assert lake.commit() is None


@pytest.mark.parametrize("first", [True, False], ids=["the table's first commit", "a later generation"])
@pytest.mark.parametrize("applied", [False, True], ids=["before", "after"])
def test_a_crash_at_any_step_leaves_one_generation(tmp_path: Path, *, first: bool, applied: bool) -> None:
    """Before or after each request and each file: the old day or the new one, and the next run finishes."""
    for at in itertools.count(1):
        lake = local_lake(tmp_path / f"{at}")
        old = [] if first else lake.shelf.publish(DAY, "one")
        if not first:
            lake.commit()
        new = lake.shelf.publish(DAY, "two", (4, 1))
        fault = Fault(at, applied=applied)
        try:
            lake.commit(fault=fault)
        except Crash:
            assert keys_of(lake.rows()) in (keys_of(old), keys_of(new))
        if not fault.reached:
            break
        lake.commit()
        assert keys_of(lake.rows()) == keys_of(new)
        assert (lake.commit(), lake.snapshots()) == ("already", 1 if first else 2)
    assert at > 5


@pytest.mark.parametrize("applied", [False, True], ids=["refused", "applied"])
def test_a_lost_answer_is_settled_by_looking(tmp_path: Path, *, applied: bool) -> None:
    """Whether the request was applied or not, the day is in the table once."""
    for at in itertools.count(1):
        lake = local_lake(tmp_path / f"{at}")
        lake.shelf.publish(DAY, "one")
        lake.commit()
        new = lake.shelf.publish(DAY, "two", (4, 1))
        fault = Fault(at, applied=applied, crash=False)
        assert lake.commit(fault=fault) in {"committed", "already"}
        assert (keys_of(lake.rows()), lake.snapshots()) == (keys_of(new), 2)
        if not fault.reached:
            return


def _race(lake: Lake, meanwhile: Callable[[], object], moment: str = "before_commit") -> str | None:
    """Commit the day, with something happening right before the commit is sent, or before the table is loaded."""
    with lake.catalog() as catalog:
        setattr(catalog, moment, meanwhile)
        done = lake.shelf.commit(IcebergTable(catalog, lake.name), DAY)
    return None if done is None else done.state


@pytest.mark.parametrize("isolation", ["serializable", "snapshot"])
def test_two_runs_of_one_generation_have_one_winner(lake: Lake, isolation: str) -> None:
    """The loser looks again and finds its generation there, whatever isolation the table asks pyiceberg for."""
    lake.shelf.publish(NEXT, "one")
    lake.commit(NEXT)
    with lake.catalog() as catalog, catalog.load_table(lake.name).transaction() as transaction:
        transaction.set_properties({"write.delete.isolation-level": isolation})
    rows = lake.shelf.publish(DAY, "one")
    assert _race(lake, lake.commit) == "already"
    assert len(lake.rows()) == len(rows) * 2
    assert lake.snapshots() == 2


@pytest.mark.parametrize("moment", ["before_load", "before_commit"])
def test_a_run_with_an_older_view_never_brings_an_older_generation_back(lake: Lake, moment: str) -> None:
    """A run that slept anywhere while a late object was published and committed commits nothing."""
    lake.shelf.publish(DAY, "one")
    new: list[Row] = []

    def meanwhile() -> None:
        new.extend(lake.shelf.publish(DAY, "two", (4,)))
        lake.commit()

    assert _race(lake, meanwhile, moment) == "already"
    assert keys_of(lake.rows()) == keys_of(new)


def test_runs_of_other_days_only_cost_another_look(lake: Lake) -> None:
    """Both days are in the table, once."""
    rows = lake.shelf.publish(DAY, "one") + lake.shelf.publish(NEXT, "one")
    lake.commit()
    rows = lake.shelf.publish(DAY, "two") + rows[5:]
    assert _race(lake, lambda: lake.commit(NEXT)) == "committed"
    assert keys_of(lake.rows()) == keys_of(rows)


def test_many_runs_at_once(lake: Lake) -> None:
    """Eight clients of one catalog, two for each of four days: each day once."""
    days = [DAY.shift(number) for number in range(4)]
    rows = [row for day in days for row in lake.shelf.publish(day, "one")]
    lake.commit(days[0])

    def client(number: int) -> None:
        with lake.catalog() as catalog:
            lake.shelf.commit(IcebergTable(catalog, lake.name), days[number % 4])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(client, range(8)))
    assert keys_of(lake.rows()) == keys_of(rows)
    assert lake.snapshots() == 4


def _rewrite_files(table: Any, kept: str = "partition_key is not null") -> None:  # noqa: ANN401 - pyiceberg's
    """Do what maintenance does, or a DELETE with copies: the day's kept rows, in a file of the table's own."""
    condition = f"arrival_time >= '{DAY}T00:00:00+00:00' and arrival_time < '{NEXT}T00:00:00+00:00'"
    uri = f"{table.location()}/data/rewritten.parquet"
    Path(uri.removeprefix("file://")).parent.mkdir(parents=True)
    pq.write_table(table.scan(row_filter=f"{condition} and {kept}").to_arrow(), uri.removeprefix("file://"))
    with table.transaction() as transaction, transaction.update_snapshot().overwrite() as overwrite:
        for task in table.scan(row_filter=condition).plan_files():
            overwrite.delete_data_file(task.file)
        overwrite.append_data_file(parquet_file_to_data_file(table.io, table.metadata, uri))


def test_files_that_maintenance_rewrote_are_known_by_their_rows(lake: Lake) -> None:
    """The generation is still there; the next one replaces all of the day."""
    lake.shelf.publish(DAY, "one")
    other = lake.shelf.publish(NEXT, "one")
    lake.commit()
    lake.commit(NEXT)
    lake.table(_rewrite_files)
    assert lake.commit() == "already"
    new = lake.shelf.publish(DAY, "two", (4,))
    assert lake.commit() == "committed"
    assert keys_of(lake.rows()) == keys_of(new + other)


def test_rows_that_others_deleted_do_not_come_back_unasked(lake: Lake) -> None:
    """The same generation is left alone, a newer one refused; without any rows of the day it goes in."""
    lake.shelf.publish(DAY, "one")
    lake.commit()
    lake.table(lambda table: _rewrite_files(table, "partition_key != 'p1'"))
    assert lake.commit() == "already"
    new = lake.shelf.publish(DAY, "two", (4,))
    with pytest.raises(SafetyRefusal, match="3 rows in files of others, and 5 were committed"):
        lake.commit()
    lake.table(lambda table: table.delete("partition_key is not null"))
    assert lake.commit() == "committed"
    assert keys_of(lake.rows()) == keys_of(new)


def test_an_expired_day_goes_in_as_it_was_published(lake: Lake, tmp_path: Path) -> None:
    """Days that were published before there was a table can be taken over, also without their raw objects."""
    rows = lake.shelf.publish(DAY, "one")
    raw = tmp_path / "raw"
    archive = open_storage(Address(None, str(raw)))
    archive.put_if_absent(f"{PREFIX}_expired/{DAY}.json", b"{}", {}, "application/json")
    with lake.catalog() as catalog:
        given = job_context(raw, clock=lake.shelf.clock)._replace(table=IcebergTable(catalog, lake.name))
        done = compact_day(
            given, given.open(lake.shelf.place.address), DAY, CompactOptions(AuditOptions(), lake.shelf.place)
        )
    assert (done.state, done.table and done.table.state) == ("already", "committed")
    assert keys_of(lake.rows()) == keys_of(rows)


def test_rows_of_another_day_are_refused(lake: Lake) -> None:
    """A file that an accepted defect let through cannot be a part of one day."""
    lake.shelf.publish(DAY, "one", off_ms=-5)
    with pytest.raises(CatalogRefused, match="does not fit"):
        lake.commit()
    lake.shelf.publish(DAY, "two", (3, 1), off_ms=-5)
    with pytest.raises(SafetyRefusal, match="did not arrive on 2026-11-20"):
        lake.commit()
    assert lake.rows() == []


def test_a_table_of_another_kind_is_refused(lake: Lake) -> None:
    """A table that somebody made without the partition is not written to."""
    lake.shelf.publish(DAY, "one")
    with lake.catalog() as catalog:
        catalog.create_namespace(lake.name.partition(".")[0])
        catalog.create_table(lake.name, SCHEMA)
    with pytest.raises(CatalogRefused, match="not partitioned by day"):
        lake.commit()


def test_a_published_file_that_is_gone_is_named(lake: Lake) -> None:
    """And nothing is committed."""
    lake.shelf.publish(DAY, "one")
    folder = lake.shelf.publisher(DAY).folder
    lake.shelf.storage.delete([f"{folder.generation('one')}part-00001.parquet"])
    with pytest.raises(CatalogRefused, match=r"part-00001\.parquet was published and is gone"):
        lake.commit()
    assert lake.rows() == []


@pytest.mark.skipif(REST_JARS is not None, reason="it is SQLite's file that is broken here")
def test_a_catalog_that_stays_away_is_exit_5(lake: Lake, tmp_path: Path) -> None:
    """The budget is spent, and the message says what to do."""
    lake.shelf.publish(DAY, "one")
    with lake.catalog() as catalog:
        (tmp_path / "catalog.sqlite").write_bytes(b"no database " * 100)
        with pytest.raises(CatalogUnavailable, match="gave up on the commit to default") as caught:
            lake.shelf.commit(IcebergTable(catalog, lake.name), DAY)
    assert caught.value.exit_code == 5


def test_a_run_without_the_table_never_sweeps_what_the_table_names(lake: Lake) -> None:
    """Marks keep the generation; once the table has been without it for the grace, it goes."""
    old = lake.shelf.publish(DAY, "one")
    lake.commit()
    lake.shelf.publish(DAY, "two", (4,))
    publisher = lake.shelf.publisher(DAY)
    later = SystemClock().now_ms() + GRACE_MS + 60_000
    assert publisher.sweep(later) == []
    assert keys_of(lake.rows()) == keys_of(old)
    assert (lake.commit(), lake.commit()) == ("committed", "already")
    assert publisher.sweep(later) == []
    lake.shelf.clock.advance((later - lake.shelf.clock.now_ms()) / 1000)
    lake.commit()
    assert len(publisher.sweep(later)) == 2
    assert len(lake.rows()) == 4
