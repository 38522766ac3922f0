"""Which shards are judged in a scope, from when to when, and which hash keys no known shard holds. Pure.

The frontier consists of the first shards and, recursively, of all children of shards that are not known to be open at
the scope's end. A child is required from the last time at which a parent was known to be open. A shard is required
until a time by which it had certainly ended: by its own proof, or because a child was open.

The first shards must cover all hash keys, and children those of their parents. A shard that was opened later in a
hole succeeds the ended one; the time between the two is then not proven. A hole of one key that no known shard holds
is an off-by-one of emulators. A shard that nobody read before Kinesis forgot it is known from its relatives alone, by
its name and not by its hash keys. But a split has two children and a merge one: if those are known, none is missing.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Protocol, Self

from minutebook.coverage.chain import Doubt, Reason
from minutebook.coverage.intervals import FOREVER, Interval
from minutebook.coverage.shard_coverage import Gap, ShardCoverage, ShardFacts
from minutebook.coverage.topology import Topology, uncovered_ranges
from minutebook.format.aggregate import EVERY_HASH_KEY, HashRange
from minutebook.format.arrival import ARRIVAL_STEP_BACK_MS

_BIRTH_MARGIN_MS: Final = 3 * ARRIVAL_STEP_BACK_MS
"""A segment's `until` lies up to two minutes before the records that show its shard open."""


class CoveredShard(Protocol):
    """What is proven of one shard: by the archive (`ShardCoverage`), or by its workers' rows."""

    @property
    def shard_id(self) -> str:
        """The shard's id."""

    @property
    def open_until_ms(self) -> int:
        """The last time at which it was known to be open; 0: none."""

    @property
    def seen_open_ms(self) -> int | None:
        """The first time by which it was known to exist: its parents had ended."""

    @property
    def ended_ms(self) -> int:
        """A time by which it had ended; FOREVER: unknown."""

    @property
    def adopted_ms(self) -> int | None:
        """When it was adopted from another application, if nothing was archived before."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known of it."""

    def without_birth(self) -> Self:
        """Return the same without claims of time since its birth."""

    def is_open_at(self, time_ms: int) -> bool:
        """Return whether it was known to be open at that time or later."""

    def begins_ms(self) -> int:
        """Return the begin of what is known of it; FOREVER if nothing is."""

    def gaps(self, from_ms: int, until_ms: int) -> tuple[Gap, ...]:
        """Return the times between the two that are not proven."""


class Required(NamedTuple):
    """One shard, and the times at which it must be covered, independent of the scope."""

    coverage: CoveredShard
    interval: Interval
    is_first: bool
    is_unread: bool

    @property
    def shard_id(self) -> str:
        """The shard's id."""
        return self.coverage.shard_id


class Frontier(NamedTuple):
    """The shards to judge, by id, and doubts about the stream's shards."""

    shards: Mapping[str, Required]
    doubts: tuple[Doubt, ...]


def find_frontier(
    topology: Topology, coverages: Mapping[str, CoveredShard], *, begin_ms: int, end_ms: int
) -> Frontier:
    """Return the shards to judge in a scope that ends at `end_ms`. `begin_ms` is the application's start."""
    return _Descent(topology, coverages, begin_ms, end_ms).run()


