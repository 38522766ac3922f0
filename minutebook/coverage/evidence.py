"""Evidence: what one durable object says about a shard and a time.

A piece of evidence states an interval `(from, until]`, a position (or none) and a continuity. *Proven* means:
everything that arrived on the shard in the interval lies at or before the position, and is archived. Anything else
covers nothing backwards and only begins something new at its `until`; it never harms what others cover.

    segment   until = start of its minute - 60 s, never its greatest arrival time: stamps step back inside a shard
              an interval that it begins (nothing proves what lies before) opens at the start of its minute + 120 s
    mark      until = the service's own time before the last request was sent, less a minute
    end       the same; proven, it covers its shard for ever
    adopted   begins at the time of its write, less a minute
    expired   what a tombstone keeps of a day whose segments were deleted on purpose
"""

import enum
from collections.abc import Iterable
from itertools import pairwise
from operator import attrgetter
from typing import Final, NamedTuple

from minutebook.coverage.intervals import FOREVER, Interval
from minutebook.format.arrival import ARRIVAL_STEP_BACK_MS
from minutebook.format.metadata import Continuity, Predecessor, SegmentMetadata
from minutebook.format.minute import MINUTE_MS
from minutebook.format.position import Position
from minutebook.format.read_mark import MarkKind, ReadMark

SURELY_HELD_MS: Final = 24 * 60 * MINUTE_MS - 5 * MINUTE_MS
"""What arrived so lately has not been trimmed, whatever the retention is or was: 24 h is the least, less a margin."""
_DAY_MS: Final = 24 * 60 * MINUTE_MS


class Kind(enum.StrEnum):
    """What a piece of evidence was made from."""

    SEGMENT = "segment"
    READ = "read"
    END = "end"
    STREAM = "stream"
    ADOPTED = "adopted"
    EXPIRED = "expired"


class Evidence(NamedTuple):
    """One piece. `stored_ms` is when S3 stored its object (LastModified), None where nobody asked."""

    shard_id: str
    kind: Kind
    from_ms: int
    until_ms: int
    position: Position | None
    continuity: Continuity
    stored_ms: int | None = None

    @property
    def interval(self) -> Interval:
        """The times it covers if its chain is whole: none, unless it is proven."""
        return Interval(self.from_ms if self.continuity is Continuity.PROVEN else self.until_ms, self._covers_until)

    @property
    def _covers_until(self) -> int:
        return FOREVER if self.kind is Kind.END else self.until_ms


class EvidenceLink(NamedTuple):
    """A member of a shard's chain: a segment, or a run of segments that a tombstone stands for.

    `until_ms` is what it proves by itself, `begins_ms` where an interval opens that it begins. `run` is the processor
    run that wrote it (None: its writer's id names none). `claim` is the continuity that its metadata states, None
    where it states none; `from_ms` the `from` that goes with a proven one.
    """

    kind: Kind
    first: Position
    last: Position
    after: Predecessor
    until_ms: int
    begins_ms: int
    arrival_min_ms: int
    run: str | None
    claim: Continuity | None = None
    from_ms: int | None = None
    stored_ms: int | None = None

    @property
    def is_doubtful(self) -> bool:
        """Return whether it says itself that records may be missing before it, or are."""
        return self.claim in {Continuity.UNPROVEN, Continuity.LOST}


_CLAIMS: Final = (Continuity.PROVEN, None, Continuity.UNPROVEN, Continuity.LOST)


def in_order(links: Iterable[EvidenceLink]) -> list[EvidenceLink]:
    """Return links in the order of their chain, the same for any order in which they are given.

    Of two for the same positions, as of a slot that is held twice, the one comes first that claims more, and a chain
    goes on with that one: what one of them proves, the other does not harm.
    """
    chain = sorted(links, key=attrgetter("first", "last"))
    has_doubles = any(one.last == next_one.last and one.first == next_one.first for one, next_one in pairwise(chain))
    return sorted(chain, key=_place) if has_doubles else chain


