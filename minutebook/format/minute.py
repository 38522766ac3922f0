"""UTC minutes of arrival, as whole minutes since the epoch, and their text in keys and metadata.

A record's `approximateArrivalTimestamp` is fixed when the stream receives it, so its minute is the same on every
delivery.
"""

import functools
import re
from datetime import UTC, datetime, timedelta

from minutebook.errors import FormatError, SettingsError

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
# An audit of a day parses each of its 1,440 minutes once per shard, a marker's gaps are compared again and again.
_CACHED = 4096
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MINUTE = (datetime(9999, 12, 31, 23, 59, tzinfo=UTC) - _EPOCH) // timedelta(minutes=1)
_LAST_MS = (_LAST_MINUTE + 1) * MINUTE_MS - 1
_TEXT = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2})Z", re.ASCII)
_PATH = re.compile(r"([0-9]{4})/([0-9]{2})/([0-9]{2})/([0-9]{2})/([0-9]{2})", re.ASCII)


def minute_of(arrival_ms: int) -> int:
    """Return the minute of an arrival time in epoch milliseconds; raises FormatError outside 1970 to 9999."""
    minute = arrival_ms // MINUTE_MS
    if not 0 <= minute <= _LAST_MINUTE:
        raise FormatError(
            f"arrival time {arrival_ms} ms is outside the years 1970 to 9999",
            next_step="look at the record's ApproximateArrivalTimestamp with GetRecords",
        )
    return minute


@functools.lru_cache(maxsize=_CACHED)
def minute_path(minute: int) -> str:
    """Return `yyyy/MM/dd/HH/mm`, the part of a key."""
    return (_EPOCH + timedelta(minutes=minute)).strftime("%Y/%m/%d/%H/%M").rjust(16, "0")


@functools.lru_cache(maxsize=_CACHED)
def minute_text(minute: int) -> str:
    """Return `yyyy-MM-ddTHH:mmZ`, the value in metadata."""
    return (_EPOCH + timedelta(minutes=minute)).strftime("%Y-%m-%dT%H:%MZ").rjust(17, "0")


def parse_minute_path(text: str) -> int:
    """Read `yyyy/MM/dd/HH/mm`; raises FormatError."""
    return _parse(_PATH, text)


def parse_minute_text(text: str) -> int:
    """Read `yyyy-MM-ddTHH:mmZ`; raises FormatError."""
    return _parse(_TEXT, text)


def iso_time(epoch_ms: int) -> str:
    """Return UTC in ISO 8601 with milliseconds, as `2026-11-21T10:16:00.000Z`."""
    return datetime.fromtimestamp(epoch_ms / 1000, tz=UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@functools.lru_cache(maxsize=_CACHED)
def parse_iso_time(text: str) -> int:
    """Parse an ISO time with a zone to epoch milliseconds; raises SettingsError, also outside of 1970 to 9999."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise SettingsError(f"not a time with its zone: {text!r}", next_step="write it as 2026-11-21T10:16:00Z")
    time_ms = (moment - _EPOCH) // timedelta(milliseconds=1)
    if not 0 <= time_ms <= _LAST_MS:
        raise SettingsError(f"{text} is outside the years 1970 to 9999", next_step="name another time")
    return time_ms


@functools.lru_cache(maxsize=_CACHED)
def _parse(pattern: re.Pattern[str], text: str) -> int:
    match = pattern.fullmatch(text)
    if match is None:
        raise FormatError(f"not a minute: {text!r}")
    year, month, day, hour, minute = map(int, match.groups())
    try:
        moment = datetime(year, month, day, hour, minute, tzinfo=UTC)
        return minute_of(int((moment - _EPOCH).total_seconds()) * 1000)
    except ValueError as exc:
        raise FormatError(f"not a minute: {text!r}") from exc
