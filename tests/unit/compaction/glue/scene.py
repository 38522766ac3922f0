"""A shelf of published days, and a catalog of Glue's beside it."""

from pathlib import Path

import pyarrow as pa

from archive.format.day import Day
from archive.store.places import StorePrefix
from archive.store.storage import Address
from compaction.glue.register import GlueTable, Registration, TableName
from tests.corpus.shelf import Shelf
from tests.fakes.glue import FakeGlue

DAY = Day.parse("2026-11-20")
NAME = TableName("events", "raw")
KEY = ("events", "raw", str(DAY))


class Site:
    """A shelf, and a catalog."""

    def __init__(self, folder: Path) -> None:
        self.shelf = Shelf(StorePrefix(Address(None, str(folder)), "out/"))
        self.glue = FakeGlue("events")
        self.location = f"{folder}/out/_symlinks/"

    def register(self, day: Day = DAY) -> str | None:
        """Register a day, as a run of its own; returns the state."""
        done = self.whole(day)
        return None if done is None else done.state

    def whole(self, day: Day = DAY) -> Registration | None:
        """Register a day; returns all that is told of it."""
        return GlueTable(self.glue, NAME, self.shelf.waits).register(self.shelf.publisher(day))

    @property
    def columns(self) -> list[tuple[str, str]]:
        """Return the table's columns."""
        listed = self.glue.tables["events", "raw"]["StorageDescriptor"]["Columns"]
        return [(column["Name"], column["Type"]) for column in listed]


def evolve(site: Site, day: Day, columns: dict[str, pa.Array]) -> None:
    """Publish a day of one row with typed columns, as its manifest says."""
    site.shelf.publish(day, "typed", (1,))

    def typed(table: pa.Table) -> pa.Table:
        for name, values in columns.items():
            table = table.append_column(name, values)
        return table

    site.shelf.change_file(day, typed, {name: str(values.type) for name, values in columns.items()})
