"""The shards of the stream by all sources: their parents, children and hash keys. Pure.

A *first shard* has no parent that this application knows. On a stream that was resharded before, every shard names
parents, so having any decides nothing. Shards that neither are first shards nor descend from one ended before the
application began.

No shard descends from itself. If the sources together say so, all relations of that circle are dropped: a false
parent would shift the begin of a shard's required time, a false child its end.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from minutebook.errors import FormatError
from minutebook.format.aggregate import LAST_HASH_KEY, HashRange
from minutebook.format.coverage_markers import FirstShards, OpenedMarker
from minutebook.format.markers import EndMarker, StartMarker

_SPLIT_INTO: Final = 2
_MERGED_OF: Final = 2
_CACHED: Final = 4096
"""Ranges of hash keys that are kept parsed: those of a stream's shards are read at each look at its markers."""


class ShardRow(NamedTuple):
    """A shard by one source: ListShards, KCL's lease row, or a marker. None and empty fields are unknown."""

    shard_id: str
    hash_range: HashRange | None = None
    parents: frozenset[str] = frozenset()
    children: frozenset[str] = frozenset()


class ShardSources(NamedTuple):
    """All sources about shards.

    `first` is `_shards/first.json`, or None; `marked` are the rows of all markers, and of shards with segments but no
    marker; `opened` the shards that KCL assigned to a processor; `ended` those with an `end.json`; `leased` KCL's
    rows. `listed` is ListShards (None: not called), `closed` the closed shards in it.
    """

    first: tuple[ShardRow, ...] | None = None
    marked: tuple[ShardRow, ...] = ()
    opened: frozenset[str] = frozenset()
    ended: frozenset[str] = frozenset()
    leased: tuple[ShardRow, ...] = ()
    listed: tuple[ShardRow, ...] | None = None
    closed: frozenset[str] = frozenset()


class Topology:
    """The union of all sources. `circles` are sets of shards that are named as their own ancestors."""

    def __init__(self, sources: ShardSources) -> None:
        self._sources = sources
        self._ranges: dict[str, HashRange] = {}
        self._parents: dict[str, set[str]] = {}
        self._children: dict[str, set[str]] = {}
        for row in (*(sources.first or ()), *sources.marked, *sources.leased, *(sources.listed or ())):
            self._add(row)
        self.circles = self._open_circles()
        rows = (*sources.marked, *(sources.listed or ())) if sources.first is None else sources.first
        self._own = {row.shard_id for row in rows}
        self._listed = None if sources.listed is None else {row.shard_id for row in sources.listed}

    @property
    def first_shards(self) -> list[str]:
        """The shards that the application began with, in order."""
        return sorted(shard for shard in self._own if not self.parents(shard) & self._own)

    @property
    def opened(self) -> list[str]:
        """The shards that KCL assigned to a processor, in order."""
        return sorted(self._sources.opened)

    @property
    def named(self) -> list[str]:
        """All shards with known hash keys, in order."""
        return sorted(self._ranges)

    def parents(self, shard_id: str) -> frozenset[str]:
        """Return the shard's parents."""
        return frozenset(self._parents.get(shard_id, ()))

    def children(self, shard_id: str) -> list[str]:
        """Return the shard's children, in order."""
        return sorted(self._children.get(shard_id, ()))

    def has_all_children(self, shard_id: str) -> bool:
        """Return whether the known children are all that it can have: both of a split, or the one of a merge."""
        children = self._children.get(shard_id, set())
        is_split = len(children) == _SPLIT_INTO and all(self._parents[child] == {shard_id} for child in children)
        return is_split or (len(children) == 1 and len(self._parents[min(children)]) == _MERGED_OF)

    def ancestors(self, shard_ids: Iterable[str]) -> set[str]:
        """Return all ancestors of some shards."""
        ancestors: set[str] = set()
        todo = list(shard_ids)
        while todo:
            new = self.parents(todo.pop()) - ancestors
            ancestors |= new
            todo += new
        return ancestors

    def hash_range(self, shard_id: str) -> HashRange | None:
        """Return the hash keys of a shard; None if unknown."""
        return self._ranges.get(shard_id)

    def is_opened(self, shard_id: str) -> bool:
        """Return whether KCL assigned the shard to a processor."""
        return shard_id in self._sources.opened

    def is_listed_open(self, shard_id: str) -> bool:
        """Return whether ListShards was called and listed the shard as open."""
        return self._listed is not None and shard_id in self._listed and shard_id not in self._sources.closed

    def is_over(self, shard_id: str) -> bool | None:
        """Return whether the shard has ended by now; None if unknown."""
        if shard_id in self._sources.ended or shard_id in self._sources.closed:
            return True
        if self._listed is None:
            return None
        return shard_id not in self._listed

    def _open_circles(self) -> list[frozenset[str]]:
        """Drop the relations within each circle; return the circles."""
        above = {shard: self.ancestors([shard]) for shard in self._near_circles()}
        circular = sorted(shard for shard, ancestors in above.items() if shard in ancestors)
        circles = {
            shard: frozenset(other for other in above[shard] if shard in above.get(other, ())) for shard in circular
        }
        for shard, circle in circles.items():
            self._parents[shard] -= circle
            self._children[shard] -= circle
        return sorted(set(circles.values()), key=sorted)

    def _near_circles(self) -> set[str]:
        """Return the shards in circles or between them, mostly none: to ask each for its ancestors is quadratic."""
        near = {*self._parents, *self._children}
        todo = [*near]
        while todo:
            shard = todo.pop()
            above, below = self._parents.get(shard, set()) & near, self._children.get(shard, set()) & near
            if shard in near and not (above and below):
                near.discard(shard)
                todo += above | below
        return near

    def _add(self, row: ShardRow) -> None:
        if row.hash_range is not None:
            self._ranges.setdefault(row.shard_id, row.hash_range)
        self._parents.setdefault(row.shard_id, set()).update(row.parents)
        for parent in row.parents:
            self._children.setdefault(parent, set()).add(row.shard_id)
        for child in row.children:
            self._children.setdefault(row.shard_id, set()).add(child)
            self._parents.setdefault(child, set()).add(row.shard_id)


