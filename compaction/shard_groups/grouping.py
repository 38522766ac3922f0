"""Assign shards to groups: consecutive shards by name share one."""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, NamedTuple

_MOST: Final = 128
"""Groups at most: each may end with a small task, and so a small file."""


class ShardGrouping(NamedTuple):
    """The groups of shards, numbered from 1. `bounds`: the first shard of each group but the first.

    An unknown shard belongs to the group of the names around it.
    """

    bounds: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """Number of groups, including the driver's."""
        return len(self.bounds) + 2

    @property
    def numbers(self) -> range:
        """The groups' numbers."""
        return range(1, self.total)

    def of(self, shard_id: str) -> int:
        """Return the group of a shard."""
        return bisect_right(self.bounds, shard_id) + 1


def grouping_of(shards: Iterable[str], in_one: int) -> ShardGrouping:
    """Return groups of at least `in_one` shards. Adding a shard after the last one keeps the others' groups."""
    names = sorted(set(shards))
    size = max(in_one, -(-len(names) // _MOST))
    return ShardGrouping(tuple(names[size::size]))
