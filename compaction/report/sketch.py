"""Summarize a day for its pictures: numbers per minute, and of the shown shards. Small whatever the day's size."""

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from compaction.audit.shards.minutes import TENTH_MS, Minutes
from minutebook.format.day import MINUTES_A_DAY

_LEAST_SECONDS: Final = 0.1
"""Delays are drawn on a logarithmic scale."""
OVERVIEW_MINUTES: Final = 10
OVERVIEW_LINES: Final = 500
"""Of a large stream, all shards are drawn in so many lines at most, and so many minutes a column."""
_AT_ONCE: Final = 240
"""Minutes whose delays are compared at once, one number for each shard and minute."""


class Overview(NamedTuple):
    """All shards in few lines, by name. `lines`: the line of each; `quietest`: records of the quietest of a line.

    The quietest, because a gap of one shard would not be seen in an average.
    """

    lines: Mapping[str, int]
    quietest: NDArray[np.int64]


class Sketch(NamedTuple):
    """A day in 1,440 minutes. `records` and `segments`: by shown shard; `rest`: the records of all other shards.

    `slowest` and `middle`: delays of the slowest and the median shard, from a minute's end until its objects were in
    the archive; in seconds, NaN if nothing arrived.
    """

    records: Mapping[str, NDArray[np.int64]]
    segments: Mapping[str, NDArray[np.bool_]]
    rest: NDArray[np.int64]
    slowest: NDArray[np.float64]
    middle: NDArray[np.float64]
    overview: Overview

    @property
    def minutes(self) -> list[int]:
        """The minutes of the day with a segment."""
        return [int(minute) for minute in np.flatnonzero(~np.isnan(self.slowest))]

    @property
    def total(self) -> NDArray[np.int64]:
        """Records per minute of the whole stream."""
        return sum(self.records.values(), start=self.rest)


def sketch(minutes: Mapping[str, Minutes], shown: Collection[str]) -> Sketch:
    """Summarize a day; a shard's delay in a minute is that of the minute's last segment."""
    records: dict[str, NDArray[np.int64]] = {}
    segments: dict[str, NDArray[np.bool_]] = {}
    rest = np.zeros(MINUTES_A_DAY, dtype=np.int64)
    overview = _overview(minutes)
    for shard, of in minutes.items():
        counted = of.counted()
        summed = np.array(counted.records, dtype=np.int64).reshape(-1, OVERVIEW_MINUTES).sum(axis=1)
        line = overview.quietest[overview.lines[shard]]
        np.minimum(line, summed, out=line)
        if shard in shown:
            records[shard] = np.array(counted.records, dtype=np.int64)
            segments[shard] = np.array(counted.lag_tenths) >= 0
        else:
            rest += np.array(counted.records)
    slowest, middle = _delays(minutes)
    return Sketch(records, segments, rest, slowest, middle, overview)


def _overview(minutes: Collection[str]) -> Overview:
    """Return lines that hold nothing yet: each number is larger than any sum."""
    together = max(1, -(-len(minutes) // OVERVIEW_LINES))
    lines = {shard: number // together for number, shard in enumerate(sorted(minutes))}
    size = -(-len(minutes) // together), MINUTES_A_DAY // OVERVIEW_MINUTES
    return Overview(lines, np.full(size, np.iinfo(np.int64).max))


def _delays(minutes: Mapping[str, Minutes]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the slowest and the median delay of each minute, a few minutes of all shards at a time."""
    slowest, middle = np.full(MINUTES_A_DAY, np.nan), np.full(MINUTES_A_DAY, np.nan)
    for begin in range(0, MINUTES_A_DAY if minutes else 0, _AT_ONCE):
        part = slice(begin, begin + _AT_ONCE)
        tenths = np.array([of.counted().lag_tenths[part] for of in minutes.values()], dtype=np.int32)
        tenths.sort(axis=0)  # shards without segments, with negative values, come first
        known = (tenths >= 0).sum(axis=0)
        columns = np.flatnonzero(known)
        medians = (len(tenths) - known + known // 2)[columns]
        slowest[part][columns] = _seconds(tenths[-1, columns])
        middle[part][columns] = _seconds(tenths[medians, columns])
    return slowest, middle


def _seconds(tenths: NDArray[np.int32]) -> NDArray[np.float64]:
    seconds: NDArray[np.float64] = np.maximum(_LEAST_SECONDS, tenths * (TENTH_MS / 1000))
    return seconds
