"""The chain of one shard over one day: overlaps, links, start and end. Pure.

Sequence numbers are not dense, so numbers alone never show that something is missing; links do. A link is judged
between neighbours in the order of positions:

    before.last >= first ................ overlapping_segments   (the link says nothing then)
    after == before.last ................ fine
    after is a start, continuity unproven  unproven_continuity   (adopted gap)
    after == another segment's after ..... forked_chain
    after == an earlier segment's last .... fine                  (what stands between is reported where it forks)
    anything else ....................... broken_chain           (a segment between the two is missing)
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from archive.metadata import ChainStart, SegmentMetadata
from archive.minute import minute_text
from archive.position import Position, SequenceRange
from compaction.day import Day
from compaction.findings import Code, Finding, finding
from compaction.inventory import ShardMarkers


class Link(NamedTuple):
    """A segment as its chain sees it. `minute` decides whether it belongs to the day or is a neighbour."""

    key: str
    metadata: SegmentMetadata


class Reach(NamedTuple):
    """How far the neighbours were looked for: whether the archive was searched to its beginning, to its end."""

    to_the_beginning: bool
    to_the_end: bool


class ShardProof(NamedTuple):
    """What is proven about one shard's day. `end` names the proof: `successor`, `end.json`, `checkpoint`, ''."""

    start: str
    end: str


class ChainResult(NamedTuple):
    """Findings and proof of one shard."""

    findings: tuple[Finding, ...]
    proof: ShardProof


class ShardContext(NamedTuple):
    """What is known of a shard beside its segments.

    `checkpoint` is KCL's, read before anything was listed. `holes` are the first positions of objects that are
    reported by themselves and have no metadata to link: what they should join is not reported a second time.
    `expired` are the runs of days before this one whose segments were deleted on purpose, by their tombstones.
    """

    shard_id: str
    markers: ShardMarkers
    checkpoint: Position | None
    reach: Reach
    holes: tuple[Position, ...] = ()
    expired: tuple[SequenceRange, ...] = ()


def check_chain(day: Day, links: Sequence[Link], context: ShardContext) -> ChainResult:
    """Judge one shard: its links of the day, with the neighbours before and after."""
    chain = sorted(links, key=lambda link: (link.metadata.first, link.metadata.last, link.key))
    check = _Check(day, context, chain)
    previous: Link | None = None
    for link in chain:
        if _concerns(day, link) or (previous is not None and _concerns(day, previous)) or _spans(day, previous, link):
            check.joint(previous, link)
        if previous is None or link.metadata.last > previous.metadata.last:
            previous = link
    return check.end()


def _concerns(day: Day, link: Link) -> bool:
    return link.metadata.minute in day


def _spans(day: Day, before: Link | None, after: Link) -> bool:
    """Tell whether the day lies between two neighbours: a joint over an empty day."""
    return before is not None and before.metadata.minute < day.first_minute <= after.metadata.minute


