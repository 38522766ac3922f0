"""The chain of one shard over one day: the neighbours it needs, overlaps, joints, start and end. Pure.

Sequence numbers are not dense, so numbers alone never show that something is missing; what segments say they come
after does. `minutebook.coverage.joints` says how two are joined; of that the audit makes findings:

    before.last >= first ................ overlapping_segments   (the joint says nothing then)
    HEAD ................................ fine, if start.json says the same; else missing_start
    FOLLOWS ............................. fine
    RESTARTS, continuity unproven ....... fine                   (adopted gap: coverage says what it leaves open)
    RESTARTS, as start.json says ........ fine                   (what lies before was archived later: coverage again)
    after == another segment's after .... forked_chain
    after == an earlier segment's last .. fine                   (what lies between is reported where it forks)
    anything else ....................... broken_chain           (a segment between the two is missing), unless the
                                                                 position was expired, or may have been

Where no later segment follows the tail, the end marker and KCL's checkpoint must not name more. That nothing came
behind the tail, they cannot prove: coverage judges that, by times.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from statistics import median_low
from typing import Final, Literal, NamedTuple

from compaction.inventory.neighbours import ChainLink, NeighbourQuery, SearchReach
from compaction.inventory.segments import ArchivedSegment, GoneSegment
from compaction.inventory.shard_markers import ShardMarkers
from compaction.inventory.tombstones import ExpiredSpan
from compaction.verdict.audit_document import Shard
from compaction.verdict.basis import digest_of_lines
from compaction.verdict.findings import Code, Finding, finding
from minutebook.coverage.joints import Joint, joint_of
from minutebook.format.arrival import MIDNIGHT_EDGE_MS
from minutebook.format.day import Day
from minutebook.format.markers import EndMarker
from minutebook.format.metadata import ChainStart, SegmentMetadata
from minutebook.format.minute import MINUTE_MS, minute_text
from minutebook.format.position import Position

_EDGE_MINUTES: Final = MIDNIGHT_EDGE_MS // MINUTE_MS
StartProof = Literal["start.json", "link", "tombstone", ""]
"""What proves the start of a shard's day; '' when nothing does."""
EndProof = Literal["successor", "end.json", "checkpoint", "not begun", ""]
"""What proves that nothing is missing behind the tail; '' when nothing does."""


PUBLISHED_AND_GONE: Final = "published_and_gone"
"""The reason of a finding that a comparison with what was published shows, and the archive alone does not."""
_Member = SegmentMetadata | ExpiredSpan


class JudgedMinutes(NamedTuple):
    """The minutes that are judged, from `first` up to `end`: those of a day, or of a day so far."""

    first: int
    end: int

    def __contains__(self, minute: object) -> bool:
        return isinstance(minute, int) and self.first <= minute < self.end


class ShardProof(NamedTuple):
    """What is proven about one shard's day."""

    start: StartProof
    end: EndProof


class ChainResult(NamedTuple):
    """Findings and proof of one shard. `tail` is the last segment that is known of it when the scope ends."""

    findings: tuple[Finding, ...]
    proof: ShardProof
    tail: ChainLink | None = None


class ShardContext(NamedTuple):
    """What is known of a shard besides its segments.

    `checkpoint` is KCL's, read before anything was listed. `holes` are the first positions of objects that are
    reported by themselves and have no metadata to link: what they should join is not reported a second time.
    `expired` are the runs of days around this one whose segments were deleted on purpose, by their tombstones and in
    order, and `unread` those of these days whose tombstone cannot be read. `gone` are segments that the day was last
    published clean with, and that are not there: their first records were archived.
    """

    shard_id: str
    markers: ShardMarkers
    checkpoint: Position | None
    reach: SearchReach
    holes: tuple[Position, ...] = ()
    expired: tuple[ExpiredSpan, ...] = ()
    unread: tuple[Day, ...] = ()
    gone: tuple[GoneSegment, ...] = ()

    def unread_between(self, low: int | None, high: int) -> Day | None:
        """Return a day that lies between two minutes, and whose tombstone cannot be read; None: no bound."""
        for day in self.unread:
            begin, end = day.first_minute - _EDGE_MINUTES, day.shift(1).first_minute + _EDGE_MINUTES
            if begin <= high and (low is None or low < end):
                return day
        return None

    def has_hole(self, low: Position | None, high: Position | None) -> bool:
        """Return whether a hole lies between two positions; None: no bound on that side."""
        return any((low is None or hole > low) and (high is None or hole < high) for hole in self.holes)