class _Descent:
    def __init__(self, topology: Topology, coverages: Mapping[str, CoveredShard], begin_ms: int, end_ms: int) -> None:
        self._topology = topology
        self._coverages: dict[str, CoveredShard] = dict(coverages)
        self._begin_ms = begin_ms
        self._end_ms = end_ms
        self._required: dict[str, Required] = {}
        self._doubts: list[Doubt] = []
        self._todo: list[str] = []
        self._holes: list[tuple[HashRange, int, str | None]] = []
        self._seen: dict[str, int | None] = {}
        """What `_first_seen` returns, by shard."""

    def run(self) -> Frontier:
        for circle in self._topology.circles:
            self._doubts.append(Doubt(Reason.CIRCLE, Interval(self._begin_ms, FOREVER), shard_id=min(circle)))
        first = self._topology.first_shards
        if not first:
            self._doubts.append(Doubt(Reason.NO_FRONTIER, Interval(self._begin_ms, FOREVER)))
            return Frontier({}, tuple(self._doubts))
        for shard in first:
            coverage = self._coverage(shard).without_birth()
            self._require(coverage, coverage.adopted_ms or self._begin_ms, is_first=True)
        self._tile(EVERY_HASH_KEY, first, self._begin_ms)
        while self._todo or self._holes:
            # Holes come last: shards that descend from the frontier are known by then.
            if self._todo:
                self._descend(self._todo.pop())
            else:
                self._fill(*self._holes.pop(0))
        return Frontier(self._required, tuple(self._doubts))

    def _coverage(self, shard: str) -> CoveredShard:
        if shard not in self._coverages:
            self._coverages[shard] = ShardCoverage(ShardFacts(shard))
        return self._coverages[shard]

    def _require(self, coverage: CoveredShard, from_ms: int, *, is_first: bool) -> None:
        shard = coverage.shard_id
        if shard in self._required:
            return
        is_unread = coverage.is_empty and not self._topology.is_opened(shard)
        until_ms = min(coverage.ended_ms, self._succeeded_ms(self._topology.children(shard)))
        interval = Interval(from_ms, max(from_ms, until_ms))
        self._required[shard] = Required(coverage, interval, is_first, is_unread)
        self._todo.append(shard)

    def _succeeded_ms(self, children: Iterable[str]) -> int:
        times = (self._first_seen(child) for child in children)
        return min((time + _BIRTH_MARGIN_MS for time in times if time is not None), default=FOREVER)

    def _first_seen(self, shard: str) -> int | None:
        """Return when the shard, or one that descends from it if nobody read it, was first known to exist."""
        entered, waiting = set[str](), [shard]
        while waiting:  # children first, each once: a stream that was split and merged often has many ways to one
            name = waiting[-1]
            seen_ms = self._coverage(name).seen_open_ms
            children = [] if seen_ms is not None else [*self._topology.children(name)]
            if name not in self._seen and name not in entered and children:
                entered.add(name)
                waiting += [child for child in children if child not in self._seen and child not in entered]
                continue
            times = (self._seen.get(child) for child in children)
            own_ms = min((time for time in times if time is not None), default=None) if seen_ms is None else seen_ms
            self._seen.setdefault(name, own_ms)
            waiting.pop()
        return self._seen[shard]

    def _descend(self, shard: str) -> None:
        coverage = self._coverage(shard)
        children = self._topology.children(shard)
        if coverage.is_open_at(self._end_ms) or (self._topology.is_listed_open(shard) and not children):
            return
        if not children and self._topology.is_over(shard) is None:
            self._doubts.append(
                Doubt(Reason.SUCCESSION_UNKNOWN, Interval(self._last_open(shard), FOREVER), shard_id=shard)
            )
            return
        for child in children:
            self._require(self._coverage(child), self._born_after(child), is_first=False)
        hash_range = self._topology.hash_range(shard)
        if None in {hash_range, *map(self._topology.hash_range, children)} and self._topology.has_all_children(shard):
            return
        if hash_range is None:
            interval = Interval(self._last_open(shard), FOREVER)
            self._doubts.append(Doubt(Reason.RANGE_UNKNOWN, interval, shard_id=shard))
        else:
            self._tile(hash_range, children, self._last_open(shard), shard)

    def _last_open(self, shard: str) -> int:
        """Return a time at which the shard had certainly not ended; at least the start of its required interval."""
        required = self._required.get(shard)
        return max(self._coverage(shard).open_until_ms, required.interval.from_ms if required else self._begin_ms)

    def _born_after(self, child: str) -> int:
        parents = self._topology.parents(child)
        return max((self._last_open(parent) for parent in parents), default=self._begin_ms)

    def _tile(self, whole: HashRange, parts: Iterable[str], from_ms: int, owner: str | None = None) -> None:
        """Record the hash keys of the whole, an ended shard's, that no part holds from `from_ms` on."""
        ranges = [self._topology.hash_range(part) for part in parts]
        if not all(ranges):
            self._doubts.append(Doubt(Reason.RANGE_UNKNOWN, Interval(from_ms, FOREVER)))
            return
        for hole in uncovered_ranges(whole, filter(None, ranges)):
            self._holes.append((hole, from_ms, owner))

    def _fill(self, hole: HashRange, from_ms: int, owner: str | None) -> None:
        """Require the shards that were opened later in a hole; the rest of it is in doubt.

        One that is required already, by another hole or by a parent, fills this hole, too: a merge of shards of which
        one came and went unread. Of the time before its evidence this side of it knows nothing.
        """
        named = [shard for shard in self._topology.named if self._holds(shard, hole)]
        known = self._topology.ancestors(self._required) | set(self._required)
        unrelated, later = [shard for shard in named if shard not in known], self._later(named, from_ms, owner)
        if hole.width == 1 and not unrelated and not later:
            return
        opened = {shard for shard in unrelated if self._topology.is_opened(shard)}
        successors = sorted(shard for shard in opened if not self._topology.parents(shard) & opened)
        fillers = [*successors, *later]
        for shard in fillers:
            coverage = self._coverage(shard).without_birth()
            begins_ms = max(from_ms, coverage.begins_ms())
            self._doubts.append(Doubt(Reason.HASH_HOLE, Interval(from_ms, begins_ms)))
            self._require(coverage, begins_ms, is_first=False)
        ranges = map(self._topology.hash_range, fillers)
        for rest in uncovered_ranges(hole, filter(None, ranges)):
            if rest.width > 1 or not fillers:
                self._doubts.append(Doubt(Reason.HASH_HOLE, Interval(from_ms, FOREVER)))

    def _holds(self, shard: str, hole: HashRange) -> bool:
        keys = self._topology.hash_range(shard)
        return keys is not None and keys.meets(hole)

    def _later(self, named: Iterable[str], from_ms: int, owner: str | None) -> list[str]:
        """Return the required ones of some shards that live behind a time: not the hole's owner, nor its ancestors.

        Without an owner the hole is one between the first shards.
        """
        before = self._topology.first_shards if owner is None else [owner, *self._topology.ancestors([owner])]
        required = ((shard, self._required.get(shard)) for shard in named if shard not in before)
        return [
            shard
            for shard, each in required
            if each is not None and each.interval.until_ms > from_ms and self._topology.is_opened(shard)
        ]
