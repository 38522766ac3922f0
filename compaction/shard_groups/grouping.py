"""Which group a shard belongs to: some shards that follow each other by name share one."""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, NamedTuple

_MOST: Final = 128
"""Buckets at most: each may leave a task that is not full, and so a small file."""


class ShardGrouping(NamedTuple):
    """The groups of shards, numbered from 1. `bounds` are the first shards of all but the first one.

    A shard that nobody knew of belongs between those that its name lies between.
    """

    bounds: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """How many groups there are, the driver's included."""
        return len(self.bounds) + 2

    @property
    def numbers(self) -> range:
        """Their numbers."""
        return range(1, self.total)

    def of(self, shard_id: str) -> int:
        """Return the group of a shard."""
        return bisect_right(self.bounds, shard_id) + 1


def grouping_of(shards: Iterable[str], in_one: int) -> ShardGrouping:
    """Return groups for shards that are known, `in_one` in each or more.

    Shards behind the last one leave the others' groups as they are.
    """
    names = sorted(set(shards))
    size = max(in_one, -(-len(names) // _MOST))
    return ShardGrouping(tuple(names[size::size]))
