"""What readers see of streams and days: the values of the page over them (`compaction.report.calendar_page`)."""

from collections.abc import Sequence
from itertools import groupby
from typing import Final, Literal, NamedTuple

from minutebook.format.day import Day

CalendarWord = Literal["clean", "accepted", "unknown", "defects", "none", "expired", "unread"]
WORDS: Final[dict[CalendarWord, str]] = {
    "clean": "clean",
    "accepted": "accepted",
    "unknown": "could not be proven",
    "defects": "defects",
    "none": "not published",
    "unread": "what is published cannot be read",
    "expired": "expired: raw segments deleted",
}
_SETTLED: Final = frozenset({"clean", "accepted", "expired"})


class CalendarDay(NamedTuple):
    """What readers see of a day. `until`: it is published so far only; `is_over`: none of it is to come.

    `note` says why it cannot be read. `is_proven`: its pointer says clean, by whatever rules, or accepted.
    """

    day: Day
    word: CalendarWord
    rows: int | None = None
    written_at: str = ""
    until: str | None = None
    note: str = ""
    is_over: bool = False
    is_proven: bool = False

    @property
    def is_readable(self) -> bool:
        """Whether readers see rows, of whatever verdict."""
        return self.word not in {"none", "unread"}

    @property
    def is_open(self) -> bool:
        """Whether somebody has to look at it."""
        return self.word not in _SETTLED or (self.is_over and self.until is not None)

    @property
    def label(self) -> str:
        """The cell in words."""
        rows = "" if self.rows is None else f", {self.rows:,} rows"
        until = "" if self.until is None else f", so far until {self.until}"
        return f"{self.day}: {WORDS[self.word]}{rows}{until}{f': {self.note}' if self.note else ''}"


class StreamCalendar(NamedTuple):
    """A stream's days, in order. `folder`: where its reports are, from the page. `error`: why days are not known.

    `size`: bytes of Parquet of the last days that are published.
    """

    stream: str
    application: str = ""
    where: str = ""
    folder: str = ""
    days: Sequence[CalendarDay] = ()
    size: int | None = None
    error: str = ""

    @property
    def open_days(self) -> int:
        """How many days somebody has to look at."""
        return sum(day.is_open for day in self.days)

    @property
    def newest(self) -> CalendarDay | None:
        """The newest day that is published."""
        return next((day for day in reversed(self.days) if day.rows is not None), None)

    @property
    def months(self) -> list[tuple[str, list[CalendarDay]]]:
        """The days by month, the newest first."""
        return [(month, list(days)) for month, days in groupby(self.days, lambda each: str(each.day)[:7])][::-1]
