"""`--event-time`: where the time of an event is in its payload, and how far from the arrival it may lie.

meta.ts                         a JMESPath; ISO 8601 with a zone
meta.ts as timestamp(ms)        another form: (s), (ms), (us) since 1970, or strptime's (%d/%m/%Y %H:%M:%S)
departs                         the name of a column of --columns, which must be a timestamp: its path and form
"""

import re
from collections.abc import Sequence
from typing import Final

from compaction.columns.columns import EVENT_TIME, Column, Columns, EventTime, checked
from compaction.columns.types import ColumnType, parse_type
from minutebook.errors import SettingsError

WINDOW_DAYS: Final = 30
"""How many days before its arrival an event may lie, where nobody says."""
MOST_DAYS: Final = 400
_TYPE: Final = "timestamp"
_FORM: Final = re.compile(r"(?P<path>.*\S)\s+as\s+(?P<type>timestamp\b.*)", re.DOTALL)
_NEXT_STEP: Final = "write a path, or a path and its form, as in: --event-time 'meta.ts as timestamp(ms)'"


def with_event_time(columns: Columns | None, asked: str, window_days: int, envelope: Sequence[str]) -> Columns:
    """Return columns with `event_time` behind them.

    Raises:
        SettingsError: it is no path, no form of a timestamp, or a column that cannot be it; or a column has the name.
    """
    if not 0 <= window_days <= MOST_DAYS:
        raise SettingsError(
            f"--event-window {window_days}: an event may lie 0 to {MOST_DAYS} days before its arrival",
            next_step="each day more may be one more partition of each day of arrival",
        )
    mine = () if columns is None else columns.columns
    if any(each.name.lower() == EVENT_TIME for each in mine):
        raise SettingsError(
            f"--event-time writes the column {EVENT_TIME}, and --columns names one, too",
            next_step="give the column of the file another name; --event-time takes that name in place of a path",
        )
    column = Column(EVENT_TIME, *_place(asked, mine))
    return checked([*mine, column], envelope, "--event-time")._replace(event=EventTime(window_days))


def _place(asked: str, columns: Sequence[Column]) -> tuple[str, ColumnType]:
    named = next((each for each in columns if each.name == asked), None)
    if named is not None:
        if named.type.name != _TYPE:
            raise SettingsError(
                f"--event-time {asked}: the column is {named.type.text}, not a timestamp: nobody knows its zone",
                next_step="let the column be a timestamp, or name a path and its form",
            )
        return named.path, named.type
    form = _FORM.fullmatch(asked)
    path, kind = (asked, _TYPE) if form is None else (form["path"], form["type"])
    if not path.strip():
        raise SettingsError("--event-time is empty", next_step=_NEXT_STEP)
    try:
        return path, parse_type(kind)
    except SettingsError as exc:
        raise SettingsError(f"--event-time {asked!r}: {exc}", next_step=_NEXT_STEP) from exc
