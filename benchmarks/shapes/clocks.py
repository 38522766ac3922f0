"""Times as clocks and encoders write them: numbers since 1970, texts, offsets and zones, of the years 1 to 9999."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from benchmarks.shapes.sent import (
    EPOCH,
    Sent,
    Shape,
    Written,
    at_microseconds,
    body,
    days_since_1970,
    drawn,
    microseconds,
    one,
)

_BERLIN: Final = "Europe/Berlin"
_COLUMNS: Final = """
[columns.id]
type = "string"
[columns.seconds]
type = "timestamp(s)"
[columns.millis]
type = "timestamp(ms)"
[columns.micros]
type = "timestamp(us)"
[columns.nanos]
type = "timestamp(ns)"
[columns.at]
type = "timestamp"
[columns.wall]
type = "local_timestamp"
[columns.wall_millis]
type = "local_timestamp(ms)"
[columns.day]
type = "date"
[columns.days]
type = "date(days)"
[columns.times]
type = "struct<at: timestamp, nanos: timestamp(ns), day: date, list: list<timestamp(ms)>>"
"""
_ZONES: Final = f"""
[columns.id]
type = "string"
[columns.at]
type = "timestamp in {_BERLIN}"
[columns.later]
type = "timestamp in {_BERLIN} later"
[columns.slashes]
type = "timestamp(%d/%m/%Y %H:%M:%S)"
[columns.here]
path = "slashes"
type = "timestamp(%d/%m/%Y %H:%M:%S) in {_BERLIN} earlier"
"""
FIRST: Final = datetime(1, 1, 1, tzinfo=UTC)
LAST: Final = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
_NEAR_ENDS: Final = 10
_Values = dict[str, Any]


def _instant(number: int) -> datetime:
    """Return an instant: of the ends of the calendar, of around 1970, or of any year; to the microsecond."""
    source, at = drawn(number), number % 8
    if at == 0:
        return FIRST + timedelta(microseconds=source.randrange(_NEAR_ENDS))
    if at == 1:
        return LAST - timedelta(microseconds=source.randrange(_NEAR_ENDS))
    if at == 2:  # noqa: PLR2004 - before and behind 0
        return EPOCH + timedelta(microseconds=source.randrange(-(10**7), 10**7))
    return FIRST + timedelta(microseconds=source.randrange((LAST - FIRST) // timedelta(microseconds=1)))


def _number(us: int, unit_us: int, nanos: int, form: int) -> object:
    """Write microseconds, and further nanoseconds, since 1970 in a unit: as a float's digits, or its text.

    A number of whole units, where it is one, is written as an integer.
    """
    total, unit = us * 1000 + nanos, unit_us * 1000
    sign, (whole, rest) = "-" if total < 0 else "", divmod(abs(total), unit)
    digits = f"{rest:0{len(str(unit)) - 1}d}".rstrip("0") if unit > 1 else ""
    text = f"{sign}{whole}.{digits}" if digits else f"{sign}{whole}"
    return text if form else Written(text)


def _iso(when: datetime, nanos: int, form: int) -> str:
    """Write a time in UTC with an offset of one of several forms, where the calendar has that time there."""
    offsets = {0: "Z", 1: "+05:45", 2: "-0800", 3: "+01", 4: "+00:00"}
    minutes = {1: 345, 2: -480, 3: 60}.get(form, 0)
    try:
        there = when.replace(tzinfo=None) + timedelta(minutes=minutes)
    except OverflowError:
        there, form = when.replace(tzinfo=None), 0
    digits = f".{there.microsecond:06d}{nanos:03d}" if nanos else f".{there.microsecond:06d}"
    blank = " " if form == 4 else "T"  # noqa: PLR2004 - one of the forms
    return f"{_date(there)}{blank}{there:%H:%M:%S}{digits}{offsets[form]}"


def _date(day: date) -> str:
    """Write a day; strftime leaves out the zeros of early years."""
    return f"{day.year:04d}-{day.month:02d}-{day.day:02d}"


def _of_berlin(wall: datetime, fold: int = 0) -> datetime:
    return wall.replace(tzinfo=ZoneInfo(_BERLIN), fold=fold).astimezone(UTC)


def _wall(number: int) -> datetime:
    """Return a time of a wall clock that Berlin has once: of years 1 to 9999, not in the hours of its changes."""
    source = drawn(~number)
    year = source.choice([1, 1892, 1893, 1916, 1945, 1969, 1980, 2026, 2037, 2038, 2039, 2500, 9999])
    return datetime(year, source.choice([1, 2, 6, 7, 8, 12]), 2 + source.randrange(26), 6 + source.randrange(18), 30)  # noqa: DTZ001 - of a wall clock


_Change = Callable[[_Values, _Values], str | None]


def _leap(sent: _Values, row: _Values) -> str:
    sent["at"], row["at"] = "2016-12-31T23:59:60Z", None
    return 'at: "2016-12-31T23:59:60Z" is not timestamp'


def _before_the_calendar(sent: _Values, row: _Values) -> str:
    sent["at"], row["at"] = "0001-01-01T00:00:00+01:00", None
    return 'at: "0001-01-01T00:00:00+01:00" is not timestamp'


def _behind_the_calendar(sent: _Values, row: _Values) -> str:
    sent["seconds"], row["seconds"] = microseconds(LAST) // 10**6 + 1, None
    sent["nanos"], row["nanos"] = (microseconds(LAST) + 1) * 1000, None
    return (
        "seconds: 253402300800 is out of the range of timestamp(s); "
        "nanos: 253402300800000000000 is out of the range of timestamp(ns)"
    )


def _with_zone(sent: _Values, row: _Values) -> str:
    sent["wall"], row["wall"] = "2026-11-20T10:00:00Z", None
    return 'wall: "2026-11-20T10:00:00Z" is not local_timestamp'


def _february(sent: _Values, row: _Values) -> str:
    sent |= {"day": "2026-02-30", "days": 2_932_897}
    row |= {"day": None, "days": None}
    return 'day: "2026-02-30" is not date; days: 2932897 is out of the range of date(days)'


def _within(sent: _Values, row: _Values) -> str:
    sent["times"] = {"at": "noon", "nanos": "1e3", "day": "0001-01-01", "list": [0, "x", -1]}
    row["times"] = {"at": None, "nanos": None, "day": date(1, 1, 1), "list": None}
    row["times"]["list"] = [EPOCH, None, EPOCH - timedelta(milliseconds=1)]
    return (
        'times.at: "noon" is not timestamp; times.nanos: "1e3" is not timestamp(ns); '
        'times.list[]: "x" is not timestamp(ms) (at [1])'
    )


def _short(sent: _Values, row: _Values) -> None:
    sent |= {"at": "2026-11-20T10Z", "wall": "2026-11-20 10:15"}
    row |= {
        "at": datetime(2026, 11, 20, 10, tzinfo=UTC),
        "wall": datetime(2026, 11, 20, 10, 15),  # noqa: DTZ001 - of a wall clock
    }


def _float(sent: _Values, row: _Values) -> None:
    """Let numbers be what Python's encoder writes of floats: also with an exponent."""
    sent |= {"seconds": 1e9, "millis": Written("1.5E12"), "micros": 0.5, "nanos": -0.5}
    row |= {
        "seconds": at_microseconds(10**15),
        "millis": at_microseconds(1_500_000_000_000_000),
        "micros": EPOCH,
        "nanos": EPOCH - timedelta(microseconds=1),
    }