class _Check:
    def __init__(self, day: Day, context: ShardContext, chain: Sequence[Link]) -> None:
        self._day = day
        self._context = context
        self._chain = chain
        self._claims = Counter(link.metadata.after for link in chain)
        self._ends = {link.metadata.last for link in chain}
        self._findings: list[Finding] = []
        self._start = ""

    def joint(self, before: Link | None, link: Link) -> None:
        if before is None:
            self._first(link)
        elif link.metadata.first <= before.metadata.last:
            self._overlap(before, link)
        elif link.metadata.after == before.metadata.last:
            self._start = self._start or "link"
        elif isinstance(link.metadata.after, ChainStart) and link.metadata.continuity is not None:
            pass  # an adopted gap: the continuity below says so
        elif self._claims[link.metadata.after] > 1:
            self._fork(link)
        elif link.metadata.after not in self._ends:
            self._broken(before, link)
        self._continuity(link)

    def _first(self, link: Link) -> None:
        """Judge the first segment that is known of the shard."""
        after = link.metadata.after
        if isinstance(after, Position):
            self._no_predecessor(link, after)
            return
        marker = self._context.markers.start
        if self._hole(None, link.metadata.first):
            return
        if marker is None:
            if "start.json" not in self._context.markers.unreadable:
                self._add(Code.MISSING_START, "start.json is missing", link, [link.metadata.first])
            return
        if (marker.first_position(), marker.chain_start()) == (link.metadata.first, after):
            self._start = "start.json"
        elif link.metadata.continuity is None:
            self._add(
                Code.MISSING_START,
                f"start.json begins at {marker.first} ({marker.sentinel}), the first segment at "
                f"{link.metadata.first} ({after})",
                link,
                [link.metadata.first],
            )

    def _hole(self, low: Position | None, high: Position | None) -> bool:
        return any((low is None or hole > low) and (high is None or hole < high) for hole in self._context.holes)

    def _was_expired(self, after: Position | ChainStart) -> bool:
        if not any(after in run for run in self._context.expired):
            return False
        self._start = self._start or "tombstone"
        return True

    def _no_predecessor(self, link: Link, after: Position) -> None:
        if self._hole(None, link.metadata.first) or self._was_expired(after):
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
        if self._hole(before.metadata.last, link.metadata.first) or self._was_expired(link.metadata.after):
            return
        self._add(
            Code.BROKEN_CHAIN,
            f"comes after {link.metadata.after}, and the segment before it ends at {before.metadata.last}: "
            "what lies between is missing",
            link,
            [before.metadata.last, link.metadata.first],
            keys=[before.key, link.key],
        )

    def _continuity(self, link: Link) -> None:
        if not _concerns(self._day, link) or link.metadata.continuity is None:
            return
        if link.metadata.continuity == "lost":
            self._add(
                Code.BROKEN_CHAIN,
                f"records between {link.metadata.after} and this segment were trimmed before they were read",
                link,
                [link.metadata.first],
            )
            return
        self._add(
            Code.UNPROVEN_CONTINUITY,
            f"records between {link.metadata.after} and this segment may have been trimmed before they were read",
            link,
            [link.metadata.first],
            unknown=True,
        )

    def end(self) -> ChainResult:
        """Judge the end: a successor, the end marker or the checkpoint must name the tail."""
        after_day = self._day.shift(1).first_minute
        later = [link for link in self._chain if link.metadata.minute >= after_day]
        tail = max(
            (link for link in self._chain if link.metadata.minute < after_day),
            key=lambda link: link.metadata.last,
            default=None,
        )
        if tail is None and later:
            proof = self._begins_later(later[0])
        elif tail is not None and later and later[-1].metadata.first > tail.metadata.last:
            proof = "successor"
        else:
            proof = self._outside(tail)
        return ChainResult(tuple(self._findings), ShardProof(self._start, proof))

    def _begins_later(self, link: Link) -> str:
        """Judge a day before the first known segment: the shard had not begun, or something is missing."""
        if isinstance(link.metadata.after, Position):
            self._no_predecessor(link, link.metadata.after)
            return ""
        return "not begun"

    def _outside(self, tail: Link | None) -> str:
        """Compare the tail with what the end marker and the checkpoint say.

        A position that lies beyond the tail proves a loss only when nothing later is stored: without a later
        segment, and with the archive searched to its end.
        """
        last = None if tail is None else tail.metadata.last
        if self._hole(last, None) or "end.json" in self._context.markers.unreadable:
            return ""
        marker = self._context.markers.end
        if marker is not None:
            named = _position(marker.last)
            if named == last:
                if marker.proof == "read":
                    return "end.json"
                self._unproven(tail, "end.json says that the shard was closed longer ago than its retention")
            else:
                self._gap(tail, "end.json", named)
            return ""
        checkpoint = self._context.checkpoint
        if checkpoint is not None and checkpoint == last:
            return "checkpoint"
        if checkpoint is not None and (last is None or checkpoint > last):
            self._gap(tail, "KCL's checkpoint", checkpoint)
        else:
            self._unproven(tail, "no later segment, no end.json, and no checkpoint of KCL at this position")
        return ""

    def _gap(self, tail: Link | None, witness: str, named: Position | None) -> None:
        reach = self._context.reach
        if not reach.to_the_end or (tail is None and not reach.to_the_beginning):
            self._unproven(tail, f"{witness} names {named}, which was not found in the days that were searched")
            return
        last = None if tail is None else tail.metadata.last
        self._findings.append(
            finding(
                Code.BROKEN_CHAIN,
                f"{witness} names {named}, and the last segment ends at {last}: what lies between is missing",
                shard=self._context.shard_id,
                minute=None if tail is None else minute_text(tail.metadata.minute),
                keys=[] if tail is None else [tail.key],
                positions=[position for position in (last, named) if position is not None],
            )
        )

    def _unproven(self, tail: Link | None, why: str) -> None:
        self._findings.append(
            finding(
                Code.UNPROVEN_END,
                why,
                severity="unknown",
                shard=self._context.shard_id,
                minute=None if tail is None else minute_text(tail.metadata.minute),
                keys=[] if tail is None else [tail.key],
                positions=[] if tail is None else [tail.metadata.last],
            )
        )

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


def _position(text: str | None) -> Position | None:
    return None if text is None else Position.parse(text)
