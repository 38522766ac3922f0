"""Evidence: the statement of one durable object about a shard and a time.

A piece of evidence states an interval `(from, until]`, a position (or none) and a continuity. *Proven* means:
everything that arrived on the shard in the interval lies at or before the position, and is archived. Any other
continuity covers nothing and only begins a new interval at its `until`; it never cancels other evidence. The one
exception is a *loss*: level `stream` saw records of its interval in the stream that were not archived, so nothing
proves that interval until a later comparison answers it (`unanswered`).

    segment   until = start of its minute - 60 s, not its greatest arrival time: arrival times step back in a shard
              an interval that it begins (nothing proves what lies before) opens at the start of its minute + 120 s
    mark      until = the service's time before the last request was sent, less a minute
    end       the same; proven, it covers its shard for ever
    adopted   begins at the time of its write, less a minute
    expired   a proven interval that a tombstone kept of a day whose segments `minutebook expire` deleted
"""

import enum
from collections.abc import Iterable
from itertools import pairwise
from operator import attrgetter
from typing import Final, NamedTuple

from minutebook.coverage.intervals import FOREVER, Interval
from minutebook.format.arrival import ARRIVAL_STEP_BACK_MS
from minutebook.format.metadata import Continuity, Predecessor, SegmentMetadata
from minutebook.format.minute import DAY_MS, MINUTE_MS
from minutebook.format.position import Position
from minutebook.format.read_mark import MarkKind, ReadMark

SURELY_HELD_MS: Final = 24 * 60 * MINUTE_MS - 5 * MINUTE_MS
"""Records of this age are not trimmed under any retention: the least is 24 h; 5 min are a margin."""


class Kind(enum.StrEnum):
    """The source of a piece of evidence."""

    SEGMENT = "segment"
    READ = "read"
    END = "end"
    STREAM = "stream"
    ADOPTED = "adopted"
    EXPIRED = "expired"


class Evidence(NamedTuple):
    """One piece of evidence. `stored_ms` is its object's LastModified, None if unknown."""

    shard_id: str
    kind: Kind
    from_ms: int
    until_ms: int
    position: Position | None
    continuity: Continuity
    stored_ms: int | None = None

    @property
    def interval(self) -> Interval:
        """The times that it covers if the chain supports it: none, unless it is proven."""
        until_ms = FOREVER if self.kind is Kind.END else self.until_ms
        return Interval(self.from_ms if self.continuity is Continuity.PROVEN else self.until_ms, until_ms)

    @property
    def is_loss(self) -> bool:
        """Return whether records that arrived in the interval were in the stream and not in the archive."""
        return self.kind is Kind.STREAM and self.continuity is Continuity.LOST


