"""What the pictures are drawn from: numbers per shard and minute, small whatever the day's size."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from archive.format.day import MINUTES_A_DAY, Day
from archive.format.minute import MINUTE_MS
from compaction.inventory.segments import Segment

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


def sketch(day: Day, segments: Iterable[Segment]) -> Sketch:
    """Count a day's segments."""
    records: dict[str, Any] = defaultdict(lambda: np.zeros(MINUTES_A_DAY, dtype=np.int64))
    held: dict[str, Any] = defaultdict(lambda: np.zeros(MINUTES_A_DAY, dtype=np.bool_))
    delays: dict[int, list[float]] = defaultdict(list)
    for segment in segments:
        column = segment.metadata.minute - day.first_minute
        if 0 <= column < MINUTES_A_DAY:
            records[segment.metadata.shard_id][column] += segment.metadata.records
            held[segment.metadata.shard_id][column] = True
            closed_ms = (segment.metadata.minute + 1) * MINUTE_MS
            delays[column].append(max(_LEAST_SECONDS, (segment.row.last_modified_ms - closed_ms) / 1000))
    slowest, middle = np.full(MINUTES_A_DAY, np.nan), np.full(MINUTES_A_DAY, np.nan)
    for column, seconds in delays.items():
        slowest[column], middle[column] = max(seconds), sorted(seconds)[len(seconds) // 2]
    return Sketch(dict(records), dict(held), slowest, middle)