def uncovered_ranges(whole: HashRange, parts: Iterable[HashRange]) -> Iterator[HashRange]:
    """Yield the ranges of `whole` that no part covers."""
    reached = whole.first
    for part in sorted(parts):
        if part.last < reached or part.first > whole.last:
            continue
        if part.first > reached:
            yield HashRange(reached, part.first - 1)
        reached = part.last + 1
    if reached <= whole.last:
        yield HashRange(reached, whole.last)


@functools.lru_cache(maxsize=_CACHED)
def hash_range_of(starting_hash_key: str, ending_hash_key: str) -> HashRange | None:
    """Parse a range of ListShards; None for a marker without one. Raises FormatError."""
    if not starting_hash_key and not ending_hash_key:
        return None
    texts = (starting_hash_key, ending_hash_key)
    if not all(text.isascii() and text.isdecimal() and len(text) <= len(str(LAST_HASH_KEY)) for text in texts):
        raise FormatError(f"not a range of hash keys: {texts}")
    hash_range = HashRange(int(starting_hash_key), int(ending_hash_key))
    if not hash_range.first <= hash_range.last <= LAST_HASH_KEY:
        raise FormatError(f"not a range of hash keys: {texts}")
    return hash_range


def first_rows(marker: FirstShards) -> tuple[ShardRow, ...]:
    """Return the rows of `_shards/first.json`; raises FormatError."""
    return tuple(
        ShardRow(row.shard, hash_range_of(row.starting_hash_key, row.ending_hash_key), frozenset(row.parents))
        for row in marker.shards
    )


def marked_rows(
    shard_ids: Iterable[str],
    starts: Mapping[str, StartMarker],
    opened: Mapping[str, OpenedMarker],
    ends: Mapping[str, EndMarker],
) -> tuple[ShardRow, ...]:
    """Return the rows of shards with markers, and of `shard_ids` (with segments or marks); raises FormatError."""
    rows = [ShardRow(shard_id) for shard_id in shard_ids]
    markers: list[StartMarker | OpenedMarker] = [*starts.values(), *opened.values()]
    for marker in markers:
        hash_range = hash_range_of(marker.starting_hash_key, marker.ending_hash_key)
        rows.append(ShardRow(marker.shard, hash_range, frozenset(marker.parents)))
    rows += [ShardRow(shard_id, children=frozenset(end.children)) for shard_id, end in ends.items()]
    return tuple(rows)
