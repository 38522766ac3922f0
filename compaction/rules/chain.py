"""The chain of one shard over one day: overlaps, links, start and end. Pure.

Sequence numbers are not dense, so numbers alone never show that something is missing; links do. A link is judged
between neighbours in the order of positions:

    before.last >= first ................ overlapping_segments   (the link says nothing then)
    after == before.last ................ fine
    after is a start, continuity unproven   fine                  (adopted gap: coverage says what it leaves open)
    after == another segment's after ..... forked_chain
    after == an earlier segment's last .... fine                  (what lies between is reported where it forks)
    anything else ....................... broken_chain           (a segment between the two is missing)
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from archive.format.day import Day
from archive.format.metadata import ChainStart
from archive.format.minute import minute_text
from archive.format.position import Position
from compaction.inventory.neighbours import Link
from compaction.rules.chain_end import prove_end
from compaction.rules.evidence import ChainResult, EndProof, ShardContext, ShardProof, StartProof
from compaction.verdict.findings import Code, Finding, finding


class Span(NamedTuple):
    """The minutes that are judged, from `first` up to `end`: those of a day, of a day so far, or of an hour."""

    first: int
    end: int

    def __contains__(self, minute: object) -> bool:
        return isinstance(minute, int) and self.first <= minute < self.end


def check_chain(span: Span, links: Sequence[Link], context: ShardContext) -> ChainResult:
    """Judge one shard: its links of the span, with the neighbours before and after."""
    chain = sorted(links, key=lambda link: (link.metadata.first, link.metadata.last, link.key))
    check = _Check(span, context, chain)
    previous: Link | None = None
    for link in chain:
        if (
            _concerns(span, link)
            or (previous is not None and _concerns(span, previous))
            or _spans(span, previous, link)
        ):
            check.joint(previous, link)
        if previous is None or link.metadata.last > previous.metadata.last:
            previous = link
    return check.end()


def _concerns(span: Span, link: Link) -> bool:
    return link.metadata.minute in span


def _spans(span: Span, before: Link | None, after: Link) -> bool:
    """Tell whether the span lies between two neighbours: a joint over an empty day."""
    return before is not None and before.metadata.minute < span.first <= after.metadata.minute


class _Check:
    def __init__(self, span: Span, context: ShardContext, chain: Sequence[Link]) -> None:
        self._span = span
        self._context = context
        self._chain = chain
        self._claims = Counter(link.metadata.after for link in chain)
        self._ends = {link.metadata.last for link in chain}
        self._findings: list[Finding] = []
        self._start: StartProof = ""

    def joint(self, before: Link | None, link: Link) -> None:
        if before is None:
            self._first(link)
        elif link.metadata.first <= before.metadata.last:
            self._overlap(before, link)
        elif link.metadata.after == before.metadata.last:
            self._start = self._start or "link"
        elif isinstance(link.metadata.after, ChainStart) and link.metadata.is_doubtful:
            pass  # an adopted gap: coverage says so
        elif self._claims[link.metadata.after] > 1:
            self._fork(link)
        elif link.metadata.after not in self._ends:
            self._broken(before, link)

    def _first(self, link: Link) -> None:
        """Judge the first segment that is known of the shard."""
        after = link.metadata.after
        if isinstance(after, Position):
            self._no_predecessor(link, after)
            return
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

    def _was_expired(self, after: Position | ChainStart) -> bool:
        if not any(after in run for run in self._context.expired):
            return False
        self._start = self._start or "tombstone"
        return True

    def _no_predecessor(self, link: Link, after: Position) -> None:
        if self._context.has_hole(None, link.metadata.first) or self._was_expired(after):
            return
        unread = self._context.unread_between(None, link.metadata.minute)
        if unread is not None:
            self._may_be_expired(unread, link, [after, link.metadata.first])
            return
        if self._context.reach.to_the_beginning:
            self._add(
                Code.BROKEN_CHAIN,
                f"no segment ends at {after}, after which this one says it comes",
                link,
                [after, link.metadata.first],
            )
            return
        self._add(
            Code.MISSING_START,
            f"no segment that ends at {after} was found in the days that were searched; --lookback searches more",
            link,
            [after, link.metadata.first],
            unknown=True,
        )

    def _overlap(self, before: Link, link: Link) -> None:
        self._add(
            Code.OVERLAPPING_SEGMENTS,
            f"{link.metadata.span} overlaps {before.metadata.span}",
            link,
            [link.metadata.first, min(before.metadata.last, link.metadata.last)],
            keys=[before.key, link.key],
        )
        if link.metadata.after == before.metadata.after:
            self._fork(link)

    def _fork(self, link: Link) -> None:
        self._add(
            Code.FORKED_CHAIN,
            f"another segment comes after {link.metadata.after} too: two writers both committed",
            link,
            [link.metadata.first],
        )

    def _broken(self, before: Link, link: Link) -> None:
        at_hole = self._context.has_hole(before.metadata.last, link.metadata.first)
        if at_hole or self._was_expired(link.metadata.after):
            return
        unread = self._context.unread_between(before.metadata.minute, link.metadata.minute)
        if unread is not None:
            self._may_be_expired(unread, link, [before.metadata.last, link.metadata.first])
            return
        self._add(
            Code.BROKEN_CHAIN,
            f"comes after {link.metadata.after}, and the segment before it ends at {before.metadata.last}: "
            "what lies between is missing",
            link,
            [before.metadata.last, link.metadata.first],
            keys=[before.key, link.key],
        )

    def _may_be_expired(self, day: Day, link: Link, positions: Sequence[Position]) -> None:
        message = (
            f"comes after {link.metadata.after}, which may have been expired with {day}: the tombstone of that day "
            "cannot be read"
        )
        self._add(Code.MISSING_START, message, link, positions, unknown=True)

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
            proof = self._begins_later(later[0])
        elif tail is not None and later and later[-1].metadata.first > tail.metadata.last:
            proof = "successor"
        else:
            proof, found = prove_end(tail, self._context)
            self._findings += found
        return ChainResult(tuple(self._findings), ShardProof(self._start, proof), tail)

    def _begins_later(self, link: Link) -> EndProof:
        """Judge a day before the first known segment: the shard had not begun, or something is missing."""
        if isinstance(link.metadata.after, Position):
            self._no_predecessor(link, link.metadata.after)
            return ""
        return "not begun"

    def _add(
        self,
        code: Code,
        message: str,
        link: Link,
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
