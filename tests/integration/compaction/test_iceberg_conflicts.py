"""Tables in which somebody changed the columns of every day: the day is published, the table is left alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.types import StringType

from compaction.columns.event_time import with_event_time
from compaction.night.days.run import row_of_compaction
from compaction.night.rewrite import Compacted
from compaction.tables.table import IcebergTable
from minutebook.published.schema import SCHEMA
from tests.corpus.desk import Desk
from tests.corpus.typed_day import payload_day
from tests.integration.compaction.test_iceberg_columns import told
from tests.integration.lake import DAY, NEXT, Lake


def rename(table: Any) -> None:  # noqa: ANN401 - pyiceberg's
    """Give a column another name."""
    table.update_schema().rename_column("partition_key", "pk").commit()


def retype(table: Any) -> None:  # noqa: ANN401 - pyiceberg's
    """Put a text in the place of a number."""
    table.update_schema().delete_column("sub_sequence_number").commit()
    table.refresh().update_schema().add_column("sub_sequence_number", StringType()).commit()


def rename_arrival(table: Any) -> None:  # noqa: ANN401 - pyiceberg's
    """Give the column another name by whose days the table is partitioned."""
    table.update_schema().rename_column("arrival_time", "at").commit()


def rename_awkwardly(table: Any) -> None:  # noqa: ANN401 - pyiceberg's
    """Give it one that pyiceberg's parser of filters does not take."""
    table.update_schema().rename_column("arrival_time", "arrived at").commit()


class Night:
    """A day with the time of events, and a table that took the day before."""

    def __init__(self, lake: Lake, folder: Path) -> None:
        self.lake = lake
        self.desks = {
            day: Desk(folder / str(day), payload_day(day, 1, lambda _: f'{{"ts":"{DAY}T10:00:00Z"}}'.encode()))
            for day in (DAY, NEXT)
        }
        for desk in self.desks.values():
            desk.clock.advance(2 * 86_400)
        self.columns = with_event_time(None, "ts", 30, SCHEMA.names)
        self.compact(DAY)

    def compact(self, day: Any = NEXT, **changes: object) -> Compacted:  # noqa: ANN401 - a day
        """Publish a day and commit it."""
        with self.lake.catalog() as catalog:
            table = IcebergTable(catalog, self.lake.name, by_event=True)
            return self.desks[day].compact(day=day, columns=self.columns, table=table, **changes)


@pytest.fixture
def night(lake: Lake, tmp_path: Path) -> Night:
    """Return a table that has a day."""
    return Night(lake, tmp_path / "night")


@pytest.mark.parametrize(
    ("act", "conflict"),
    [
        (rename, ("partition_key", "no such column", "string")),
        (retype, ("sub_sequence_number", "string", "long")),
        (rename_arrival, ("arrival_time", "a partition by the day of at", "timestamp")),
        (rename_awkwardly, ("arrival_time", "a partition by the day of arrived at", "timestamp")),
    ],
)
def test_a_changed_column_of_every_day_holds_the_day(
    night: Night, act: Callable[[Any], None], conflict: tuple[str, str, str]
) -> None:
    """The first record is named. The day that is there stays there, and no file is cut for the one that is held."""
    night.lake.table(act)
    before = night.lake.snapshots()

    done = night.compact()

    assert done.result is not None
    shard = done.result.audit.shards[0]
    assert (done.state, told(done.result.audit)) == ("published", [(*conflict, shard.shard, shard.first, "")])
    row = row_of_compaction(NEXT, done, "defects")
    assert (row.exit_code, row.reason) == (2, f"default.{night.lake.name}: {done.conflicts}")
    assert night.lake.snapshots() == before
    assert not [row for row in night.desks[NEXT].storage.list_objects("") if "_events" in row.key]
    again = night.compact(DAY)
    assert again.table is not None
    assert again.table.state == "already"


def test_a_column_that_comes_back_lets_the_day_in(night: Night) -> None:
    """The finding goes."""
    night.lake.table(rename_arrival)
    assert night.compact().conflicts
    night.lake.table(lambda table: table.update_schema().rename_column("at", "arrival_time").commit())
    done = night.compact()
    assert done.table is not None
    assert (done.state, done.table.state, done.conflicts) == ("already", "committed", "")
    assert len(night.lake.rows()) == sum(desk.corpus.records for desk in night.desks.values())


def test_a_required_column_holds_the_day(night: Night) -> None:
    """Files may lack any value by their schema; Iceberg's readers would believe that none does."""
    night.lake.table(
        lambda table: (
            table.update_schema(allow_incompatible_changes=True).update_column("data", required=True).commit()
        )
    )
    done = night.compact()
    assert done.conflicts == "column data: the table has it as required, the day rows that may lack it"


def test_a_day_that_is_there_is_not_held_when_its_snapshot_is_expired(night: Night) -> None:
    """The files of its generation tell: the other day is held, and this one has no finding."""
    night.compact()

    def expire(table: Any) -> None:  # noqa: ANN401 - pyiceberg's
        first = table.snapshots()[0].snapshot_id
        table.maintenance.expire_snapshots().by_ids([first]).commit()

    night.lake.table(expire)
    night.lake.table(rename)
    assert night.compact(DAY).conflicts == ""
    night.desks[NEXT].archive_more()
    assert night.compact(NEXT).conflicts
