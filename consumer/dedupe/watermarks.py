"""Producer watermarks: which of a producer's own sequence numbers a shard's chain has archived.

The numbers of a producer are stored as intervals: the highest end is the high watermark, the holes between intervals
are open gaps. PutRecords can fail for one record and succeed for the next, so a number below the watermark may be
new: it is dropped only if it lies in an interval.

**In doubt, keep.** A number that is not known to be archived is kept: one before the first interval, one of an
interval or producer that was forgotten because there were too many. What is forgotten depends on the records alone,
so every replay of a chain decides the same.
"""

import json
from bisect import bisect_right
from itertools import pairwise
from typing import Final

import msgspec

from minutebook.errors import FormatError, ObjectVanished
from minutebook.format.keys import watermarks_key
from minutebook.format.metadata import SegmentMetadata
from minutebook.store.retrying import RetryingStore

MAX_INTERVALS: Final = 32
MAX_PRODUCERS: Final = 1000
WATERMARKS_LIMIT: Final = 1000
WATERMARKS_BESIDE: Final = "beside"
"""The metadata field `watermarks` if they are too long for it and have an object beside the segment."""
_decode = msgspec.json.Decoder(list[tuple[str, list[tuple[int, int]]]]).decode


class Watermarks:
    """The state of one shard's chain at one position. Producers are ordered by their last record."""

    def __init__(self) -> None:
        self._intervals: dict[str, list[tuple[int, int]]] = {}

    def take(self, producer: str, number: int, *, ordered: bool) -> bool:
        """Add `number`; return whether it is new.

        `ordered`: the producer guarantees ascending numbers, so everything up to the watermark is a duplicate.
        """
        intervals = self._intervals.pop(producer, [])
        self._intervals[producer] = intervals
        if ordered:
            if intervals and number <= intervals[-1][1]:
                return False
            intervals[:] = [(number, number)]
        elif not _add(intervals, number):
            return False
        if len(self._intervals) > MAX_PRODUCERS:
            del self._intervals[next(iter(self._intervals))]
        return True

    def merge(self, other: "Watermarks") -> None:
        """Add the numbers of `other`: a shard that was merged from two inherits both."""
        for producer, theirs in other._intervals.items():  # noqa: SLF001 - same class
            ours = self._intervals.pop(producer, [])
            self._intervals[producer] = _union(ours, theirs)
        while len(self._intervals) > MAX_PRODUCERS:
            del self._intervals[next(iter(self._intervals))]

    def encode(self) -> str:
        """Return the state as ASCII JSON: [[producer, [[low, high], ...]], ...]."""
        return json.dumps(list(self._intervals.items()), separators=(",", ":"))

    @classmethod
    def decode(cls, text: str | bytes) -> "Watermarks":
        """Read what `encode` wrote.

        Raises FormatError for anything else, unordered or overlapping intervals included.
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
            state._intervals[producer] = list(intervals)
        return state


def _add(intervals: list[tuple[int, int]], number: int) -> bool:
    """Add a number to sorted, disjoint, non-touching intervals; return False if one holds it already."""
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


def store_watermarks(store: RetryingStore, key: str, watermarks: Watermarks) -> str:
    """Return the metadata field for a segment; what does not fit is written to `key` first.

    The key contains the segment's writer, so only an earlier attempt of ours can have written it.
    """
    text = watermarks.encode()
    if len(text) <= WATERMARKS_LIMIT:
        return text
    store.put_if_absent(key, text.encode())
    return WATERMARKS_BESIDE


def load_watermarks(store: RetryingStore, prefix: str, metadata: SegmentMetadata) -> Watermarks | None:
    """Return the watermarks stored with a segment; None if it has none.

    Raises ObjectVanished if those beside it are gone.
    """
    if metadata.watermarks is None:
        return None
    if metadata.watermarks != WATERMARKS_BESIDE:
        return Watermarks.decode(metadata.watermarks)
    key = watermarks_key(prefix, metadata.shard_id, metadata.minute, metadata.first, metadata.writer)
    beside = store.read(key, lambda stored: Watermarks.decode(stored.body), must_exist=True)
    if beside is None:
        raise ObjectVanished(f"{key} is gone", next_step="find out who deletes objects under the prefix")
    return beside
