"""`minutebook ddl`: Athena's DDL of a table of the published days."""

import re
import sys
from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from compaction.commands.hive import CatalogColumn, athena_ddl, columns_of, unite
from compaction.job.request import DdlRequest
from compaction.job.settings import load_job_settings
from compaction.night.recheck import published_days
from compaction.parquet.rows import read_footer
from compaction.publish.publisher import Publisher
from minutebook.clock import SystemClock
from minutebook.errors import ObjectVanished, SettingsError
from minutebook.format.day import Day, day_of_ms
from minutebook.published.generation import DayFolder
from minutebook.published.schema import SCHEMA
from minutebook.store.parallel import in_parallel
from minutebook.store.places import StorePrefix, open_retrying
from minutebook.store.retrying import RetryingStorage

_BUDGET_SECONDS: Final = 60
_TABLE: Final = re.compile(r"[a-z0-9_-]{1,255}\.[a-z0-9_-]{1,255}", re.ASCII)
"""`database.table` in lower case, as Glue and Athena store names."""


def print_ddl(request: DdlRequest, environ: Mapping[str, str]) -> int:
    """Print the DDL: its columns are those of all published days, and its partitions begin with the oldest day."""
    if _TABLE.fullmatch(request.table) is None:
        raise SettingsError(
            f"{request.table!r} is not a table of the catalog",
            next_step="write database.table in small letters: events.raw",
        )
    settings = load_job_settings(request.file, environ)
    place = settings.output(request.out)
    if place.address.bucket is None:
        raise SettingsError(
            f"the catalog cannot name {place.address.root}", next_step="publish to S3: --out s3://bucket/folder"
        )
    storage = open_retrying(place.address, _BUDGET_SECONDS)
    sys.stdout.write(ddl_of(storage, place, request.table, day_of_ms(SystemClock().now_ms())))
    return 0


def ddl_of(storage: RetryingStorage, place: StorePrefix, name: str, today: Day) -> str:
    """Return the DDL of the days that are published at a place; without any, of days from `today` on.

    The newest day's columns come first. A comment names each column whose type in older days does not fit: engines
    fail when they read it there.
    """
    days = published_days(storage, place.prefix)
    columns: tuple[CatalogColumn, ...] | None = None
    notes = []
    for day in _last_of_each_kind(storage, place.prefix, days):
        of_day = published_columns(Publisher(storage, DayFolder(place.prefix, day)))
        if of_day is not None:
            columns, conflicts = unite(columns or (), of_day)
            notes += [
                f"-- column {column} is {has} here, and {comes} on {day}: leave it out there\n"
                for column, has, comes in conflicts
            ]
    symlinks = storage.uri(DayFolder(place.prefix, today).symlinks)
    location = symlinks.removesuffix(f"dt={today}/manifest")
    text = athena_ddl(name, location, columns or columns_of(SCHEMA), days[0] if days else today)
    return "".join(notes) + text


def _last_of_each_kind(storage: RetryingStorage, root: str, days: Sequence[Day]) -> list[Day]:
    """Return the newest day of each set of typed columns, the newest first."""

    def kind(day: Day) -> tuple[tuple[str, str], ...] | None:
        _, manifest = Publisher(storage, DayFolder(root, day)).published()
        return None if manifest is None else tuple((manifest.columns or {}).items())

    newest: dict[tuple[tuple[str, str], ...], Day] = {}
    latest_first = sorted(days, reverse=True)
    for day, columns in zip(latest_first, in_parallel(kind, latest_first), strict=True):
        if columns is not None:
            newest.setdefault(columns, day)
    return list(newest.values())


def published_columns(publisher: Publisher) -> tuple[CatalogColumn, ...] | None:
    """Return the columns of the day; None when it is not published. A day without rows has those of every day."""
    _, manifest = publisher.published()
    if manifest is None:
        return None
    files = [file for file in manifest.files if file.rows]
    return columns_of(_schema(publisher.storage, files[0].key, files[0].bytes) if files else SCHEMA)


def _schema(storage: RetryingStorage, key: str, size: int) -> pa.Schema:
    head = storage.head(key)
    if head is None or head.size != size:
        raise ObjectVanished(
            f"{key} was published and is gone, or has another size", next_step="run minutebook compact for the day"
        )
    return pq.read_schema(pa.BufferReader(read_footer(storage, key).data))
