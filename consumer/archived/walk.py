"""Walking the archive backwards from a minute, by the object names alone.

The names say minute, shard and first position, and nothing points at the newest. So the archive is walked hour by
hour: years, months and days without an object are skipped with one request each, an hour is listed whole (all shards
at once: 1,000 objects a request).
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Final, NamedTuple, Self

from archive.errors import FormatError
from archive.format.day import MINUTES_A_DAY, MINUTES_AN_HOUR
from archive.format.keys import SegmentKey, parse_segment_key
from archive.store.retrying import RetryingStore

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Window(NamedTuple):
    """The minutes that a walk covers, both ends included: from `newest` down to `oldest`."""

    oldest: int
    newest: int

    @classmethod
    def up_to(cls, day: date) -> Self:
        """Return everything up to the end of a UTC day."""
        return cls(0, ((day - _EPOCH.date()).days + 1) * MINUTES_A_DAY - 1)


class Hour(NamedTuple):
    """One hour of the archive: its first minute, and the segments in it."""

    start: int
    segments: list[SegmentKey]


def days_with_objects(store: RetryingStore, prefix: str, window: Window) -> Iterator[date]:
    """Yield every UTC day in `window` that holds an object, newest first."""
    return (_moment(minute).date() for minute in _units(store, prefix, window, MINUTES_A_DAY))


def segments_by_hour(store: RetryingStore, prefix: str, window: Window) -> Iterator[Hour]:
    """Yield the hours in `window`, newest first; days without an object are left out.

    Objects whose names are not a segment's are left out: they stop a processor at its slot, never a reader.
    """
    for start in _units(store, prefix, window, MINUTES_AN_HOUR):
        segments = (_parse(prefix, key) for key in store.keys(f"{prefix}{_moment(start):%Y/%m/%d/%H/}"))
        yield Hour(start, [found for found in segments if found and window.oldest <= found.minute <= window.newest])


def _units(store: RetryingStore, prefix: str, window: Window, unit_minutes: int) -> Iterator[int]:
    """Yield the first minute of each day or hour in `window` whose day holds an object, newest first.

    A year, month or day without an object costs one request, and is then skipped whole.
    """
    known: dict[str, bool] = {}

    def holds(folder: str) -> bool:
        if folder not in known:
            known[folder] = bool(store.first_objects(f"{prefix}{folder}", 1))
        return known[folder]

    minute = window.newest // unit_minutes * unit_minutes
    while minute >= 0 and minute + unit_minutes > window.oldest:
        moment = _moment(minute)
        if not holds(f"{moment:%Y/}"):
            minute = _minute(moment.replace(month=1, day=1, hour=0)) - unit_minutes
        elif not holds(f"{moment:%Y/%m/}"):
            minute = _minute(moment.replace(day=1, hour=0)) - unit_minutes
        elif not holds(f"{moment:%Y/%m/%d/}"):
            minute = _minute(moment.replace(hour=0)) - unit_minutes
        else:
            yield minute
            minute -= unit_minutes


def _parse(prefix: str, key: str) -> SegmentKey | None:
    try:
        return parse_segment_key(prefix, key)
    except FormatError:
        return None


def _moment(minute: int) -> datetime:
    return _EPOCH + timedelta(minutes=minute)


def _minute(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(minutes=1)