class EvidenceLink(NamedTuple):
    """A member of a shard's chain: a segment, or a run of expired segments in a tombstone.

    `until_ms` is what it proves by itself, `begins_ms` the start of an interval that it begins. `run` is the
    processor run that wrote it (None: unknown). `claim` is the continuity in its metadata, or None; `from_ms` the
    `from` of a proven one.
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
        """Return whether, by its own claim, records before it are or may be missing."""
        return self.claim in {Continuity.UNPROVEN, Continuity.LOST}


_CLAIMS: Final = (Continuity.PROVEN, None, Continuity.UNPROVEN, Continuity.LOST)


def in_order(links: Iterable[EvidenceLink]) -> list[EvidenceLink]:
    """Return links in the order of their chain, independent of the order of the argument.

    Of two with the same positions, for example in a slot with two compressions, the one with the stronger claim comes
    first, and the chain uses that one: the weaker one cancels nothing.
    """
    chain = sorted(links, key=attrgetter("first", "last"))
    has_doubles = any(link.last == after.last and link.first == after.first for link, after in pairwise(chain))
    return sorted(chain, key=_sort_key) if has_doubles else chain


def _sort_key(link: EvidenceLink) -> tuple[object, ...]:
    claim, from_ms = _CLAIMS.index(link.claim), link.from_ms or 0
    ties = (str(link.kind), str(link.after), link.run or "", link.begins_ms, link.arrival_min_ms, link.stored_ms or 0)
    return (link.first, link.last, claim, link.until_ms, from_ms, *ties)


def segment_link(metadata: SegmentMetadata, stored_ms: int | None = None) -> EvidenceLink:
    """Return the link of a segment; `stored_ms` is its LastModified."""
    minute_ms = metadata.minute * MINUTE_MS
    from_ms = metadata.evidence_ms
    # Without its `evidence`, a proven continuity covers an unknown time.
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
    *,
    first: Position,
    last: Position,
    after: Predecessor,
    arrival_min_ms: int,
    until_ms: int,
    run: str | None,
    from_ms: int | None = None,
) -> EvidenceLink:
    """Return the link of a tombstone's run. `until_ms` and `run` are those of its last segment.

    No record of the run arrived before `arrival_min_ms`. From `from_ms` on it is proven, behind the link that it
    follows. None: it only allows later links to follow it. What the run covered, whatever it follows, is in the
    tombstone's intervals (`expired_evidence`).
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
        claim=Continuity.UNPROVEN if from_ms is None else Continuity.PROVEN,
        from_ms=from_ms,
    )


def mark_evidence(mark: ReadMark, stored_ms: int | None = None) -> Evidence:
    """Return the evidence of a read mark, a proof of an end, or an audit of level `stream`."""
    kind = Kind(mark.kind.value)
    return Evidence(mark.shard_id, kind, mark.from_ms, mark.until_ms, mark.position, mark.continuity, stored_ms)


def unanswered(marks: Iterable[ReadMark]) -> list[ReadMark]:
    """Return the marks without losses that a later comparison has answered, in the order given.

    An answer carries the writer of the loss, which only an audit that had read the loss can know. So it was made
    later, whatever the objects' LastModified, which a copy of the archive does not keep.
    """
    given = list(marks)
    answers = {
        mark._replace(position=None)
        for mark in given
        if mark.kind is MarkKind.STREAM and mark.continuity is Continuity.PROVEN
    }
    return [
        mark
        for mark in given
        if not mark_evidence(mark).is_loss
        or mark._replace(continuity=Continuity.PROVEN, position=None) not in answers
    ]


def adopted_evidence(shard_id: str, position: Position, *, stored_ms: int, held: bool) -> Evidence:
    """Return the evidence of an adopted checkpoint, from its write on, or a day later if its record was trimmed."""
    begins_ms = stored_ms - ARRIVAL_STEP_BACK_MS + (0 if held else DAY_MS)
    return Evidence(shard_id, Kind.ADOPTED, begins_ms, begins_ms, position, Continuity.UNPROVEN, stored_ms)


def expired_evidence(
    shard_id: str, interval: Interval, position: Position | None, stored_ms: int | None = None
) -> Evidence:
    """Return the evidence of a proven interval in a tombstone."""
    return Evidence(shard_id, Kind.EXPIRED, *interval, position, Continuity.PROVEN, stored_ms)


def ended_by_ms(pieces: Iterable[Evidence], end_stored_ms: int | None) -> int:
    """Return a time by which a shard had certainly ended; FOREVER if its end is not known.

    A closed shard accepts no records, so it needs no evidence after that time. `end.json` is written after the proof,
    so its LastModified is late enough; its `written_at` is a host's clock.
    """
    times = [piece.until_ms + 2 * ARRIVAL_STEP_BACK_MS for piece in pieces if piece.kind is Kind.END]
    if end_stored_ms is not None:
        times.append(end_stored_ms + ARRIVAL_STEP_BACK_MS)
    return min(times, default=FOREVER)


def run_of(writer: str) -> str | None:
    """Return the processor run in a writer's id, the part before its last hyphen; None if there is none."""
    return writer.rpartition("-")[0] or None
