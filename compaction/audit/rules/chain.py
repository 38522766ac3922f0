"""The chain of one shard over one day: overlaps, joints, start and end. Pure.

Sequence numbers are not dense, so numbers alone never show that something is missing; what segments say they come
after does. How two are joined is told by `minutebook.coverage.joints`; of that the audit makes findings:

    before.last >= first ................ overlapping_segments   (the joint says nothing then)
    HEAD ................................ fine, if start.json says the same; else missing_start
    FOLLOWS ............................. fine
    RESTARTS, continuity unproven ....... fine                   (adopted gap: coverage says what it leaves open)
    after == another segment's after .... forked_chain
    after == an earlier segment's last .. fine                   (what lies between is reported where it forks)
    anything else ....................... broken_chain           (a segment between the two is missing), unless the
                                                                 position was expired, or may have been

Where no later segment follows the tail, the end marker and KCL's checkpoint must not name more. That nothing came
behind the tail, they cannot prove: coverage judges that, by times.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from compaction.audit.rules.evidence import ChainResult, EndProof, ShardContext, ShardProof, StartProof
from compaction.inventory.neighbours import ChainLink
from compaction.verdict.findings import Code, Finding, finding
from minutebook.coverage.joints import Joint, joint_of
from minutebook.format.markers import EndMarker
from minutebook.format.minute import minute_text
from minutebook.format.position import Position


class JudgedMinutes(NamedTuple):
    """The minutes that are judged, from `first` up to `end`: those of a day, of a day so far, or of an hour."""

    first: int
    end: int

    def __contains__(self, minute: object) -> bool:
        return isinstance(minute, int) and self.first <= minute < self.end


def check_chain(span: JudgedMinutes, links: Sequence[ChainLink], context: ShardContext) -> ChainResult:
    """Judge one shard: its links of the span, with the neighbours before and after."""
    chain = sorted(links, key=lambda link: (link.metadata.first, link.metadata.last, link.key))
    check = _Check(span, context, chain)
    previous: ChainLink | None = None
    for link in chain:
        if (
            _concerns(span, link)
            or (previous is not None and _concerns(span, previous))
            or _spans(span, previous, link)
        ):
            check.join(previous, link)
        if previous is None or link.metadata.last > previous.metadata.last:
            previous = link
    return check.end()


def _concerns(span: JudgedMinutes, link: ChainLink) -> bool:
    return link.metadata.minute in span


def _spans(span: JudgedMinutes, before: ChainLink | None, after: ChainLink) -> bool:
    """Tell whether the span lies between two neighbours: a joint over an empty day."""
    return before is not None and before.metadata.minute < span.first <= after.metadata.minute


class _Check:
    def __init__(self, span: JudgedMinutes, context: ShardContext, chain: Sequence[ChainLink]) -> None:
        self._span = span
        self._context = context
        self._chain = chain
        self._claims = Counter(link.metadata.after for link in chain)
        self._ends = {link.metadata.last for link in chain}
        self._findings: list[Finding] = []
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
        elif joint is not Joint.ORPHAN and self._claims[link.metadata.after] > 1:
            self._fork(link)
        elif joint is Joint.ORPHAN or link.metadata.after not in self._ends:
            self._missing(before, link)

    def _head(self, link: ChainLink) -> None:
        """Compare the first segment that is known of the shard with start.json."""
        after = link.metadata.after
        marker = self._context.markers.start
        if self._context.has_hole(None, link.metadata.first):
            return
        if marker is None:
            if "start.json" not in self._context.markers.unreadable:
                self._add(Code.MISSING_START, "start.json is missing", link, [link.metadata.first])
            return
        if (marker.first_position(), marker.chain_start()) == (link.metadata.first, after):
            self._start = "start.json"
        elif not link.metadata.is_doubtful:
            self._add(
                Code.MISSING_START,
                f"start.json begins at {marker.first} ({marker.sentinel}), the first segment at "
                f"{link.metadata.first} ({after})",
                link,
                [link.metadata.first],
            )

    def _missing(self, before: ChainLink | None, link: ChainLink) -> None:
        """Judge a segment that comes after a position at which no known one ends."""
        context, after, first = self._context, link.metadata.after, link.metadata.first
        edge = after if before is None else before.metadata.last
        positions = [position for position in (edge, first) if isinstance(position, Position)]
        if context.has_hole(None if before is None else before.metadata.last, first):
            return
        if isinstance(after, Position) and any(after in run for run in context.expired):
            self._start = self._start or "tombstone"
            return
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
            )
        elif context.reach.to_the_beginning:
            message = f"no segment ends at {after}, after which this one says it comes"
            self._add(Code.BROKEN_CHAIN, message, link, positions)
        else:
            message = (
                f"no segment that ends at {after} was found in the days that were searched; --lookback searches more"
            )
            self._add(Code.MISSING_START, message, link, positions, unknown=True)

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
            proof, found = prove_end(tail, self._context)
            self._findings += found
        return ChainResult(tuple(self._findings), ShardProof(self._start, proof), tail)

    def _add(
        self,
        code: Code,
        message: str,
        link: ChainLink,
        positions: Sequence[Position],
        *,
        keys: Sequence[str] = (),
        unknown: bool = False,
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
    found = finding(
        Code.BROKEN_CHAIN,
        message,
        shard=context.shard_id,
        minute=None if tail is None else minute_text(tail.metadata.minute),
        keys=[] if tail is None else [tail.key],
        positions=[position for position in (_last(tail), named) if position is not None],
    )
    return End("", (found,))


def _last(tail: ChainLink | None) -> Position | None:
    return None if tail is None else tail.metadata.last
