"""One shard: the times that its evidence proves, and why the others are not proven. Pure."""

from collections.abc import Sequence
from typing import Final, NamedTuple, Self

from minutebook.coverage.chain import Chain, ChainView, Doubt, Reason, supported_evidence
from minutebook.coverage.evidence import Evidence, Kind, ended_by_ms
from minutebook.coverage.intervals import FOREVER, Interval, difference, gaps
from minutebook.format.arrival import ARRIVAL_STEP_BACK_MS
from minutebook.format.metadata import Continuity
from minutebook.format.minute import MINUTE_MS
from minutebook.format.position import Position
from minutebook.format.read_mark import BIRTH

LOG_MARGIN_MS: Final = 15 * MINUTE_MS
"""S3 refuses requests from a host whose clock differs by more."""

_JUDGED: Final = frozenset({Kind.STREAM, Kind.EXPIRED})
"""Evidence that was made in knowledge of all skipped batches whose markers had been stored."""


class Skip(NamedTuple):
    """A `_skipped/` marker: when the line was logged, by the host's clock, and the object's LastModified."""

    logged_ms: int
    stored_ms: int

    def follows(self, stored_ms: int) -> bool:
        """Return whether what was stored at a time was there when the batch was skipped."""
        return stored_ms <= self.logged_ms - LOG_MARGIN_MS

    def may_block(self, scope: Interval, proven_ms: int | None) -> bool:
        """Return whether its time may touch a scope whose end is proven by what was stored at `proven_ms`."""
        is_proven = proven_ms is not None and self.follows(proven_ms)
        return not is_proven and self.stored_ms + ARRIVAL_STEP_BACK_MS > scope.from_ms


class ShardFacts(NamedTuple):
    """All durable facts about one shard. The times are the LastModified of its `end.json` and `opened.json`."""

    shard_id: str
    chain: ChainView = ChainView()
    pieces: tuple[Evidence, ...] = ()
    skips: tuple[Skip, ...] = ()
    end_stored_ms: int | None = None
    opened_stored_ms: int | None = None


class Gap(NamedTuple):
    """A time that is not proven, and the possible reasons."""

    interval: Interval
    reasons: tuple[Reason, ...]


