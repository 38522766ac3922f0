"""Commits to Iceberg's own REST catalog over a wire that loses answers: once each, never twice (`make catalogs`)."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from compaction.columns.event_time import with_event_time
from compaction.tables.table import IcebergTable
from minutebook.errors import CatalogUnavailable
from minutebook.format.day import Day
from minutebook.published.schema import SCHEMA
from tests.corpus.desk import Desk
from tests.corpus.typed_day import payload_day
from tests.fakes.rest_wire import Astray, RestWire, rest_wire
from tests.integration.lake import DAY, NEXT, REST_JARS, Lake

pytestmark = pytest.mark.skipif(REST_JARS is None, reason="needs the server: make catalogs")

_FAULTS: Final = [Astray(applied, status) for status in (0, 409, 500, 502, 503, 504) for applied in (False, True)]


class Site:
    """A table by event with a day, another day that is published, and a wire to the catalog."""

    def __init__(self, lake: Lake, wire: RestWire, folder: Path) -> None:
        self.lake = lake
        self.wire = wire
        self._far = Lake(lake.shelf.place, {"uri": wire.address}, lake.name)
        payload = f'{{"ts":"{DAY}T10:00:00.000001Z"}}'.encode()
        self.desks = {day: Desk(folder / str(day), payload_day(day, 2, lambda _: payload)) for day in (DAY, NEXT)}
        for desk in self.desks.values():
            desk.clock.advance(2 * 86_400)

    def compact(self, *faults: Astray, day: Day = NEXT, by_event: bool = True) -> str:
        """Publish a day, with faults at its commits; returns what became of it in the table."""
        self.wire.faults = [*faults]
        columns = with_event_time(None, "ts", 30, SCHEMA.names) if by_event else None
        with self._far.catalog() as catalog:
            table = IcebergTable(catalog, self.lake.name, by_event=by_event)
            done = self.desks[day].compact(day=day, columns=columns, table=table)
        assert done.table is not None
        assert not self.wire.faults
        return done.table.state

    def holds(self) -> tuple[int, int, int]:
        """Return the table's rows, how many of them differ, and its snapshots."""
        rows = self.lake.rows()
        keys = {(str(row["arrival_time"].date()), row["shard_id"], row["sequence_number"]) for row in rows}
        return len(rows), len(keys), self.lake.snapshots()


@pytest.fixture
def site(lake: Lake, tmp_path: Path) -> Iterator[Site]:
    """Return a table that took a day over a wire that works."""
    with rest_wire(os.environ["ICEBERG_REST_URI"]) as wire:
        made = Site(lake, wire, tmp_path / "site")
        yield made


@pytest.mark.parametrize("by_event", [False, True])
@pytest.mark.parametrize("fault", _FAULTS)
def test_a_commit_that_goes_astray_is_there_once(site: Site, fault: Astray, *, by_event: bool) -> None:
    """Whether the catalog took it or not, and whatever the client was told: also a conflict that was none."""
    assert site.compact(day=DAY, by_event=by_event) == "committed"
    assert site.holds() == (36, 36, 1)
    state = site.compact(fault, by_event=by_event)
    assert state == ("already" if fault.applied else "committed")
    assert site.holds() == (72, 72, 2)
    assert site.compact(by_event=by_event) == "already"
    assert site.holds() == (72, 72, 2)


def test_a_table_that_becomes_one_by_event_does_so_once(site: Site) -> None:
    """Schema, partitions and files are one commit, and its answer is lost three times."""
    site.compact(day=DAY, by_event=False)
    lost = Astray(applied=False, status=0)
    assert site.compact(lost, lost, Astray(applied=True, status=504)) == "already"
    assert site.holds() == (72, 72, 2)
    assert site.lake.table(lambda table: [field.name for field in table.spec().fields]) == [
        "arrival_day",
        "event_day",
    ]
    site.desks[DAY].archive_more()
    assert site.compact(Astray(applied=True, status=0), day=DAY) == "already"
    assert site.holds() == (73, 73, 3)


def test_a_catalog_that_never_answers_is_exit_5_and_made_up_for(site: Site) -> None:
    """The day is published; the next run commits it."""
    site.compact(day=DAY)
    with pytest.raises(CatalogUnavailable, match="gave up on the commit"):
        site.compact(*[Astray(applied=False, status=503)] * 1_000)
    assert site.holds() == (36, 36, 1)
    assert site.compact() == "committed"
    assert site.holds() == (72, 72, 2)
