"""How far from its arrival an event may lie, row by row, and how many rows each day of events has.

    event's day      arrival's day - window .. arrival's day + 1      it has its day
                     any other (a clock of 1970, or of 2999)          null, and the row says why: no row is lost

Without a bound one wrong clock would make a partition of each day that it dreams of.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from compaction.columns.misfits import Misfit

EARLY_DAYS: Final = 1
"""Days after the arrival: clocks are wrong, and zones are taken for each other."""
_DAY_US: Final = 86_400_000_000
_EPOCH: Final = 719_162
"""Days from 0001-01-01 to 1970: integers are divided towards zero, and must not be negative."""

Days = tuple[tuple[int | None, int], ...]
"""Rows by the day of their events, in days since 1970; None: rows without."""


def day_numbers(times: pa.Array) -> pa.Int64Array:
    """Return the days since 1970 of timestamps in microseconds, null where they are."""
    since = pc.add(times.cast(pa.int64()), _EPOCH * _DAY_US)
    return pc.subtract(pc.divide(since, _DAY_US), _EPOCH)


class EventWindow:
    """Bounds a column of event times, and counts."""

    def __init__(self, days: int) -> None:
        self._days = days
        self._counted: Counter[int | None] = Counter()

    def bound(self, events: pa.TimestampArray, arrivals: pa.TimestampArray) -> tuple[pa.Array, dict[int, Misfit]]:
        """Return the events with null for those that lie too far from their arrival, and why, by row."""
        found = day_numbers(events)
        late = pc.subtract(day_numbers(arrivals), found)
        is_far = pc.fill_null(pc.or_(pc.greater(late, self._days), pc.less(late, -EARLY_DAYS)), False)
        misfits = dict(self._misfits(late, is_far)) if pc.any(is_far).as_py() else {}
        if misfits:
            nothing = pa.scalar(None, events.type)
            events, found = (
                pc.if_else(is_far, nothing, events),
                pc.if_else(is_far, pa.scalar(None, pa.int64()), found),
            )
        for each in pc.value_counts(found).to_pylist():
            self._counted[each["values"]] += each["counts"]
        return events, misfits

    def counted(self) -> Days:
        """Return the rows of each day so far, those without one first."""
        return tuple(sorted(self._counted.items(), key=lambda each: (each[0] is not None, each[0] or 0)))

    def _misfits(self, late: pa.Array, is_far: pa.Array) -> Iterator[tuple[int, Misfit]]:
        for row in pc.indices_nonzero(is_far).to_pylist():
            days = late[row].as_py()
            side, bound = ("before", self._days) if days > 0 else ("after", EARLY_DAYS)
            said = f"{abs(days)} days {side} its arrival, more than {bound} are not taken"
            yield row, Misfit("far_off", said)


def summed(parts: Iterable[Days]) -> Days:
    """Return the sum of counts."""
    total: Counter[int | None] = Counter()
    for part in parts:
        total.update(dict(part))
    return tuple(sorted(total.items(), key=lambda each: (each[0] is not None, each[0] or 0)))
