"""What tests of an Iceberg table's folders ask: vacuum, the files that are there, and all snapshots' rows."""

import os
from pathlib import Path
from typing import Any

import duckdb
import msgspec

from compaction.commands.vacuum.command import VacuumTable, vacuum_table
from compaction.tables.orphans import TableFolders
from minutebook.clock import SystemClock
from tests.corpus.shelf import keys_of
from tests.integration.lake import DAY, NEXT, Lake

_MINUTE_MS = 60_000
ORPHANS = ("metadata/a-m0.avro", "metadata/snap-1-0-a.avro", "metadata/b.stats", "data/x/c.parquet", "data/d.puffin")
"""Names as Iceberg's writers give, in both folders."""


def vacuum(lake: Lake, *, apply: bool = True, before_ms: int | None = None) -> VacuumTable:
    """Vacuum the table, when all that is there now is older than the grace; files of folders are told as paths."""
    with lake.catalog() as catalog:
        before = SystemClock().now_ms() + _MINUTE_MS if before_ms is None else before_ms
        done = vacuum_table(TableFolders(catalog, lake.name), before, apply=apply)
    return msgspec.structs.replace(done, files=tuple(path_of(uri) for uri in done.files))


def path_of(uri: str) -> str:
    """Return a local file's path: some catalogs write it as an address, some do not."""
    return uri.removeprefix("file://")


def folder_of(lake: Lake) -> Path:
    """Return the table's folder."""
    return Path(path_of(lake.table(lambda table: table.location())))


def files_of(folder: Path) -> set[str]:
    """Return the paths of all files in a folder."""
    return {str(path) for path in folder.rglob("*") if path.is_file()}


def history(lake: Lake) -> list[list[tuple[object, ...]]]:
    """Read all snapshots of the table, from the first to the current one."""

    def read(table: Any) -> list[list[tuple[object, ...]]]:  # noqa: ANN401 - pyiceberg's
        found = [each.snapshot_id for each in table.snapshots()]
        return [keys_of(table.scan(snapshot_id=number).to_arrow().to_pylist()) for number in found]

    rows: list[list[tuple[object, ...]]] = lake.table(read)
    return rows


def counted(lake: Lake) -> int:
    """Count the current rows with DuckDB, on the files that the table names."""
    names = lake.table(lambda table: [task.file.file_path for task in table.scan().plan_files()])
    with duckdb.connect() as engine:
        relation = engine.read_parquet([path_of(name) for name in names])
        [[count]] = relation.aggregate("count(*)").fetchall()
    return int(count)


def filled(lake: Lake) -> Lake:
    """Commit two days to a lake's table, one of them twice."""
    lake.shelf.publish(NEXT, "one")
    lake.shelf.publish(DAY, "one")
    assert (lake.commit(NEXT), lake.commit()) == ("committed", "committed")
    lake.shelf.publish(DAY, "two", (4,))
    assert lake.commit() == "committed"
    return lake


def left(lake: Lake, *names: str) -> set[str]:
    """Write files into the table's folder; returns their paths."""
    paths = [folder_of(lake) / name for name in names]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"left")
    return {str(path) for path in paths}


def age(lake: Lake) -> None:
    """Let all files of the table be thirty days old."""
    at = SystemClock().now_ms() / 1000 - 30 * 86_400
    for path in files_of(folder_of(lake)):
        os.utime(path, (at, at))
