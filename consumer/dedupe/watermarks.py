"""Producer watermarks: which of a producer's own sequence numbers a shard's chain has archived.

Per producer the numbers seen are kept as intervals: the highest end is the high watermark, the holes between the
intervals are the open gaps. PutRecords can fail for one record and succeed for the next, so a number below the
watermark may be new: it is dropped only when it lies in an interval.

**Doubt keeps.** What is not known to be archived is not dropped: numbers before the first one seen, numbers of
intervals or producers that were forgotten because there were too many. Forgetting follows the records alone, so every
replay of the same chain decides the same.
"""

import json
from bisect import bisect_right
from itertools import pairwise
from typing import Final

import msgspec

from minutebook.errors import FormatError

MAX_INTERVALS: Final = 32
MAX_PRODUCERS: Final = 1000
_decode = msgspec.json.Decoder(list[tuple[str, list[tuple[int, int]]]]).decode


class Watermarks:
    """The state of one shard's chain at one position. Producers are ordered by their last record."""

    def __init__(self) -> None:
        self._seen: dict[str, list[tuple[int, int]]] = {}

    def take(self, producer: str, number: int, *, ordered: bool) -> bool:
        """Record `number`; returns True when it is new, False when it is a duplicate.

        `ordered` is the producer's promise that numbers never come late: then everything up to the watermark is a
        duplicate.
        """
        intervals = self._seen.pop(producer, [])
        self._seen[producer] = intervals
        if ordered:
            if intervals and number <= intervals[-1][1]:
                return False
            intervals[:] = [(number, number)]
        elif not _add(intervals, number):
            return False
        if len(self._seen) > MAX_PRODUCERS:
            del self._seen[next(iter(self._seen))]
        return True

    def merge(self, other: "Watermarks") -> None:
        """Take over what `other` has seen as well: a shard that was merged from two inherits both."""
        for producer, theirs in other._seen.items():  # noqa: SLF001 - same class
            ours = self._seen.pop(producer, [])
            self._seen[producer] = _union(ours, theirs)
        while len(self._seen) > MAX_PRODUCERS:
            del self._seen[next(iter(self._seen))]

    def encode(self) -> str:
        """Return the state as ASCII JSON: [[producer, [[low, high], ...]], ...]."""
        return json.dumps(list(self._seen.items()), separators=(",", ":"))

    @classmethod
    def decode(cls, text: str | bytes) -> "Watermarks":
        """Read what `encode` wrote.

        Raises:
            FormatError: anything else, unordered or overlapping intervals included.
        """
        try:
            rows = _decode(text)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
            raise FormatError(f"producer watermarks do not parse: {exc}") from exc
        state = cls()
        for producer, intervals in rows:
            flat = [number for interval in intervals for number in interval]
            if not intervals or flat != sorted(flat) or any(a[1] >= b[0] for a, b in pairwise(intervals)):
                raise FormatError(f"producer watermarks: intervals of {producer!r} are not in order")
            state._seen[producer] = list(intervals)
        return state


def _add(intervals: list[tuple[int, int]], number: int) -> bool:
    """Add a number to sorted, disjoint, non-touching intervals; False when it is in one already."""
    index = bisect_right(intervals, (number, number)) - 1
    # bisect compares tuples: an interval that begins at `number` and is longer lies one to the right.
    if index + 1 < len(intervals) and intervals[index + 1][0] == number:
        return False
    if index >= 0 and number <= intervals[index][1]:
        return False
    low = high = number
    if index + 1 < len(intervals) and intervals[index + 1][0] == number + 1:
        high = intervals.pop(index + 1)[1]
    if index >= 0 and intervals[index][1] == number - 1:
        low = intervals.pop(index)[0]
        index -= 1
    intervals.insert(index + 1, (low, high))
    if len(intervals) > MAX_INTERVALS:
        del intervals[0]
    return True


def _union(ours: list[tuple[int, int]], theirs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for low, high in sorted([*ours, *theirs]):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged[-MAX_INTERVALS:]
