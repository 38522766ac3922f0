"""Days in an Iceberg table: whole, once, of the newest generation, whatever crashes, races or is lost."""

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from compaction.publish.publisher import GRACE_MS
from compaction.tables.table import IcebergTable
from minutebook.clock import SystemClock
from minutebook.published.schema import SCHEMA
from tests.corpus.shelf import Row, keys_of
from tests.fakes.failing_catalog import Fault
from tests.fakes.failing_storage import Crash, crash_points
from tests.integration.lake import DAY, NEXT, Lake, local_lake


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


def test_delta_pages_turn_vectorised_reading_off(lake: Lake) -> None:
    """Days of before have them, and Iceberg's vectorised reader may refuse them; days of now do not."""
    vectors = "read.parquet.vectorization.enabled"
    lake.shelf.publish(DAY, "one")
    lake.commit()
    assert lake.table(lambda table: table.properties.get(vectors)) is None
    rows = lake.shelf.publish(NEXT, "one", encodings={"sequence_number": "DELTA_BYTE_ARRAY"})
    lake.commit(NEXT)
    assert lake.table(lambda table: table.properties[vectors]) == "false"
    assert len(lake.rows()) == 2 * len(rows)


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
        return [
            keys_of(table.scan(snapshot_id=snapshot.snapshot_id).to_arrow().to_pylist())
            for snapshot in table.snapshots()
        ]

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


@pytest.mark.usefixtures("rest_uri")
@pytest.mark.parametrize("first", [True, False], ids=["the table's first commit", "a later generation"])
@pytest.mark.parametrize("applied", [False, True], ids=["before", "after"])
def test_a_crash_at_any_step_leaves_one_generation(tmp_path: Path, *, first: bool, applied: bool) -> None:
    """Before or after each request and each file: the old day or the new one, and the next run finishes."""
    for at in crash_points():
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


@pytest.mark.usefixtures("rest_uri")
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


def test_a_pointer_that_moves_during_a_commit_is_followed(lake: Lake) -> None:
    """A generation published without the table while a commit is on its way does not wait for the next run."""
    lake.shelf.publish(DAY, "one")
    new: list[Row] = []

    def meanwhile() -> None:
        if not new:
            new.extend(lake.shelf.publish(DAY, "two", (4,)))

    assert _race(lake, meanwhile) == "committed"
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
