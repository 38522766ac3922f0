"""The scope of a verdict: a whole UTC day of an application, or the day so far.

    the day                                        whole                      so far
    lies in the future                             SettingsError              SettingsError
    ended before the application began             SettingsError              SettingsError
    is not settled (not over for 20 minutes)       unknown, never published   judged up to the time, never expired
    is settled                                     judged                     judged up to the time, if it lies in it

A record is archived within 20 minutes at most: `maxSegmentAgeSeconds` and a restart. Before that, records of the day
may still be missing.
"""

import datetime as dt
from typing import Final, Literal

from minutebook.coverage.intervals import Interval
from minutebook.coverage.verdict import day_scope
from minutebook.errors import SettingsError
from minutebook.format.day import Day, day_of_ms
from minutebook.format.markers import ApplicationRecord
from minutebook.format.minute import MINUTE_MS, iso_time

SETTLED_MS: Final = 20 * 60_000
"""How long after its end a day is settled."""


def is_settled(day: Day, now_ms: int) -> bool:
    """Return whether everything that arrived on the day must be archived by now."""
    return now_ms >= day.end_ms + SETTLED_MS


def newest_settled(now_ms: int) -> Day:
    """Return the newest day that is settled."""
    yesterday = day_of_ms(now_ms).shift(-1)
    return yesterday if is_settled(yesterday, now_ms) else yesterday.shift(-1)


def begins_ms(application: ApplicationRecord | None) -> int:
    """Return when the application began: its start, or the stream's creation; 0 without a record of it."""
    return 0 if application is None else application.begin_ms


def judged_scope(
    day: Day, application: ApplicationRecord | None, now_ms: int, until_ms: int | None = None
) -> Interval:
    """Return the interval that is judged: a day, or the part before `until_ms`; raises SettingsError."""
    begin_ms = begins_ms(application)
    scope = day_scope(day, begin_ms, now_ms, so_far_ms=until_ms)
    if day.begin_ms > now_ms:
        raise SettingsError(f"{day} lies in the future", next_step="name a day that has begun")
    if scope is not None:
        return scope
    what = str(day) if until_ms is None else f"the part of {day} up to {iso_time(until_ms)}"
    raise SettingsError(
        f"{what} ended before this archive begins, at {iso_time(begin_ms)}",
        next_step="name a day of the archive; earlier records were never to be in it",
    )


def parse_so_far(text: str | None, now_ms: int) -> int | Literal["covered"] | None:
    """Parse `--so-far` to epoch milliseconds; `now` is the last covered hour (`so_far`). Raises SettingsError."""
    if text is None:
        return None
    if text == "now":
        return "covered"
    try:
        time = dt.datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.utcoffset() != dt.timedelta(0):
        raise SettingsError(f"not a time: {text!r}", next_step="write it in UTC, as in --so-far 2026-11-22T10:00Z")
    until_ms = int(time.timestamp() * 1000)
    if until_ms > now_ms:
        raise SettingsError(f"--so-far {text} lies in the future", next_step="name a time that has passed")
    return until_ms


def scope_end(day: Day, so_far_ms: int | None, now_ms: int) -> int | None:
    """Return where the scope ends within the day, at a whole minute; None: at its end. Raises SettingsError."""
    if so_far_ms is None or (so_far_ms >= day.end_ms and is_settled(day, now_ms)):
        return None
    until_ms = min(so_far_ms, day.end_ms) // MINUTE_MS * MINUTE_MS
    if until_ms <= day.begin_ms:
        raise SettingsError(
            f"no minute of {day} lies before {iso_time(so_far_ms)}",
            next_step="name a later time, as in --so-far 2026-11-22T10:00Z, or wait",
        )
    return until_ms
