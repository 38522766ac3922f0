"""Local times of a named zone as times in UTC, by the rules of Python's zoneinfo.

Arrow's `assume_timezone` knows only the changes that a file of the zone lists: of summer and winter none after 2037,
and in files without repetitions (zic's `-b slim`) none for decades before; then it is an hour wrong, without an error
(apache/arrow#36110 and #42157).

    a day without a change     one offset for all of its times
    any other day              an offset for each time: `earlier` or `later` says which where there are two
"""

from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

_BEGIN: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - local times have no zone yet
_MICROSECOND: Final = timedelta(microseconds=1)
_DAYS: Final = 1 << 14
"""Days of zones whose offsets are kept."""


class NoSuchTimeError(ValueError):
    """A zone does not have a local time, or has it twice and nothing says which is meant."""


def is_zone(name: str) -> bool:
    """Return whether this machine has the rules of a zone."""
    try:
        ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        return False
    return True


def in_utc(zone: str, fold: str, local: pa.TimestampArray) -> pa.TimestampArray:
    """Return local times (microseconds, null: none) in UTC; `fold` is `earlier`, `later` or empty.

    Raises NoSuchTimeError, and ValueError or OverflowError for times outside the years 1 to 9999.
    """
    offsets = _offsets(zone, fold, local)
    if offsets.null_count > local.null_count:
        raise NoSuchTimeError
    return pc.subtract(local.cast(pa.int64()), offsets).cast(pa.timestamp("us", "UTC"))


def not_there(zone: str, fold: str, local: pa.TimestampArray) -> list[int]:
    """Return the rows whose local times `in_utc` does not take. Raises as it does for times outside the years."""
    offsets = _offsets(zone, fold, local)
    return list(pc.indices_nonzero(pc.and_(pc.is_valid(local), pc.is_null(offsets))).to_pylist())


def _offsets(zone: str, fold: str, local: pa.TimestampArray) -> pa.Int64Array:
    """Return the offsets of local times in microseconds; null where a time is not there."""
    days = local.cast(pa.date32()).cast(pa.int32()).dictionary_encode()
    of_days = [_of_day(zone, day) for day in days.dictionary.to_pylist()]
    offsets = pa.array(of_days, pa.int64()).take(days.indices)
    if None not in of_days:
        return offsets
    changing = pc.and_(pc.is_valid(local), pc.is_null(offsets))
    found = [_of_time(zone, fold, time) for time in local.cast(pa.int64()).filter(changing).to_pylist()]
    return pc.replace_with_mask(offsets, changing, pa.array(found, pa.int64()))


@lru_cache(_DAYS)
def _of_day(zone: str, day: int) -> int | None:
    """Return the offset of all local times of a day since 1970, in microseconds; None: it has several."""
    begin = _BEGIN + timedelta(days=day)
    end = begin.replace(hour=23, minute=59, second=59, microsecond=999_999)
    offsets = {_offset(zone, when, fold) for when in (begin, end) for fold in (0, 1)}
    return offsets.pop() if len(offsets) == 1 else None


def _of_time(zone: str, fold: str, time: int) -> int | None:
    """Return the offset of a local time, in microseconds; None: it is skipped, or there twice without a fold."""
    when = _BEGIN + timedelta(microseconds=time)
    first, second = (_offset(zone, when, number) for number in (0, 1))
    if first < second or (first > second and not fold):
        return None
    return second if fold == "later" else first


def _offset(zone: str, when: datetime, fold: int) -> int:
    offset = when.replace(tzinfo=ZoneInfo(zone), fold=fold).utcoffset() or timedelta()
    return offset // _MICROSECOND
