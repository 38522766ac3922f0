"""The known evidence of a scope: links and marks by shard, and which shards the scope may depend on."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from minutebook.coverage import evidence
from minutebook.coverage.chain import ChainView
from minutebook.coverage.intervals import Interval
from minutebook.coverage.shard_coverage import ShardFacts
from minutebook.coverage.topology import Topology
from minutebook.format.arrival import ARRIVAL_STEP_BACK_MS, MIDNIGHT_EDGE_MS
from minutebook.format.metadata import Predecessor
from minutebook.format.position import Position
from minutebook.format.read_mark import MarkKind, ReadMark
from minutebook.proof.sources import Stream, sources_of
from minutebook.proof.statements import Statements, StoredMark

LOOKBACK_DAYS: Final = 14
"""How many non-empty days are searched before the scope."""


class ProofQuery(NamedTuple):
    """The scope to judge, and facts from outside of the archive. `begin_ms` is the application's start.

    With `shards` the evidence of these alone is searched: their coverage counts, and a verdict on the scope does not.
    """

    scope: Interval
    begin_ms: int
    now_ms: int
    stream: Stream = Stream()
    lookback_days: int = LOOKBACK_DAYS
    shards: frozenset[str] | None = None

    def asks_of(self, shard_id: str) -> bool:
        """Return whether the evidence of a shard is searched."""
        return self.shards is None or shard_id in self.shards


class Head(NamedTuple):
    """The first known segment of a chain."""

    first: Position
    last: Position
    after: Predecessor
    begins_ms: int


class EvidenceSet:
    """Links and marks by shard; a search adds to it."""

    def __init__(self, query: ProofQuery, statements: Statements) -> None:
        self.links: dict[str, set[evidence.EvidenceLink]] = defaultdict(set)
        self.marks: dict[str, dict[ReadMark, int]] = defaultdict(dict)
        self.heads: dict[str, Head] = {}
        self.ends: dict[str, set[Position]] = defaultdict(set)
        self._query = query
        self._statements = statements
        self._open_until: dict[str, int] = defaultdict(int)
        self._archived_until: dict[str, int] = defaultdict(int)
        self._topology: tuple[set[str], Topology] | None = None
        self._expired_ms = statements.expired_ms()
        for marks in statements.marks.values():
            self.add_marks(marks)
        self._add_expired()

    def add_link(self, shard_id: str, link: evidence.EvidenceLink) -> bool:
        """Add a link; False if it is known already."""
        if link in self.links[shard_id]:
            return False
        self.links[shard_id].add(link)
        self.ends[shard_id].add(link.last)
        if link.kind is evidence.Kind.SEGMENT:
            head = Head(link.first, link.last, link.after, link.begins_ms)
            if shard_id not in self.heads or head[:2] < self.heads[shard_id][:2]:
                self.heads[shard_id] = head
            self._open_until[shard_id] = max(self._open_until[shard_id], link.until_ms)
            self._archived_until[shard_id] = max(self._archived_until[shard_id], link.until_ms)
        return True

    def add_marks(self, marks: Iterable[StoredMark]) -> None:
        """Add marks; the same one may lie under several days."""
        for mark, stored_ms in marks:
            known = self.marks[mark.shard_id]
            known[mark] = min(stored_ms, known.get(mark, stored_ms))
            if mark.kind is MarkKind.READ:
                self._open_until[mark.shard_id] = max(self._open_until[mark.shard_id], mark.until_ms)

    def _add_expired(self) -> None:
        """Add a link for each run of expired segments. Tombstones of earlier versions lack some times."""
        for day, tombstone in self._statements.tombstones.items():
            for shard_id, shard in tombstone.shards.items():
                for run in shard.runs:
                    link = evidence.expired_link(
                        first=run.span.first,
                        last=run.span.last,
                        after=run.predecessor,
                        arrival_min_ms=run.arrival_min_ms or day.begin_ms,
                        until_ms=run.until_ms or day.end_ms + ARRIVAL_STEP_BACK_MS,
                        run=evidence.run_of(run.writer),
                        from_ms=run.from_ms,
                    )
                    self.add_link(shard_id, link)

    @property
    def known(self) -> set[str]:
        """All shards with a segment, a mark or a marker."""
        return {*self._statements.shards, *self.links, *self.marks}

    def facts(
        self, shard_id: str, *, to_the_beginning: bool, to_the_end: bool, unseen: frozenset[Position]
    ) -> ShardFacts:
        """Return the facts about a shard."""
        markers = self._statements.of(shard_id)
        links = evidence.in_order(self.links.get(shard_id, ()))
        begun_at = markers.start.first_position() if markers.start else None
        unread = tuple(
            Interval(day.begin_ms - MIDNIGHT_EDGE_MS, day.end_ms + MIDNIGHT_EDGE_MS)
            for day in self._statements.unread_days
        )
        view = ChainView(tuple(links), begun_at, to_the_beginning, to_the_end, unseen, unread)
        pieces = tuple(self.pieces(shard_id))
        return ShardFacts(shard_id, view, pieces, markers.skips, markers.end_stored_ms, markers.opened_stored_ms)

    def pieces(self, shard_id: str) -> Iterator[evidence.Evidence]:
        """Yield the evidence of a shard other than segments."""
        marks = self.marks.get(shard_id, {})
        for mark in evidence.unanswered(sorted(marks, key=str)):
            yield evidence.mark_evidence(mark, marks[mark])
        markers = self._statements.of(shard_id)
        if markers.adopted is not None:
            position, stored_ms = markers.adopted.adopted_position(), markers.adopted_stored_ms
            yield evidence.adopted_evidence(shard_id, position, stored_ms=stored_ms, held=markers.adopted.held)
        for day, tombstone in sorted(self._statements.tombstones.items()):
            shard = tombstone.shards.get(shard_id)
            for interval in shard.proven if shard else ():
                last = Position.parse(shard.runs[-1].last) if shard and shard.runs else None
                yield evidence.expired_evidence(shard_id, Interval(*interval), last, self._expired_ms.get(day))

    def concerned(self) -> set[str]:
        """Return the shards that the scope may depend on: children of shards that are not known to be open, too."""
        topology = self._topology_now()
        shards = _descendants(topology, self)
        shards |= set(topology.opened) - _descendants(topology)
        return {shard_id for shard_id in shards if self._query.asks_of(shard_id) and not self._is_over(shard_id)}

    def _topology_now(self) -> Topology:
        """Return the topology of all shards that are known; it is made anew only when evidence has named another."""
        known = self.known
        if self._topology is None or self._topology[0] != known:
            self._topology = known, Topology(sources_of(self._statements, known, self._query.stream))
        return self._topology[1]

    def is_open(self, shard_id: str) -> bool:
        """Return whether the shard was known to be open at the scope's end."""
        return self._open_until.get(shard_id, 0) >= self._query.scope.until_ms

    def is_archived_beyond(self, shard_id: str) -> bool:
        """Return whether a segment of the shard reaches the scope's end."""
        return self._archived_until.get(shard_id, 0) >= self._query.scope.until_ms

    def _is_over(self, shard_id: str) -> bool:
        """Return whether the shard had ended when the scope began."""
        stored_ms = self._statements.of(shard_id).end_stored_ms
        return stored_ms is not None and stored_ms + ARRIVAL_STEP_BACK_MS <= self._query.scope.from_ms


def _descendants(topology: Topology, known: EvidenceSet | None = None) -> set[str]:
    """Return the first shards and their descendants, except those of shards that by `known` were open."""
    shards: set[str] = set()
    todo = list(topology.first_shards)
    while todo:
        shard_id = todo.pop()
        if shard_id not in shards:
            shards.add(shard_id)
            todo += [] if known is not None and known.is_open(shard_id) else topology.children(shard_id)
    return shards
