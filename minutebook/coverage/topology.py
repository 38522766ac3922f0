"""Which shards the stream has had, as far as anything tells: who came from whom, who holds which hash keys. Pure.

A *first shard* is one none of whose parents is known to this application. On a stream that was resharded before,
every shard names parents, so whether it names any decides nothing. What is neither a first shard nor descends from
one ended before the application began.

No shard descends from itself. Where the sources together say so, they are wrong about each step of that circle, and
none of it is believed: a false parent would let a shard's time begin when it had gone by, a false child let it end.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from minutebook.errors import FormatError
from minutebook.format.aggregate import LAST_HASH_KEY, HashRange
from minutebook.format.coverage_markers import FirstShards, OpenedMarker
from minutebook.format.markers import EndMarker, StartMarker


class ShardRow(NamedTuple):
    """What one source says of a shard: ListShards, KCL's lease row, or a marker. None, and empty: it does not say."""

    shard_id: str
    hash_range: HashRange | None = None
    parents: frozenset[str] = frozenset()
    children: frozenset[str] = frozenset()


class ShardSources(NamedTuple):
    """Everything that names shards.

    `first` is `_shards/first.json` (None: there is none); `marked` are the rows of all markers, also those of shards
    that have segments and no marker; `opened` the ids of the shards that a processor was given; `ended` those that
    have an `end.json`; `leased` KCL's rows. `listed` is ListShards by id (None: it was not asked), `closed` those of
    them that take no records any more.
    """

    first: tuple[ShardRow, ...] | None = None
    marked: tuple[ShardRow, ...] = ()
    opened: frozenset[str] = frozenset()
    ended: frozenset[str] = frozenset()
    leased: tuple[ShardRow, ...] = ()
    listed: tuple[ShardRow, ...] | None = None
    closed: frozenset[str] = frozenset()


class Topology:
    """The union of all sources. `circles` are shards that are named as their own ancestors, each set once."""

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
        """The shards that a processor was given, in order."""
        return sorted(self._sources.opened)

    @property
    def named(self) -> list[str]:
        """Every shard that any source names and whose hash keys are known, in order."""
        return sorted(self._ranges)

    def parents(self, shard_id: str) -> frozenset[str]:
        """Return the shards that this one came from."""
        return frozenset(self._parents.get(shard_id, ()))

    def children(self, shard_id: str) -> list[str]:
        """Return the shards that came from this one, in order."""
        return sorted(self._children.get(shard_id, ()))

    def ancestors(self, shard_ids: Iterable[str]) -> set[str]:
        """Return the shards that these came from, however far back."""
        found: set[str] = set()
        todo = list(shard_ids)
        while todo:
            new = self.parents(todo.pop()) - found
            found |= new
            todo += new
        return found

    def hash_range(self, shard_id: str) -> HashRange | None:
        """Return the hash keys of a shard; None: nobody says."""
        return self._ranges.get(shard_id)

    def is_opened(self, shard_id: str) -> bool:
        """Tell whether a processor was given the shard."""
        return shard_id in self._sources.opened

    def is_listed_open(self, shard_id: str) -> bool:
        """Tell whether ListShards named the shard and called it open, when it was asked."""
        return self._listed is not None and shard_id in self._listed and shard_id not in self._sources.closed

    def is_over(self, shard_id: str) -> bool | None:
        """Tell whether the shard has ended by now; None: nothing tells."""
        if shard_id in self._sources.ended or shard_id in self._sources.closed:
            return True
        if self._listed is None:
            return None
        return shard_id not in self._listed

    def _open_circles(self) -> list[frozenset[str]]:
        """Forget who came from whom within each circle; return the circles."""
        above = {shard: self.ancestors([shard]) for shard in self._parents}
        own = sorted(shard for shard, found in above.items() if shard in found)
        circles = {
            shard: frozenset(other for other in above[shard] if shard in above.get(other, ())) for shard in own
        }
        for shard, circle in circles.items():
            self._parents[shard] -= circle
            self._children[shard] -= circle
        return sorted(set(circles.values()), key=sorted)

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
    """Yield what `parts` leave open of `whole`."""
    reached = whole.first
    for part in sorted(parts):
        if part.last < reached or part.first > whole.last:
            continue
        if part.first > reached:
            yield HashRange(reached, part.first - 1)
        reached = part.last + 1
    if reached <= whole.last:
        yield HashRange(reached, whole.last)


def hash_range_of(starting_hash_key: str, ending_hash_key: str) -> HashRange | None:
    """Read a range as ListShards writes it; None where a marker was written without one.

    Raises:
        FormatError: it is no range of hash keys.
    """
    if not starting_hash_key and not ending_hash_key:
        return None
    texts = (starting_hash_key, ending_hash_key)
    if not all(text.isascii() and text.isdecimal() and len(text) <= len(str(LAST_HASH_KEY)) for text in texts):
        raise FormatError(f"not a range of hash keys: {texts}")
    found = HashRange(int(starting_hash_key), int(ending_hash_key))
    if not found.first <= found.last <= LAST_HASH_KEY:
        raise FormatError(f"not a range of hash keys: {texts}")
    return found


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
    """Return the rows of the shards that have markers, or segments or marks (`shard_ids`); raises FormatError."""
    rows = [ShardRow(shard_id) for shard_id in shard_ids]
    markers: list[StartMarker | OpenedMarker] = [*starts.values(), *opened.values()]
    for marker in markers:
        hash_range = hash_range_of(marker.starting_hash_key, marker.ending_hash_key)
        rows.append(ShardRow(marker.shard, hash_range, frozenset(marker.parents)))
    rows += [ShardRow(shard_id, children=frozenset(end.children)) for shard_id, end in ends.items()]
    return tuple(rows)
