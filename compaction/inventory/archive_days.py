"""The days of an archive that hold something, by the names of its folders."""

from archive.errors import SettingsError
from archive.format.day import Day
from archive.store.parallel import in_parallel
from archive.store.retrying import RetryingStorage


def archive_days(storage: RetryingStorage, prefix: str) -> list[Day]:
    """Return the days that hold something, in order: one request per year and month."""
    folders = [prefix]
    for width in (4, 2, 2):
        levels = in_parallel(storage.list_level, folders)
        folders = [
            folder
            for level in levels
            for folder in level.folders
            if _is_number(folder.rstrip("/").rpartition("/")[2], width)
        ]
    days = [_day(folder.removeprefix(prefix).strip("/").replace("/", "-")) for folder in folders]
    return sorted(day for day in days if day is not None)


def _day(text: str) -> Day | None:
    """Return the day; None when the folder only looks like one (`2026/13/01`)."""
    try:
        return Day.parse(text)
    except SettingsError:
        return None


def _is_number(text: str, width: int) -> bool:
    return len(text) == width and text.isascii() and text.isdecimal()
