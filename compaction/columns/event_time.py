"""`--event-time`: the path and format of the event time in a payload, and the window before the arrival.

meta.ts                         a JMESPath; ISO 8601 with a zone
meta.ts as timestamp(ms)        another format: (s), (ms), (us) since 1970, or strptime's (%d/%m/%Y %H:%M:%S)
departs                         the name of a timestamp column of --columns: its path and format
"""

import re
from collections.abc import Sequence
from typing import Final

from compaction.columns.columns import EVENT_TIME, Column, Columns, EventTime, checked
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
    return checked([*others, column], envelope, "--event-time")._replace(event=EventTime(window_days))


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
