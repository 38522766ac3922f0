"""UTC days of arrival, which one audit and one Parquet partition cover, and their hours."""

import functools
import re
from collections.abc import Iterator
from datetime import date, timedelta
from typing import NamedTuple, Self

from minutebook.errors import SettingsError
from minutebook.format.minute import MINUTE_MS, minute_path

MINUTES_A_DAY = 1440
MINUTES_AN_HOUR = 60
HOURS_A_DAY = 24
_TEXT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_EPOCH = date(1970, 1, 1)
_LONGEST_RANGE = 3660


class Day(NamedTuple):
    """One UTC day, as the number of days since the epoch."""

    number: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `yyyy-mm-dd`; raises SettingsError."""
        try:
            day = date.fromisoformat(text if _TEXT.fullmatch(text) else "")
        except ValueError as exc:
            raise SettingsError(
                f"not a day: {text!r}", next_step="write a UTC day such as 2026-11-21, or yesterday"
            ) from exc
        if day < _EPOCH:
            raise SettingsError(f"{text} lies before 1970", next_step="no Kinesis stream has records of that day")
        return cls((day - _EPOCH).days)

    @property
    def first_minute(self) -> int:
        """The day's first minute, counted from the epoch."""
        return self.number * MINUTES_A_DAY

    @property
    def begin_ms(self) -> int:
        """The day's first millisecond since the epoch."""
        return self.first_minute * MINUTE_MS

    @property
    def end_ms(self) -> int:
        """The first millisecond after the day."""
        return self.shift(1).begin_ms

    @property
    def date(self) -> date:
        """The day as Python's type."""
        return _EPOCH + timedelta(days=self.number)

    def __contains__(self, minute: object) -> bool:
        return isinstance(minute, int) and minute // MINUTES_A_DAY == self.number

    def __str__(self) -> str:
        return _text(self.number)

    def shift(self, days: int) -> "Day":
        """Return the day that lies `days` later."""
        return Day(self.number + days)

    def path(self, prefix: str) -> str:
        """Return the folder of the day's segments; ends in `/`."""
        return f"{prefix}{minute_path(self.first_minute).removesuffix('00/00')}"

    def hour_paths(self, prefix: str) -> list[str]:
        """Return the 24 folders that can be listed side by side."""
        return [
            f"{prefix}{minute_path(minute).removesuffix('00')}"
            for minute in range(self.first_minute, self.first_minute + MINUTES_A_DAY, MINUTES_AN_HOUR)
        ]


@functools.lru_cache(maxsize=_LONGEST_RANGE)
def _text(number: int) -> str:
    """Return `yyyy-mm-dd`, which is a part of most keys."""
    return Day(number).date.isoformat()


class Hour(NamedTuple):
    """One hour of a UTC day, 0 to 23. UTC knows no summer time: each day has 24."""

    day: Day
    number: int

    @property
    def first_minute(self) -> int:
        """The hour's first minute, counted from the epoch."""
        return self.day.first_minute + self.number * MINUTES_AN_HOUR

    def path(self, prefix: str) -> str:
        """Return the folder of the hour's segments; ends in `/`."""
        return f"{prefix}{minute_path(self.first_minute).removesuffix('00')}"


def day_range(first: Day, last: Day) -> Iterator[Day]:
    """Yield the days from `first` to `last`, inclusive; raises SettingsError for none or more than ten years."""
    if not 0 <= last.number - first.number < _LONGEST_RANGE:
        raise SettingsError(f"no range of days: {first} to {last}", next_step="--from must not lie after --to")
    yield from (first.shift(days) for days in range(last.number - first.number + 1))


def parse_day(text: str, today: Day) -> Day:
    """Parse the day of a command: `yyyy-mm-dd`, `today` or `yesterday`; raises SettingsError."""
    words = {"today": today, "yesterday": today.shift(-1)}
    return words[text] if text in words else Day.parse(text)


def hour_of_ms(epoch_ms: int) -> Hour:
    """Return the UTC hour of a time in epoch milliseconds."""
    minute = epoch_ms // MINUTE_MS
    return Hour(Day(minute // MINUTES_A_DAY), minute % MINUTES_A_DAY // MINUTES_AN_HOUR)


def day_of_ms(epoch_ms: int) -> Day:
    """Return the UTC day of a time in epoch milliseconds."""
    return Day(epoch_ms // (MINUTES_A_DAY * MINUTE_MS))