def _place(link: EvidenceLink) -> tuple[object, ...]:
    claim, from_ms = _CLAIMS.index(link.claim), link.from_ms or 0
    told = (str(link.kind), str(link.after), link.run or "", link.begins_ms, link.arrival_min_ms, link.stored_ms or 0)
    return (link.first, link.last, claim, link.until_ms, from_ms, *told)


def segment_link(metadata: SegmentMetadata, stored_ms: int | None = None) -> EvidenceLink:
    """Return the link of a segment, with the time at which S3 stored it (LastModified)."""
    minute_ms = metadata.minute * MINUTE_MS
    from_ms = metadata.evidence_ms
    # A proven continuity is stated by its `evidence`: without it nobody can tell what it covers.
    claim = None if metadata.continuity is Continuity.PROVEN and from_ms is None else metadata.continuity
    return EvidenceLink(
        Kind.SEGMENT,
        metadata.first,
        metadata.last,
        metadata.after,
        until_ms=minute_ms - ARRIVAL_STEP_BACK_MS,
        begins_ms=minute_ms + MINUTE_MS + ARRIVAL_STEP_BACK_MS,
        arrival_min_ms=metadata.arrival_min_ms,
        run=run_of(metadata.writer),
        claim=claim,
        from_ms=from_ms if claim is Continuity.PROVEN else None,
        stored_ms=stored_ms,
    )


def expired_link(
    *, first: Position, last: Position, after: Predecessor, arrival_min_ms: int, until_ms: int, run: str | None
) -> EvidenceLink:
    """Return the link of a tombstone's run. `until_ms` is that of its last segment, `run` the one that wrote that.

    `arrival_min_ms` is a time before which nothing of it arrived: when its day began.

    What the run itself covered stands in the tombstone's intervals (`expired_evidence`): the link is there so that
    later ones can follow it.
    """
    return EvidenceLink(
        Kind.EXPIRED,
        first,
        last,
        after,
        until_ms=until_ms,
        begins_ms=until_ms,
        arrival_min_ms=arrival_min_ms,
        run=run,
        claim=Continuity.UNPROVEN,
    )


def mark_evidence(mark: ReadMark, stored_ms: int | None = None) -> Evidence:
    """Return what a read mark, a proof of an end, or an audit of level `stream` says."""
    kind = {MarkKind.READ: Kind.READ, MarkKind.END: Kind.END, MarkKind.STREAM: Kind.STREAM}[mark.kind]
    return Evidence(
        mark.shard_id, kind, mark.from_ms, mark.until_ms, mark.position, mark.continuity, stored_ms=stored_ms
    )


def adopted_evidence(shard_id: str, position: Position, *, stored_ms: int, held: bool) -> Evidence:
    """Return what an adopted checkpoint says: from its write on, or a day later where its record was trimmed."""
    begins_ms = stored_ms - ARRIVAL_STEP_BACK_MS + (0 if held else _DAY_MS)
    return Evidence(shard_id, Kind.ADOPTED, begins_ms, begins_ms, position, Continuity.UNPROVEN, stored_ms)


def expired_evidence(shard_id: str, interval: Interval, position: Position | None) -> Evidence:
    """Return one proven interval that a tombstone keeps."""
    return Evidence(shard_id, Kind.EXPIRED, *interval, position, Continuity.PROVEN)


def ended_by_ms(pieces: Iterable[Evidence], end_stored_ms: int | None) -> int:
    """Return a time by which a shard had surely ended; FOREVER where nothing says that it has.

    A closed shard takes no record any more, so what was proven closed needs no evidence afterwards. `end.json` is
    written after the proof, so the time at which S3 stored it is late enough; its `written_at` is a host's clock.
    """
    times = [piece.until_ms + 2 * ARRIVAL_STEP_BACK_MS for piece in pieces if piece.kind is Kind.END]
    if end_stored_ms is not None:
        times.append(end_stored_ms + ARRIVAL_STEP_BACK_MS)
    return min(times, default=FOREVER)


def run_of(writer: str) -> str | None:
    """Return the processor run that a writer's id names: what stands before its last hyphen; None: it names none."""
    return writer.rpartition("-")[0] or None
