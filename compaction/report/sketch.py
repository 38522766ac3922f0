"""What the pictures are drawn from: numbers per shard and minute, small whatever the day's size."""

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from archive.format.day import MINUTES_A_DAY
from compaction.shards.look import Minutes

_LEAST_SECONDS = 0.1
"""Delays are drawn on a logarithmic scale."""


class Sketch(NamedTuple):
    """A day in 1,440 minutes. `records` and `segments` are by shard; delays in seconds, NaN where nothing arrived.

    A delay is the time from a minute's end until an object of it was in the archive.
    """

    records: Mapping[str, NDArray[np.int64]]
    segments: Mapping[str, NDArray[np.bool_]]
    slowest: NDArray[np.float64]
    middle: NDArray[np.float64]

    @property
    def minutes(self) -> list[int]:
        """The minutes of the day in which there is a segment."""
        return sorted({int(minute) for held in self.segments.values() for minute in np.flatnonzero(held)})

    @property
    def total(self) -> NDArray[np.int64]:
        """Records per minute of the whole stream."""
        return sum(self.records.values(), start=np.zeros(MINUTES_A_DAY, dtype=np.int64))


def sketch(minutes: Mapping[str, Minutes]) -> Sketch:
    """Draw a day together; a shard's delay in a minute is that of its last segment there."""
    records = {shard: np.array(of.records, dtype=np.int64) for shard, of in minutes.items()}
    held = {shard: np.array(of.lag_ms) >= 0 for shard, of in minutes.items()}
    delays: dict[int, list[float]] = defaultdict(list)
    for shard, of in minutes.items():
        for column in np.flatnonzero(held[shard]):
            delays[int(column)].append(max(_LEAST_SECONDS, of.lag_ms[column] / 1000))
    slowest, middle = np.full(MINUTES_A_DAY, np.nan), np.full(MINUTES_A_DAY, np.nan)
    for minute, seconds in delays.items():
        slowest[minute], middle[minute] = max(seconds), sorted(seconds)[len(seconds) // 2]
    return Sketch(records, held, slowest, middle)
