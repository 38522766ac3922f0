"""`minutebook ddl`: what to type into Athena for a table of the published days."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from archive.clock import SystemClock
from archive.errors import SettingsError
from archive.format.day import Day, day_of_ms
from archive.published.generation import DayFolder
from archive.published.schema import SCHEMA
from archive.store.parallel import in_parallel
from archive.store.places import StorePrefix, open_retrying
from archive.store.retrying import RetryingStorage
from compaction.glue.catalog import check_output, parse_table
from compaction.glue.register import root_of
from compaction.glue.schema import published_columns
from compaction.glue.table import Column, columns_of, ddl, unite
from compaction.job.settings import load_job_settings
from compaction.publish.publisher import Publisher

_BUDGET_SECONDS: Final = 60


def print_ddl(file: Path | str | None, environ: Mapping[str, str], *, table: str, out: str | None) -> int:
    """Print the DDL: columns are those of all published days, partitions begin with the oldest.

    Raises:
        SettingsError: the file or an option.
        StoreUnavailable, StoreRefused: the output.
    """
    name = parse_table(table)
    settings = load_job_settings(file, environ)
    place = settings.output(out)
    check_output(place)
    clock = SystemClock()
    storage = open_retrying(place.address, _BUDGET_SECONDS)
    sys.stdout.write(ddl_of(storage, place, str(name), day_of_ms(clock.now_ms())))
    return 0


def ddl_of(storage: RetryingStorage, place: StorePrefix, name: str, today: Day) -> str:
    """Return the DDL of what is published at a place; with nothing there, of what will be from today on.

    The newest day's columns come first. A column that has a type in older days that no wider one holds with the
    newest's is told in a comment: engines fail where they read it there.
    """
    days = published_days(storage, place.prefix)
    columns: tuple[Column, ...] | None = None
    notes = []
    for day in _last_of_each_kind(storage, place.prefix, days):
        found = published_columns(Publisher(storage, DayFolder(place.prefix, day)))
        if found is not None:
            columns, conflicts = unite(columns or (), found)
            notes += [
                f"-- column {column} is {has} here, and {comes} on {day}: leave it out there\n"
                for column, has, comes in conflicts
            ]
    location = root_of(Publisher(storage, DayFolder(place.prefix, today)))
    text = ddl(name, location, columns or columns_of(SCHEMA), days[0] if days else today)
    return "".join(notes) + text


def _last_of_each_kind(storage: RetryingStorage, root: str, days: Sequence[Day]) -> list[Day]:
    """Return the newest day of each set of typed columns, the newest first."""

    def kind(day: Day) -> tuple[tuple[str, str], ...] | None:
        _, manifest = Publisher(storage, DayFolder(root, day)).published()
        return None if manifest is None else tuple((manifest.columns or {}).items())

    newest: dict[tuple[tuple[str, str], ...], Day] = {}
    for day, found in sorted(zip(days, in_parallel(kind, days), strict=True), key=lambda pair: pair[0], reverse=True):
        if found is not None:
            newest.setdefault(found, day)
    return list(newest.values())


def published_days(storage: RetryingStorage, root: str) -> list[Day]:
    """Return the days that have a folder, in order."""
    names = (folder.removeprefix(f"{root}dt=").rstrip("/") for folder in storage.list_level(root).folders)
    found = []
    for name in names:
        try:
            found.append(Day.parse(name))
        except SettingsError:
            continue  # another folder, such as that of the symlinks
    return sorted(found)
