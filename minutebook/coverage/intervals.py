"""Intervals of time: union, difference and gaps.

An interval `(from, until]` holds the times after `from` up to `until`, in epoch milliseconds.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

FOREVER: Final = 1 << 62
"""Later than every time."""


class Interval(NamedTuple):
    """The times after `from_ms`, up to `until_ms`."""

    from_ms: int
    until_ms: int

    @property
    def is_empty(self) -> bool:
        """Return whether it holds no time."""
        return self.until_ms <= self.from_ms

    def overlaps(self, other: "Interval") -> bool:
        """Return whether the two have a time in common."""
        return max(self.from_ms, other.from_ms) < min(self.until_ms, other.until_ms)

    def common(self, other: "Interval") -> "Interval":
        """Return the times that both hold; empty if there are none."""
        return Interval(max(self.from_ms, other.from_ms), min(self.until_ms, other.until_ms))


def union(intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    """Return the same times as disjoint intervals, in order; adjacent intervals are merged."""
    merged: list[Interval] = []
    for interval in sorted(interval for interval in intervals if not interval.is_empty):
        if merged and interval.from_ms <= merged[-1].until_ms:
            merged[-1] = Interval(merged[-1].from_ms, max(merged[-1].until_ms, interval.until_ms))
        else:
            merged.append(interval)
    return tuple(merged)


def difference(intervals: Iterable[Interval], taken: Iterable[Interval]) -> tuple[Interval, ...]:
    """Return the times of `intervals` that are not in `taken`."""
    holes = union(taken)
    return tuple(rest for interval in union(intervals) for rest in gaps(holes, interval))


def gaps(covered: Iterable[Interval], whole: Interval) -> Iterator[Interval]:
    """Yield the times of `whole` that are not in `covered`, which is disjoint and in order as `union` returns it."""
    reached = whole.from_ms
    for interval in covered:
        if interval.until_ms <= reached or interval.from_ms >= whole.until_ms:
            continue
        if interval.from_ms > reached:
            yield Interval(reached, interval.from_ms)
        reached = interval.until_ms
    if reached < whole.until_ms:
        yield Interval(reached, whole.until_ms)