def maybe_living_shards(day: Day, shards: Mapping[str, ShardMarkers], lookback_days: int) -> list[str]:
    """Return the shards without a segment of the day that are judged all the same: those that may have lived then.

    Not those whose end was proven before the day began, and not those that were begun long after it: had they had
    records on this day, the link of their first remaining segment would be broken, and its own day says so.
    """
    begin, much_later = str(day), str(day.shift(1 + lookback_days))
    return [
        shard
        for shard, markers in shards.items()
        # ISO 8601: text order is time order.
        if (markers.end is None or markers.end.written_at >= begin)
        and (markers.start is None or markers.start.written_at < much_later)
    ]


def neighbour_query(segments: Sequence[ArchivedSegment], markers: ShardMarkers) -> NeighbourQuery:
    """Return what a shard needs of the days around."""
    if not segments:
        return NeighbourQuery(None, None, before=markers.start is not None, after=markers.start is not None)
    chain = sorted(segments, key=lambda segment: segment.metadata.first)
    before = chain[0].metadata.after
    tail = max(segment.metadata.last for segment in segments)
    ends = markers.end is not None and markers.end.last_position() == tail
    return NeighbourQuery(
        chain[0].metadata.first,
        chain[-1].metadata.first,
        before=not isinstance(before, ChainStart),
        after=not ends,
        stands_on=before if isinstance(before, Position) else None,
    )


def with_evidence(
    query: NeighbourQuery, markers: ShardMarkers, marked: Iterable[Position], checkpoint: Position | None
) -> NeighbourQuery:
    """Return the query of a shard; where it has no segment of the day, evidence says where its chain stood.

    `marked` are the positions that its read marks stand on.
    """
    if query.low is not None:
        return query
    end = None if markers.end is None else markers.end.last_position()
    positions = [position for position in (end, checkpoint, *marked) if position is not None]
    return query._replace(stands_on=max(positions, default=None))


def check_chain(span: JudgedMinutes, links: Sequence[ChainLink], context: ShardContext) -> ChainResult:
    """Judge one shard: its links of the span, with the neighbours before and after."""
    chain = sorted(links, key=lambda link: (link.metadata.first, link.metadata.last, link.key))
    check = _Check(span, context, chain)
    previous: ChainLink | None = None
    for link in chain:
        if (
            link.metadata.minute in span
            or (previous is not None and previous.metadata.minute in span)
            or _spans(span, previous, link)
        ):
            check.join(previous, link)
        if previous is None or link.metadata.last > previous.metadata.last:
            previous = link
    return check.end()


def _spans(span: JudgedMinutes, before: ChainLink | None, after: ChainLink) -> bool:
    """Return whether the span lies between two neighbours: a joint over an empty day."""
    return before is not None and before.metadata.minute < span.first <= after.metadata.minute