_CHANGES: Final[tuple[_Change, ...]] = (
    _leap,
    _before_the_calendar,
    _behind_the_calendar,
    _with_zone,
    _february,
    _within,
    _short,
    _float,
)


def _send(number: int, _: int) -> Sent:
    when, source = _instant(number), drawn(number)
    us, nanos, form = microseconds(when), source.choice([0, 1, 999]), number // 8 % 2
    milli = when - timedelta(microseconds=when.microsecond % 1000)
    row: _Values = {
        "id": f"clock-{number}",
        "seconds": when,
        "millis": when,
        "micros": when,
        "nanos": when,
        "at": when,
        "wall": when.replace(tzinfo=None),
        "wall_millis": milli.replace(tzinfo=None),
        "day": when.date(),
        "days": when.date(),
        "times": {"at": when, "nanos": when, "day": when.date(), "list": [milli, None]},
    }
    sent: _Values = {
        "id": row["id"],
        "seconds": _number(us, 10**6, nanos, form),
        "millis": _number(us, 1000, nanos, form),
        "micros": _number(us, 1, nanos, form),
        "nanos": Written(str(us * 1000 + nanos)) if form else str(us * 1000 + nanos),
        "at": _iso(when, nanos, number % 5),
        "wall": _iso(when, nanos, 0)[:-1],
        "wall_millis": microseconds(milli) // 1000,
        "day": _date(when),
        "days": days_since_1970(when.date()),
        "times": {
            "at": _iso(when, nanos, 0),
            "nanos": us * 1000 + nanos,
            "day": _date(when),
            "list": [microseconds(milli) // 1000, None],
        },
    }
    why = _CHANGES[number // 4 % len(_CHANGES)](sent, row) if number % 4 == 3 else None  # noqa: PLR2004 - one in four
    return one(body(sent), row, why)


_TWICE: Final = "is there twice in Europe/Berlin, and its type does not say `earlier` or `later`"


def _send_zones(number: int, _: int) -> Sent:
    """Send the time of a wall clock: also of hours that are there twice, or never."""
    wall, why = _wall(number), None
    row: _Values = {"id": f"zone-{number}", "slashes": wall.replace(tzinfo=UTC)}
    row |= dict.fromkeys(("at", "later", "here"), _of_berlin(wall))
    sent = {"id": row["id"], "at": wall.isoformat(), "later": wall.isoformat(sep=" "), "slashes": _slashes(wall)}
    if number % 4 == 1:  # in each year of these
        wall = datetime(2026 + number % 3, 10, (25, 31, 29)[number % 3], 2, 30)  # noqa: DTZ001 - of a wall clock
        sent |= {"at": wall.isoformat(), "later": wall.isoformat(), "slashes": _slashes(wall)}
        row |= {
            "at": None,
            "later": _of_berlin(wall, 1),
            "here": _of_berlin(wall),
            "slashes": wall.replace(tzinfo=UTC),
        }
        why = f'at: "{wall.isoformat()}" {_TWICE}'
    if number % 4 == 3:  # noqa: PLR2004 - of four
        sent |= {"at": "2026-03-29T02:30:00", "later": "9999-03-28T02:00:00", "slashes": "29/03/2026 02:59:59"}
        row |= {"at": None, "later": None, "here": None, "slashes": datetime(2026, 3, 29, 2, 59, 59, tzinfo=UTC)}
        why = "; ".join(f'{name}: "{sent[of]}" is not there in {_BERLIN}' for name, of in _NEVER.items())
    if number % 8 == 6:  # noqa: PLR2004 - of eight
        sent |= {"at": "2026-11-20T10:00:00Z", "slashes": "31/02/2026 10:00:00"}
        row |= {"at": None, "slashes": None, "here": None}
        form, february = "timestamp(%d/%m/%Y %H:%M:%S)", '"31/02/2026 10:00:00"'
        why = (
            f'at: "2026-11-20T10:00:00Z" is not timestamp in {_BERLIN}; slashes: {february} is not {form}; '
            f"here: {february} is not {form} in {_BERLIN} earlier"
        )
    return one(body(sent), row, why)


_NEVER: Final = {"at": "at", "later": "later", "here": "slashes"}


def _slashes(when: datetime) -> str:
    return f"{when.day:02d}/{when.month:02d}/{when.year:04d} {when:%H:%M:%S}"


CLOCKS: Final = Shape("mixed clocks", _COLUMNS, _send)
ZONES: Final = Shape("local times of a zone", _ZONES, _send_zones)
