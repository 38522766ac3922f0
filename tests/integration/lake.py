"""A shelf of published days, and an Iceberg catalog beside it that fails as it is told to."""

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from compaction.tables.table import IcebergTable
from minutebook.format.day import Day
from minutebook.store.places import StorePrefix
from minutebook.store.storage import Address
from tests.corpus.shelf import Row, Shelf
from tests.fakes.failing_catalog import FailingCatalog, FailingRestCatalog, Fault

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


def local_lake(folder: Path) -> Lake:
    """Return a lake in a folder."""
    out = folder / "out"
    out.mkdir(parents=True)
    if REST_JARS is not None:
        place = StorePrefix(Address(None, str(out)), "tables/")
        return Lake(place, {"uri": os.environ["ICEBERG_REST_URI"]}, f"events{next(_NUMBERS)}.raw")
    properties = {"uri": f"sqlite:///{folder / 'catalog.sqlite'}", "warehouse": f"file://{folder / 'warehouse'}"}
    return Lake(StorePrefix(Address(None, str(out)), "tables/"), properties)