class _Check:
    def __init__(self, span: JudgedMinutes, context: ShardContext, chain: Sequence[ChainLink]) -> None:
        self._span = span
        self._context = context
        self._chain = chain
        self._claims = Counter(link.metadata.after for link in chain)
        self._ends = {link.metadata.last for link in chain}
        self._findings: list[Finding] = []
        self._torn: list[tuple[Position | None, Position | None]] = []
        self._start: StartProof = ""

    def join(self, before: ChainLink | None, link: ChainLink) -> None:
        joint = joint_of(None if before is None else before.metadata, link.metadata)
        if before is not None and link.metadata.first <= before.metadata.last:
            self._overlap(before, link)
        elif joint is Joint.HEAD:
            self._head(link)
        elif joint is Joint.FOLLOWS:
            self._start = self._start or "link"
        elif joint is Joint.RESTARTS and link.metadata.is_doubtful:
            pass  # an adopted gap: coverage says so
        elif joint is Joint.RESTARTS and self._is_recorded_start(link):
            pass  # KCL had skipped what lies before, and it was archived later: coverage calls that unproven
        elif joint is not Joint.ORPHAN and self._claims[link.metadata.after] > 1:
            self._fork(link)
        elif joint is Joint.ORPHAN or link.metadata.after not in self._ends:
            self._missing(before, link)

    def _head(self, link: ChainLink) -> None:
        """Compare the first segment that is known of the shard with start.json."""
        after = link.metadata.after
        marker = self._context.markers.start
        self._torn.append((None, link.metadata.first))
        if self._context.has_hole(None, link.metadata.first):
            return
        if marker is None:
            if "start.json" not in self._context.markers.unreadable:
                self._add(Code.MISSING_START, "start.json is missing", link, [link.metadata.first])
            return
        if self._is_recorded_start(link):
            self._start = "start.json"
            self._torn.pop()
        elif not link.metadata.is_doubtful:
            self._add(
                Code.MISSING_START,
                f"start.json begins at {marker.first} ({marker.sentinel}), the first segment at "
                f"{link.metadata.first} ({after})",
                link,
                [link.metadata.first],
            )

    def _is_recorded_start(self, link: ChainLink) -> bool:
        """Return whether start.json names the segment."""
        marker = self._context.markers.start
        begun = None if marker is None else (marker.first_position(), marker.chain_start())
        return begun == (link.metadata.first, link.metadata.after)

    def _missing(self, before: ChainLink | None, link: ChainLink) -> None:
        """Judge a segment that comes after a position at which no known one ends."""
        context, after, first = self._context, link.metadata.after, link.metadata.first
        edge = after if before is None else before.metadata.last
        positions = [position for position in (edge, first) if isinstance(position, Position)]
        low = None if before is None else before.metadata.last
        if context.has_hole(low, first):
            self._torn.append((low, first))
            return
        if self._is_expired_between(before, link):
            if before is None or before.metadata.minute < self._span.first:
                self._start = self._start or "tombstone"
            return
        self._torn.append((low, first))
        unread = context.unread_between(None if before is None else before.metadata.minute, link.metadata.minute)
        if unread is not None:
            message = (
                f"comes after {after}, which may have been expired with {unread}: the tombstone of that day "
                "cannot be read"
            )
            self._add(Code.MISSING_START, message, link, positions, unknown=True)
        elif before is not None:
            self._add(
                Code.BROKEN_CHAIN,
                f"comes after {after}, and the segment before it ends at {edge}: what lies between is missing",
                link,
                positions,
                keys=[before.key, link.key],
                between=(self._known_before(before, first), first),
            )
        elif context.reach.to_the_beginning:
            message = f"no segment ends at {after}, after which this one says it comes"
            self._add(Code.BROKEN_CHAIN, message, link, positions, between=(self._known_before(None, first), first))
        else:
            message = (
                f"no segment that ends at {after} was found in the days that were searched; --lookback searches more"
            )
            self._add(Code.MISSING_START, message, link, positions, unknown=True)

    def _known_before(self, before: ChainLink | None, first: Position) -> Position | None:
        """Return up to where the archive holds or held what lies before a position: what is missing begins there."""
        lasts = [run.span.last for run in self._context.expired if run.first < first]
        return max([*lasts, *([] if before is None else [before.metadata.last])], default=None)

    def _is_expired_between(self, before: ChainLink | None, link: ChainLink) -> bool:
        """Return whether what is missing between two segments was expired, as far as it concerns the span.

        Runs between the two are members of the chain, as segments are.
        """
        first, last = link.metadata.first, None if before is None else before.metadata.last
        between = [run for run in self._context.expired if run.first < first and (last is None or run.first > last)]
        members: list[_Member] = [*between, link.metadata]
        known: list[_Member | None] = [None if before is None else before.metadata, *between]
        return all(map(self._is_expired_joint, known, members))

    def _is_expired_joint(self, before: _Member | None, member: _Member) -> bool:
        """Return whether nothing is missing between two members, or it is the matter of the days on one side.

        A member may also go back to a position within an expired run, as it may to an earlier segment's end.
        """
        span = self._span
        if before is None:
            is_elsewhere, is_next = member.minute < span.first, isinstance(member.after, ChainStart)
        else:
            minutes = (before.minute, member.minute)
            is_elsewhere, is_next = max(minutes) < span.first or min(minutes) >= span.end, member.after == before.last
        return is_elsewhere or is_next or any(member.after in run for run in self._context.expired)

    def _overlap(self, before: ChainLink, link: ChainLink) -> None:
        self._add(
            Code.OVERLAPPING_SEGMENTS,
            f"{link.metadata.span} overlaps {before.metadata.span}",
            link,
            [link.metadata.first, min(before.metadata.last, link.metadata.last)],
            keys=[before.key, link.key],
        )
        if link.metadata.after == before.metadata.after:
            self._fork(link)

    def _fork(self, link: ChainLink) -> None:
        self._add(
            Code.FORKED_CHAIN,
            f"another segment comes after {link.metadata.after} too: two writers both committed",
            link,
            [link.metadata.first],
        )

    def end(self) -> ChainResult:
        """Judge the end: a successor, the end marker or the checkpoint must name the tail."""
        later = [link for link in self._chain if link.metadata.minute >= self._span.end]
        tail = max(
            (link for link in self._chain if link.metadata.minute < self._span.end),
            key=lambda link: link.metadata.last,
            default=None,
        )
        proof: EndProof
        if tail is None and later:
            # A day before the first known segment: the shard had not begun, or something is missing.
            is_begun = isinstance(later[0].metadata.after, Position)
            if is_begun:
                self._missing(None, later[0])
            proof = "" if is_begun else "not begun"
        elif tail is not None and later and later[-1].metadata.first > tail.metadata.last:
            proof = "successor"
        else:
            proof, findings = prove_end(tail, self._context)
            self._findings += findings
            self._torn += [(_last(tail), None)] if findings else []
        self._find_gone()
        return ChainResult(tuple(self._findings), ShardProof(self._start, proof), tail)

    def _find_gone(self) -> None:
        """Report published segments that are gone, if nothing holds their first record, and no torn link says so."""
        spans = sorted([*(link.metadata.span for link in self._chain), *(run.span for run in self._context.expired)])
        firsts = [span.first for span in spans]
        reached = list(accumulate((span.last for span in spans), max))
        for segment in self._context.gone:
            first, at = segment.first, bisect_right(firsts, segment.first)
            is_held = at > 0 and reached[at - 1] >= first
            if is_held or any(
                (low is None or low < first) and (high is None or first < high) for low, high in self._torn
            ):
                continue
            self._findings.append(
                finding(
                    Code.BROKEN_CHAIN,
                    "it was published in a clean day and is gone, and no object holds its first record",
                    shard=self._context.shard_id,
                    minute=minute_text(segment.minute),
                    keys=[segment.key],
                    positions=[first],
                    reasons=(PUBLISHED_AND_GONE,),
                )
            )

    def _add(
        self,
        code: Code,
        message: str,
        link: ChainLink,
        positions: Sequence[Position],
        *,
        keys: Sequence[str] = (),
        unknown: bool = False,
        between: tuple[Position | None, Position] | None = None,
    ) -> None:
        self._findings.append(
            finding(
                code,
                message,
                severity="unknown" if unknown else "defect",
                shard=self._context.shard_id,
                minute=minute_text(link.metadata.minute),
                keys=keys or [link.key],
                positions=positions,
                contents=() if between is None else _between(*between),
            )
        )


