"""Nights with a table take hours over as others do: it names the day's files, and none of an hour."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from compaction.job.context import AuditOptions
from compaction.tables.table import IcebergTable
from tests.corpus.desk import DAY
from tests.fakes.failing_catalog import Fault
from tests.fakes.failing_storage import Crash
from tests.integration.lake import Lake
from tests.unit.compaction.hours.scene import HELD, Hours

if TYPE_CHECKING:
    from compaction.night.rewrite import Compacted

HOUR_MS = 3_600_000


@pytest.fixture
def desk(tmp_path: Path) -> Hours:
    """Return a day of which nothing is published."""
    return Hours(tmp_path / "day")


def publish(desk: Hours, lake: Lake, fault: Fault | None = None, **asked: Any) -> "Compacted":  # noqa: ANN401 - whatever a run is asked
    """Compact the day into the table."""
    with lake.catalog(fault) as catalog:
        return desk.publish(table=IcebergTable(catalog, lake.name), **asked)


def files_of(table: Any) -> set[str]:  # noqa: ANN401 - a table of pyiceberg
    """Return the files of the table's current snapshot."""
    return {task.file.file_path for task in table.scan().plan_files()}


def check(desk: Hours, lake: Lake, snapshots: int) -> None:
    """Assert that the table has each record of the day once, in the files that the day's manifest names."""
    rows = [(row["shard_id"], row["sequence_number"], row["sub_sequence_number"]) for row in lake.rows()]
    assert sorted(rows) == sorted(desk.published_rows())
    desk.check_whole()
    _, manifest = desk.publisher().published()
    assert manifest is not None
    assert lake.table(files_of) == {desk.publisher().address(file.key) for file in manifest.files}
    assert lake.snapshots() == snapshots


def test_a_table_gets_the_day_and_never_an_hour(desk: Hours, lake: Lake) -> None:
    """The part of the day so far, and then the day, each in one snapshot; the hours between them are the reader's."""
    desk.publish_hours(*HELD[:2])
    publish(desk, lake, audit=AuditOptions(so_far_ms=DAY.begin_ms + 10 * HOUR_MS))
    so_far = lake.table(files_of)
    desk.publish_hours(*HELD[2:])
    assert lake.table(files_of) == so_far
    done = publish(desk, lake)
    assert done.table is not None
    assert (done.table.state, desk.read) == ("committed", [])
    check(desk, lake, snapshots=2)


@pytest.mark.parametrize("late", [False, True])
def test_a_commit_that_a_crash_took_is_made_up_for(desk: Hours, lake: Lake, *, late: bool) -> None:
    """The day is published and its hours have given way; the next run commits it, also where an object came since."""
    desk.publish_hours()
    with pytest.raises(Crash):
        publish(desk, lake, Fault(1, applied=False))
    desk.check_whole()
    if late:
        desk.archive_more()
    done = publish(desk, lake)
    assert done.state == ("published" if late else "already")
    check(desk, lake, snapshots=1)
