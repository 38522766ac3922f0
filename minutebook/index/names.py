"""Segments by name below a prefix: non-empty days and hours, and the segments in them.

    <prefix>yyyy/MM/dd/HH/mm/<shard id>/<first position>.jsonl.gz

Days and hours are listed level by level (one LIST with a delimiter for a year, a month, a day), so empty ones cost
nothing. A LIST of an hour covers all shards: 1,000 keys a request. Objects with other names are left out; their day's
audit reports them.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from minutebook.errors import FormatError, SettingsError
from minutebook.format.arrival import SEARCH_REACH_DAYS
from minutebook.format.day import HOURS_A_DAY, Day, Hour, day_of_ms, hour_of_ms
from minutebook.format.keys import minute_prefix, parse_segment_key
from minutebook.format.minute import MINUTE_MS
from minutebook.format.position import Position
from minutebook.store.retrying import RetryingStore

_WIDTHS = (4, 2, 2)
_FEW = 50
_FIRST_YEAR = 1970


class SegmentName(NamedTuple):
    """A segment by its name."""

    key: str
    minute: int
    shard_id: str
    first: Position


class ArchiveIndex:
    """The segments below a prefix, for one search: it caches the folders of years, months and days."""

    def __init__(self, store: RetryingStore, prefix: str) -> None:
        self._store = store
        self._prefix = prefix
        self._folders: dict[str, list[str]] = {}

    def days(self, start: Day, sign: int) -> Iterator[Day]:
        """Yield the non-empty days from `start` on, forward (`sign` 1) or back (-1)."""
        days = map(_day, self._below("", start.path(""), sign, 0))
        return (day for day in days if day is not None)

    def hours(self, day: Day, sign: int) -> list[Hour]:
        """Return the non-empty hours of a day, in order (`sign` 1) or the last one first (-1)."""
        numbers = self._numbers(day.path(self._prefix), 2)
        return [Hour(day, int(number)) for number in numbers if int(number) < HOURS_A_DAY][::sign]

    def hours_back(self, newest_minute: int, oldest_minute: int) -> Iterator[Hour]:
        """Yield the non-empty hours between two minutes, theirs included, the newest first."""
        newest, oldest = hour_of_ms(newest_minute * MINUTE_MS), hour_of_ms(oldest_minute * MINUTE_MS)
        for day in self.days(newest.day, -1):
            if day < oldest.day:
                return
            yield from (hour for hour in self.hours(day, -1) if oldest <= hour <= newest)

    def holds(self, day: Day) -> bool:
        """Return whether any object lies under a day."""
        return bool(self._store.first_objects(day.path(self._prefix), 1))

    def oldest_day(self, newest: Day) -> Day | None:
        """Return a day, up to `newest`, before which no segment lies; None if there is no segment.

        Foreign objects below the prefix may hide the first segments: then it is the first day of their year.
        """
        rows = list(self._store.first_objects(self._prefix, _FEW))
        names = self._parse(row.key for row in rows)
        if names or not rows:
            return day_of_ms(names[0].minute * MINUTE_MS) if names else None
        begins = (Day.parse(f"{year}-01-01") for year in range(_FIRST_YEAR, int(str(newest)[:4]) + 1))
        return next((day for day in begins if self._store.first_objects(f"{self._prefix}{str(day)[:4]}/", 1)), None)

    def in_hours(self, begin_ms: int, until_ms: int) -> list[list[SegmentName]]:
        """List the hours of a time in parallel; returns the segments of each in the order of keys."""
        hour_ms = 60 * MINUTE_MS
        hours = [hour_of_ms(number * hour_ms) for number in range(begin_ms // hour_ms, -(-until_ms // hour_ms))]
        return self._store.read_many(self.in_period, hours)

    def in_period(self, period: Day | Hour) -> list[SegmentName]:
        """List a whole day or hour, in the order of keys."""
        return self._parse(self._store.keys(period.path(self._prefix)))

    def at(self, minute: int, shard_id: str) -> list[SegmentName]:
        """List one shard's segments of one minute."""
        return self._parse(self._store.keys(minute_prefix(self._prefix, shard_id, minute)))

    def of_key(self, key: str) -> SegmentName | None:
        """Return the segment of a key; None if it is not a segment's."""
        return next(iter(self._parse([key])), None)

    def nearest_at(self, shard_id: str, position: Position, newest: Day, oldest: Day) -> SegmentName | None:
        """Return the segment of a shard that may end at a position, if its minute is unknown.

        Lists whole days, newest first, with one LIST per thousand keys. Arrival times may step back, so it lists
        `SEARCH_REACH_DAYS` more days before that of the first candidate.
        """
        candidates: list[SegmentName] = []
        days_beyond = 0
        for day in self.days(newest, -1):
            if day < oldest or days_beyond > SEARCH_REACH_DAYS:
                break
            own = (name for name in self.in_period(day) if name.shard_id == shard_id)
            candidates = nearest([*candidates, *own], [position])
            days_beyond += bool(candidates)
        return next(iter(candidates), None)

    def _below(self, path: str, edge: str, sign: int, depth: int) -> Iterator[str]:
        """Yield the paths of days below a path, forward or back, without those on the other side of `edge`."""
        if depth == len(_WIDTHS):
            yield path
            return
        for number in self._numbers(f"{self._prefix}{path}", _WIDTHS[depth])[::sign]:
            below = f"{path}{number}/"
            # All numbers of a level have the same width, so text sorts by time.
            if edge.startswith(below) or (below > edge) == (sign > 0):
                yield from self._below(below, edge, sign, depth + 1)

    def _numbers(self, folder: str, width: int) -> list[str]:
        if folder not in self._folders:
            names = (path.rstrip("/").rpartition("/")[2] for path in self._store.list_level(folder).folders)
            self._folders[folder] = sorted(name for name in names if name.isascii() and name.isdecimal())
        return [name for name in self._folders[folder] if len(name) == width]

    def _parse(self, keys: Iterable[str]) -> list[SegmentName]:
        names = []
        for key in keys:
            try:
                parsed = parse_segment_key(self._prefix, key)
            except FormatError:
                continue
            names.append(SegmentName(key, parsed.minute, parsed.shard_id, parsed.first))
        return names


def _day(path: str) -> Day | None:
    """Return the day of a folder `yyyy/MM/dd/`; None for one like 2026/13/01."""
    try:
        return Day.parse(path.rstrip("/").replace("/", "-"))
    except SettingsError:
        return None


def nearest(names: Sequence[SegmentName], positions: Iterable[Position]) -> list[SegmentName]:
    """Return the segment that may end at each position: the one with the greatest `first` up to it."""
    before = ([name for name in names if name.first <= position] for position in positions)
    return [max(candidates, key=lambda name: name.first) for candidates in before if candidates]
