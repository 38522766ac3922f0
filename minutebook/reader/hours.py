"""A day that is not published as a whole: what was published of it so far, and the hours after that."""

from collections.abc import Callable
from typing import NamedTuple

from minutebook.errors import FormatError, StoreUnavailable
from minutebook.format.day import Hour
from minutebook.format.minute import iso_time, parse_iso_time
from minutebook.published.generation import DayFolder
from minutebook.published.reading import hour_folders
from minutebook.reader.published_day import WORST_FIRST, PublishedDay
from minutebook.store.retrying import RetryingStorage

_ATTEMPTS = 5
Read = Callable[[DayFolder], PublishedDay | None]


class _Hour(NamedTuple):
    hour: Hour
    part: PublishedDay


def day_with_hours(storage: RetryingStorage, folder: DayFolder, read: Read) -> PublishedDay | None:
    """Return the day of the pointer, extended by the published hours after it; None if neither exists.

    The day's pointer is read before and after those of the hours: if the whole day is published meanwhile, which
    removes them, that is returned. Raises StoreUnavailable if the day's pointer changes in every attempt.
    """
    day = read(folder)
    for _ in range(_ATTEMPTS):
        if day is not None and day.until is None:
            return day
        try:
            hours = _hours(storage, folder, read)
        except FormatError:
            later = read(folder)
            if later == day:
                raise
            day = later  # the day was published, and vacuum removed the hours meanwhile
            continue
        later = read(folder)
        if later == day:
            return _merged(day, hours)
        day = later
    raise StoreUnavailable(
        f"{folder.pointer} changes all the time", next_step="look for runs that publish it by turns"
    )


def _hours(storage: RetryingStorage, folder: DayFolder, read: Read) -> list[_Hour]:
    hours = []
    for hour_folder in hour_folders(storage, folder.root, folder.day):
        part = read(hour_folder)
        if part is not None and hour_folder.hour is not None:
            hours.append(_Hour(hour_folder.hour, part))
    return hours


def _merged(day: PublishedDay | None, hours: list[_Hour]) -> PublishedDay | None:
    until_ms = 0 if day is None or day.until is None else parse_iso_time(day.until)
    later = [hour for hour in hours if hour.hour.begin_ms >= until_ms]
    if not later:
        return day
    parts = [*([] if day is None else [day]), *(hour.part for hour in later)]
    return PublishedDay(
        day=parts[0].day,
        generation="" if day is None else day.generation,
        verdict=min((part.verdict for part in parts), key=WORST_FIRST.index),
        rows=sum(part.rows for part in parts),
        until=iso_time(later[-1].hour.end_ms),
        files=tuple(file for part in parts for file in part.files),
        hours=tuple(hour.hour.number for hour in later),
    )