class End(NamedTuple):
    """What proves the end, and what is wrong with it."""

    proof: EndProof
    findings: tuple[Finding, ...] = ()


def prove_end(tail: ChainLink | None, context: ShardContext) -> End:
    """Compare the last segment that is known with what the end marker and the checkpoint say.

    A position that lies beyond the tail proves a loss only when nothing later is stored: without a later segment, and
    with the archive searched to its end.
    """
    if context.has_hole(_last(tail), None) or "end.json" in context.markers.unreadable:
        return End("")
    marker = context.markers.end
    if marker is not None:
        return _by_marker(tail, context, marker)
    return _by_checkpoint(tail, context)


def _by_marker(tail: ChainLink | None, context: ShardContext, marker: EndMarker) -> End:
    named, last = marker.last_position(), _last(tail)
    # What one delivery left out another one may have brought: an aggregate of another shard's.
    if named != last and (last is None or str(last.sequence) not in marker.undelivered):
        return _gap(tail, context, "end.json", named)
    if marker.proof != "read":
        return End("")
    return End("end.json")


def _by_checkpoint(tail: ChainLink | None, context: ShardContext) -> End:
    last, checkpoint = _last(tail), context.checkpoint
    if checkpoint is not None and checkpoint == last:
        return End("checkpoint")
    if checkpoint is not None and (last is None or checkpoint > last):
        return _gap(tail, context, "KCL's checkpoint", checkpoint)
    return End("")


def _gap(tail: ChainLink | None, context: ShardContext, source: str, named: Position | None) -> End:
    reach = context.reach
    if not reach.to_the_end or (tail is None and not reach.to_the_beginning):
        return End("")
    message = f"{source} names {named}, and the last segment ends at {_last(tail)}: what lies between is missing"
    broken = finding(
        Code.BROKEN_CHAIN,
        message,
        shard=context.shard_id,
        minute=None if tail is None else minute_text(tail.metadata.minute),
        keys=[] if tail is None else [tail.key],
        positions=[position for position in (_last(tail), named) if position is not None],
        contents=_between(_last(tail), named),
    )
    return End("", (broken,))


def _between(last: Position | None, following: Position | None) -> tuple[str, ...]:
    """Return the contents of a finding: what is missing between two positions. More of it is another finding."""
    return (digest_of_lines([f"{last} {following}"]),)


def _last(tail: ChainLink | None) -> Position | None:
    return None if tail is None else tail.metadata.last


def shard_row(
    shard: str, segments: Sequence[ArchivedSegment], result: ChainResult, arrival_step_back_ms: int
) -> Shard:
    """Return a shard's row of the table."""
    lags = sorted(max(0, segment.row.last_modified_ms - segment.metadata.arrival_max_ms) for segment in segments)
    return Shard(
        shard=shard,
        objects=len(segments),
        records=sum(segment.metadata.records for segment in segments),
        bytes=sum(segment.row.size for segment in segments),
        payload_bytes=sum(segment.metadata.payload_bytes for segment in segments),
        first=str(min(segment.metadata.first for segment in segments)) if segments else None,
        last=str(max(segment.metadata.last for segment in segments)) if segments else None,
        lag_ms_median=median_low(lags) if lags else None,
        lag_ms_max=lags[-1] if lags else None,
        start_proof=result.proof.start,
        end_proof=result.proof.end,
        arrival_step_back_ms=arrival_step_back_ms,
    )