class ShardCoverage:
    """The coverage of one shard.

    `covered` are the proven times, disjoint and in order. `open_until_ms` is the last time at which the shard was
    known to be open (0: none), `seen_open_ms` the first at which it was known to exist; `ended_ms` a time by which it
    had ended (FOREVER: unknown).
    """

    def __init__(self, facts: ShardFacts, *, trusts_birth: bool = True) -> None:
        self.shard_id = facts.shard_id
        self._facts = facts
        self._chain = Chain(facts.shard_id, facts.chain, trusts_birth=trusts_birth)
        pieces = facts.pieces
        if not trusts_birth:
            pieces = tuple(
                piece._replace(from_ms=piece.until_ms) if piece.from_ms == BIRTH else piece for piece in pieces
            )
        self._pieces, doubts = supported_evidence(self._chain, pieces)
        skipped = [blocked for skip in facts.skips for blocked in self._skipped(skip)]
        self.doubts = [*self._chain.doubts, *doubts, *(Doubt(Reason.SKIPPED, interval) for interval in skipped)]
        proven = (*self._chain.intervals, *(piece.interval for piece in self._pieces))
        lost = (Interval(piece.from_ms, piece.until_ms) for piece in facts.pieces if piece.is_loss)
        self.covered = difference(proven, [*skipped, *lost])
        opened = [node.link.until_ms for node in self._chain.nodes if node.link.kind is Kind.SEGMENT]
        opened += [piece.until_ms for piece in facts.pieces if piece.kind is Kind.READ]
        self.open_until_ms = max(opened, default=0)
        # A processor opens a shard before it stores the marker, and KCL opens no shard before it exists.
        opened += [] if facts.opened_stored_ms is None else [facts.opened_stored_ms]
        self.seen_open_ms = min(opened, default=None)
        self.ended_ms = ended_by_ms(facts.pieces, facts.end_stored_ms)
        self.adopted_ms = self._adoption()

    @property
    def evidence(self) -> list[Evidence]:
        """All evidence that the chain supports, segments first."""
        return [*self._chain.evidence, *self._pieces]

    def without_birth(self) -> Self:
        """Return the coverage without claims of time since the shard's birth, which only child shards may make."""
        claims = (*(node.from_ms for node in self._chain.nodes), *(piece.from_ms for piece in self._facts.pieces))
        return type(self)(self._facts, trusts_birth=False) if BIRTH in claims else self

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is known of the shard."""
        return not self._chain.nodes and not self._facts.pieces

    def is_covered(self, from_ms: int, until_ms: int) -> bool:
        """Return whether everything that arrived between the two times is proven to be archived."""
        return not any(gaps(self.covered, Interval(from_ms, until_ms)))

    def reach_of(self, position: Position) -> int | None:
        """Return the `until` of the link that ends at `position`, or None."""
        node = self._chain.at(position)
        return node.until_ms if node else None

    def proven_since(self, first: Position, last: Position) -> int | None:
        """Return since when the links between two positions are proven; see `Chain`."""
        return self._chain.proven_since(first, last)

    def gaps(self, from_ms: int, until_ms: int) -> tuple[Gap, ...]:
        """Return the times between the two that are not proven, each with its reasons."""
        return tuple(self._explain(gap) for gap in gaps(self.covered, Interval(from_ms, until_ms)))

    def skips_in(self, interval: Interval) -> list[Skip]:
        """Return the skipped batches that may have held records of a time."""
        return [skip for skip in self._facts.skips if any(time.overlaps(interval) for time in self._skipped(skip))]

    def is_open_at(self, time_ms: int) -> bool:
        """Return whether the shard was known to be open, by a segment or a read mark whose `until` reaches that time.

        A proof of its end, and an audit of level `stream`, do not show that a shard was open.
        """
        return self.open_until_ms >= time_ms

    def begins_ms(self) -> int:
        """Return the begin of the shard's evidence; FOREVER if there is none.

        Evidence since the shard's birth, whose time is unknown, counts from its `until`.
        """
        begins = (piece.until_ms if piece.from_ms == BIRTH else piece.interval.from_ms for piece in self.evidence)
        return min(begins, default=FOREVER)

    def _explain(self, gap: Interval) -> Gap:
        reasons = {doubt.reason for doubt in self.doubts if doubt.interval.overlaps(gap)}
        return Gap(gap, tuple(sorted(reasons)) or (Reason.NOT_COVERED,))

    def _skipped(self, skip: Skip) -> Sequence[Interval]:
        """Return the times of a skipped batch: after what was durable at its log line.

        A read mark counts whether or not its segment was looked for: it tells what was durable when it was stored.
        Comparisons clear them, and so does a tombstone that was stored after the batch's marker: its day was judged
        with the segments, and when they were stored is not known any more.
        """
        marks = (piece for piece in self._facts.pieces if piece.kind is Kind.READ)
        older = [
            piece.until_ms
            for piece in (*self.evidence, *marks)
            if piece.kind is not Kind.END
            and piece.continuity is Continuity.PROVEN
            and piece.stored_ms is not None
            and skip.follows(piece.stored_ms)
        ]
        cleared = (
            piece.interval
            for piece in self.evidence
            if piece.kind in _JUDGED and piece.stored_ms is not None and piece.stored_ms > skip.stored_ms
        )
        blocked = Interval(max(older, default=BIRTH), skip.stored_ms + ARRIVAL_STEP_BACK_MS)
        return difference([blocked], cleared)

    def _adoption(self) -> int | None:
        """Return when the shard was adopted, if nothing was archived before; STREAM leaves out records before it."""
        adoptions = (piece for piece in self._facts.pieces if piece.kind is Kind.ADOPTED)
        stored = [piece.stored_ms for piece in adoptions if piece.stored_ms is not None]
        if not stored or (self._chain.nodes and self._chain.adopted is None):
            return None
        adopted_ms = min(stored) - ARRIVAL_STEP_BACK_MS
        archived = (piece for piece in self.evidence if piece.kind not in {Kind.ADOPTED, Kind.STREAM})
        return None if any(piece.until_ms < adopted_ms for piece in archived) else adopted_ms
