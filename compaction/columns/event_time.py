"""`--event-time`: the path and format of the event time in a payload, and the window before the arrival.

meta.ts                         a JMESPath; ISO 8601 with a zone
meta.ts as timestamp(ms)        another format: (s), (ms), (us), (ns) since 1970, or strptime's (%d/%m/%Y %H:%M:%S)
departs                         the name of a timestamp column of --columns: its path and format

Event times far from their arrival are rejected, row by row, and the rows of each event day are counted:

    event's day      arrival's day - window .. arrival's day + 1      kept
                     any other (a clock of 1970, or of 2999)          null, with a reason in the row: no row is lost

Without the bound, one wrong clock would create a partition for every day that it shows.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from compaction.columns.columns import EVENT_TIME, Column, Columns, EventTime, checked
from compaction.columns.misfits import Misfit
from compaction.columns.types import ColumnType, parse_type
from minutebook.errors import SettingsError

WINDOW_DAYS: Final = 30
"""The default of --event-window."""
MOST_DAYS: Final = 400
_TYPE: Final = "timestamp"
_FORM: Final = re.compile(r"(?P<path>.*\S)\s+as\s+(?P<type>timestamp\b.*)", re.DOTALL)
_NEXT_STEP: Final = "write a path, or a path and its form, as in: --event-time 'meta.ts as timestamp(ms)'"


def with_event_time(columns: Columns | None, option: str, window_days: int, envelope: Sequence[str]) -> Columns:
    """Return columns with `event_time` appended; raise SettingsError for an invalid option or a clash of names."""
    if not 0 <= window_days <= MOST_DAYS:
        raise SettingsError(
            f"--event-window {window_days}: an event may lie 0 to {MOST_DAYS} days before its arrival",
            next_step="each day more may be one more partition of each day of arrival",
        )
    others = () if columns is None else columns.columns
    if any(column.name.lower() == EVENT_TIME for column in others):
        raise SettingsError(
            f"--event-time writes the column {EVENT_TIME}, and --columns names one, too",
            next_step="give the column of the file another name; --event-time takes that name in place of a path",
        )
    column = Column(EVENT_TIME, *_place(option, others))
    of_file = Columns(()) if columns is None else columns
    return of_file._replace(
        columns=checked([*others, column], envelope, "--event-time").columns, event=EventTime(window_days)
    )


def _place(option: str, columns: Sequence[Column]) -> tuple[str, ColumnType]:
    named = next((column for column in columns if column.name == option), None)
    if named is not None:
        if named.type.name != _TYPE:
            raise SettingsError(
                f"--event-time {option}: the column is {named.type.text}, not a timestamp: nobody knows its zone",
                next_step="let the column be a timestamp, or name a path and its form",
            )
        return named.path, named.type
    form = _FORM.fullmatch(option)
    path, kind = (option, _TYPE) if form is None else (form["path"], form["type"])
    if not path.strip():
        raise SettingsError("--event-time is empty", next_step=_NEXT_STEP)
    try:
        return path, parse_type(kind)
    except SettingsError as exc:
        raise SettingsError(f"--event-time {option!r}: {exc}", next_step=_NEXT_STEP) from exc


EARLY_DAYS: Final = 1
"""Days after the arrival that are accepted: clocks and time zones are wrong sometimes."""
_DAY_US: Final = 86_400_000_000
_EPOCH: Final = 719_162
"""Days from 0001-01-01 to 1970. Arrow divides integers towards zero, so they must not be negative."""

Days = tuple[tuple[int | None, int], ...]
"""Rows by event day (days since 1970; None: no event time)."""


def day_numbers(times: pa.Array) -> pa.Int64Array:
    """Return the days since 1970 of timestamps in microseconds; null stays null."""
    since = pc.add(times.cast(pa.int64()), _EPOCH * _DAY_US)
    return pc.subtract(pc.divide(since, _DAY_US), _EPOCH)


class EventWindow:
    """Bounds columns of event times, and counts rows by event day."""

    def __init__(self, days: int) -> None:
        self._days = days
        self._rows: Counter[int | None] = Counter()

    def bound(self, events: pa.TimestampArray, arrivals: pa.TimestampArray) -> tuple[pa.Array, dict[int, Misfit]]:
        """Return the events, null where they lie too far from their arrival, and the reasons by row."""
        numbers = day_numbers(events)
        late = pc.subtract(day_numbers(arrivals), numbers)
        is_far = pc.fill_null(pc.or_(pc.greater(late, self._days), pc.less(late, -EARLY_DAYS)), False)
        misfits = dict(self._misfits(late, is_far)) if pc.any(is_far).as_py() else {}
        if misfits:
            events = pc.if_else(is_far, pa.scalar(None, events.type), events)
            numbers = pc.if_else(is_far, pa.scalar(None, pa.int64()), numbers)
        for each in pc.value_counts(numbers).to_pylist():
            self._rows[each["values"]] += each["counts"]
        return events, misfits

    def days(self) -> Days:
        """Return the rows of each day so far; rows without an event time come first."""
        return total_days([tuple(self._rows.items())])

    def _misfits(self, late: pa.Array, is_far: pa.Array) -> Iterator[tuple[int, Misfit]]:
        for row in pc.indices_nonzero(is_far).to_pylist():
            days = late[row].as_py()
            side, bound = ("before", self._days) if days > 0 else ("after", EARLY_DAYS)
            yield row, Misfit("far_off", f"{abs(days)} days {side} its arrival, more than {bound} are not taken")


def total_days(parts: Iterable[Days]) -> Days:
    """Return the sum of counts, sorted by day."""
    total: Counter[int | None] = Counter()
    for part in parts:
        total.update(dict(part))
    return tuple(sorted(total.items(), key=lambda each: (each[0] is not None, each[0] or 0)))
