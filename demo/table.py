"""The table that `minutebook follow` keeps minutes old and the nightly job takes over, as pyiceberg reads it."""

import importlib.util
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

NAME: Final = "demo.flights"
CATALOG: Final = "demo"
OPTIONS: Final = ("--iceberg", NAME, "--iceberg-catalog", CATALOG)


class TableRows(NamedTuple):
    """What a reader finds: rows by shard, the table's `minutebook.rows-until`, and its newest metadata file."""

    by_shard: Mapping[str, int]
    until: str
    metadata: str

    @property
    def total(self) -> int:
        """All rows."""
        return sum(self.by_shard.values())


def is_installed() -> bool:
    """Return whether the extra `iceberg` is."""
    return all(importlib.util.find_spec(name) is not None for name in ("pyiceberg", "pyarrow", "sqlalchemy"))


def catalog_properties(folder: Path) -> dict[str, str]:
    """Return the properties of a catalog in a folder of the run."""
    return {"type": "sql", "uri": f"sqlite:///{folder / 'catalog.sqlite'}", "warehouse": f"file://{folder}/warehouse"}


def catalog_variables(folder: Path) -> dict[str, str]:
    """Return the variables by which every command of the run finds the catalog."""
    prefix = f"PYICEBERG_CATALOG__{CATALOG.upper()}__"
    return {f"{prefix}{name.upper()}": value for name, value in catalog_properties(folder).items()}


def read_table(folder: Path) -> TableRows | None:
    """Ask the table; None: nothing was committed yet."""
    from pyiceberg.catalog import load_catalog  # noqa: PLC0415 - an extra, and heavy

    with load_catalog(CATALOG, **catalog_properties(folder)) as catalog:
        if not catalog.table_exists(NAME):
            return None
        table = catalog.load_table(NAME)
        shards = table.scan(selected_fields=("shard_id",)).to_arrow()["shard_id"].to_pylist()
        by_shard = dict(sorted(Counter(shards).items()))
        return TableRows(by_shard, table.properties.get("minutebook.rows-until", ""), table.metadata_location)
