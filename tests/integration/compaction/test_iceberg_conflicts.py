"""Tables in which somebody changed the columns of every day: the day is published, the table is left alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.types import StringType

from archive.errors import CatalogRefused
from archive.published.schema import SCHEMA
from compaction.days.outcome import row_of_compaction
from compaction.glue.register import GlueTable, TableName
from compaction.iceberg.table import IcebergTable
from compaction.rewrite import Compacted
from compaction.typed.event_time import with_event_time
from compaction.verdict.audit_document import Audit, decode_audit
from tests.corpus.desk import Desk
from tests.corpus.shelf import Shelf
from tests.corpus.typed_day import payload_day
from tests.fakes.glue import FakeGlue
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
    assert (row.exit_code, row.reason) == (2, "; ".join(f"{key}: {text}" for key, text in done.conflicts.items()))
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
    assert (done.state, done.table.state, done.conflicts) == ("already", "committed", {})
    assert len(night.lake.rows()) == sum(desk.corpus.records for desk in night.desks.values())


def test_a_required_column_holds_the_day(night: Night) -> None:
    """Files may lack any value by their schema; Iceberg's readers would believe that none does."""
    night.lake.table(
        lambda table: (
            table.update_schema(allow_incompatible_changes=True).update_column("data", required=True).commit()
        )
    )
    done = night.compact()
    assert [*done.conflicts.values()] == ["column data: the table has it as required, the day rows that may lack it"]


def test_a_day_that_is_there_is_not_held_when_its_snapshot_is_expired(night: Night) -> None:
    """The files of its generation tell: the other day is held, and this one has no finding."""
    night.compact()

    def expire(table: Any) -> None:  # noqa: ANN401 - pyiceberg's
        first = table.snapshots()[0].snapshot_id
        table.maintenance.expire_snapshots().by_ids([first]).commit()

    night.lake.table(expire)
    night.lake.table(rename)
    assert night.compact(DAY).conflicts == {}
    night.desks[NEXT].archive_more()
    assert night.compact(NEXT).conflicts


def test_a_refusal_of_one_catalog_keeps_the_day_out_of_no_other(night: Night) -> None:
    """Somebody has put a table of another kind in its place; the engines of Glue's catalog have the day."""
    glue = FakeGlue("events")
    desk = night.desks[DAY]
    register = GlueTable(glue, TableName("events", "raw"), Shelf(desk.out).waits).register
    night.lake.table(lambda table: table.catalog.drop_table(night.lake.name))
    with night.lake.catalog() as catalog:
        catalog.create_table(night.lake.name, SCHEMA)
    with pytest.raises(CatalogRefused, match="is not partitioned by day"):
        night.compact(DAY, register=register)
    assert list(glue.partitions) == [("events", "raw", str(DAY))]


def test_both_catalogs_tell_and_each_forgets_its_own(night: Night) -> None:
    """A run that asks one of them says nothing new of the other."""
    glue = FakeGlue("events")
    desk = night.desks[DAY]
    register = GlueTable(glue, TableName("events", "raw"), Shelf(desk.out).waits).register
    night.compact(DAY, register=register)
    desk.archive_more()
    night.lake.table(rename)
    listed = glue.tables["events", "raw"]["StorageDescriptor"]["Columns"]
    listed[-2]["Type"] = "bigint"

    done = night.compact(DAY, register=register)

    assert done.result is not None
    iceberg = ("partition_key", "no such column", "string")
    catalog = ("event_time", "bigint", "timestamp")
    assert [each[:3] for each in told(done.result.audit)] == [iceberg, catalog]
    assert [*done.conflicts] == [f"default.{night.lake.name}", "glue:events.raw"]
    glue.tables["events", "raw"]["StorageDescriptor"]["Columns"][-2]["Type"] = "timestamp"
    desk.compact(day=DAY, columns=night.columns, register=register)
    assert [each[:3] for each in told(stored(desk))] == [iceberg]


def stored(desk: Desk) -> Audit:
    """Return the audit that the day's pointer names."""
    pointer = desk.publisher().current().pointer
    assert pointer is not None
    body = desk.publisher().audit(pointer)
    assert body is not None
    return decode_audit(body)
