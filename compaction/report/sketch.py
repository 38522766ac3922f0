"""What the pictures are drawn from: numbers per minute, and of the shards that are shown. Small whatever the day."""

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from compaction.audit.shards.minutes import TENTH_MS, Minutes
from minutebook.format.day import MINUTES_A_DAY

_LEAST_SECONDS: Final = 0.1
"""Delays are drawn on a logarithmic scale."""
_AT_ONCE: Final = 240
"""Minutes whose delays are compared at once: one number for each shard and minute."""


class Sketch(NamedTuple):
    """A day in 1,440 minutes. `records` and `segments` are by shown shard, `rest` the records of all others.

    `total` are the records of the whole stream. A delay is the time from a minute's end until an object of it was in
    the archive; in seconds, NaN where nothing arrived.
    """

    records: Mapping[str, NDArray[np.int64]]
    segments: Mapping[str, NDArray[np.bool_]]
    rest: NDArray[np.int64]
    slowest: NDArray[np.float64]
    middle: NDArray[np.float64]

    @property
    def minutes(self) -> list[int]:
        """The minutes of the day in which there is a segment."""
        return [int(minute) for minute in np.flatnonzero(~np.isnan(self.slowest))]

    @property
    def total(self) -> NDArray[np.int64]:
        """Records per minute of the whole stream."""
        return sum(self.records.values(), start=self.rest)


def sketch(minutes: Mapping[str, Minutes], shown: Collection[str]) -> Sketch:
    """Draw a day together; a shard's delay in a minute is that of its last segment there."""
    records: dict[str, NDArray[np.int64]] = {}
    held: dict[str, NDArray[np.bool_]] = {}
    rest = np.zeros(MINUTES_A_DAY, dtype=np.int64)
    for shard, of in minutes.items():
        counted = of.counted()
        if shard in shown:
            records[shard] = np.array(counted.records, dtype=np.int64)
            held[shard] = np.array(counted.lag_tenths) >= 0
        else:
            rest += np.array(counted.records)
    slowest, middle = _delays(minutes)
    return Sketch(records, held, rest, slowest, middle)


def _delays(minutes: Mapping[str, Minutes]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the slowest and the median delay of each minute, some minutes of all shards at a time."""
    slowest, middle = np.full(MINUTES_A_DAY, np.nan), np.full(MINUTES_A_DAY, np.nan)
    for begin in range(0, MINUTES_A_DAY if minutes else 0, _AT_ONCE):
        part = slice(begin, begin + _AT_ONCE)
        tenths = np.array([of.counted().lag_tenths[part] for of in minutes.values()], dtype=np.int32)
        tenths.sort(axis=0)  # what holds nothing comes first
        known = (tenths >= 0).sum(axis=0)
        columns = np.flatnonzero(known)
        medians = (len(tenths) - known + known // 2)[columns]
        slowest[part][columns] = _seconds(tenths[-1, columns])
        middle[part][columns] = _seconds(tenths[medians, columns])
    return slowest, middle


def _seconds(tenths: NDArray[np.int32]) -> NDArray[np.float64]:
    found: NDArray[np.float64] = np.maximum(_LEAST_SECONDS, tenths * (TENTH_MS / 1000))
    return found
