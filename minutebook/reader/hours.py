"""The hours of a day that is not published as a whole: what there is of it, beside nothing that holds it twice."""

from collections.abc import Callable
from typing import NamedTuple

from minutebook.errors import FormatError, StoreUnavailable
from minutebook.format.minute import iso_time, parse_iso_time
from minutebook.published.generation import DayFolder
from minutebook.published.reading import hour_folders
from minutebook.reader.published_day import WORST_FIRST, PublishedDay
from minutebook.store.retrying import RetryingStorage

_LOOKS = 5
Read = Callable[[DayFolder], PublishedDay | None]


class _Hour(NamedTuple):
    folder: DayFolder
    found: PublishedDay


def day_with_hours(storage: RetryingStorage, folder: DayFolder, read: Read) -> PublishedDay | None:
    """Return the day as its pointer has it, or with the hours behind what that holds; None: there is nothing.

    The day's pointer is read before the hours' and behind them: a day that is published meanwhile takes their
    pointers away, and is read instead.

    Raises:
        StoreUnavailable: the day's pointer changes all the time; or the store.
        FormatError, StoreRefused: as `published`.
    """
    day = read(folder)
    for _ in range(_LOOKS):
        if day is not None and day.until is None:
            return day
        try:
            hours = _hours(storage, folder, read)
        except FormatError:
            later = read(folder)
            if later == day:
                raise
            day = later  # it was published, and they were vacuumed under us
            continue
        again = read(folder)
        if again == day:
            return _merged(day, hours)
        day = again
    raise StoreUnavailable(
        f"{folder.pointer} changes all the time", next_step="look for runs that publish it by turns"
    )


def _hours(storage: RetryingStorage, folder: DayFolder, read: Read) -> list[_Hour]:
    found = [(each, read(each)) for each in hour_folders(storage, folder.root, folder.day)]
    return [_Hour(each, hour) for each, hour in found if hour is not None]


def _merged(day: PublishedDay | None, hours: list[_Hour]) -> PublishedDay | None:
    until_ms = 0 if day is None or day.until is None else parse_iso_time(day.until)
    later = [one for one in hours if one.folder.hour is not None and one.folder.hour.begin_ms >= until_ms]
    if not later:
        return day
    parts = [*([] if day is None else [day]), *(one.found for one in later)]
    last = later[-1].folder.hour
    return PublishedDay(
        day=parts[0].day,
        generation="" if day is None else day.generation,
        verdict=min((part.verdict for part in parts), key=WORST_FIRST.index),
        rows=sum(part.rows for part in parts),
        until=None if last is None else iso_time(last.end_ms),
        files=tuple(file for part in parts for file in part.files),
        hours=tuple(one.folder.hour.number for one in later if one.folder.hour is not None),
    )
