"""What a shard's chain says about times: the evidence of its segments, and where it stands still or is torn. Pure.

One that follows the link before it (`minutebook.coverage.joints`), and says so credibly, carries that one's `until` on.
Any other begins a new interval, and what lies between the two is open:

    FOLLOWS .......................... claim `proven` with its `from` ............. covers from there
                                       no claim, same run of one processor ........ covers from the `until` before
                                       no claim, another run, or too long after ... begins: UNDECIDED
                                       claim `unproven` or `lost` ................. begins: UNPROVEN, LOST
    HEAD, as start.json says ......... as above; `from` is the application's start, or `birth`
    GOES_BACK ........................ claim `proven`, `from` behind what it reaches  begins at its `from`: UNPROVEN
    HEAD, GOES_BACK, RESTARTS ........ claim `unproven` or `lost` ................. begins: UNPROVEN, LOST
    anything else .................... whatever it claims ......................... begins: BROKEN_CHAIN, NOT_SEEN

The third from below is a reader whose checkpoint was older than the archive, after a mark told that what lay behind
it was trimmed: it has read on from that mark.
"""

import enum
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple, Self

from minutebook.coverage.evidence import SURELY_HELD_MS, Evidence, EvidenceLink, Kind, in_order
from minutebook.coverage.intervals import Interval, union
from minutebook.coverage.joints import Joint, joint_of
from minutebook.format.metadata import ChainStart, Continuity
from minutebook.format.position import Position
from minutebook.format.read_mark import BIRTH


class Reason(enum.StrEnum):
    """Why a time is not proven."""

    NOT_COVERED = "not_covered", "no evidence reaches it"
    UNPROVEN = "unproven", "reading resumed so late that records may have been trimmed unread"
    LOST = "lost", "records were trimmed unread"
    UNDECIDED = "undecided", "a segment does not say whether it follows without a gap"
    BROKEN_CHAIN = "broken_chain", "the segment that something stands on is missing"
    NOT_SEEN = "not_seen", "the segment that something stands on lies outside of what was searched"
    CONTRADICTED = "contradicted", "evidence says that nothing followed, and a segment did"
    SKIPPED = "skipped", "KCL told of records that it skipped"
    ADOPTED = "adopted", "the shard was taken over from another application later"
    MISSING_SHARD = "missing_shard", "nobody has read the shard"
    HASH_HOLE = "hash_hole", "no known shard holds these hash keys"
    RANGE_UNKNOWN = "range_unknown", "the hash keys of a shard are not known"
    SUCCESSION_UNKNOWN = "succession_unknown", "whether the shard has ended, and what came after it, is not known"
    CIRCLE = "circle", "shards are named as their own ancestors, so nobody knows when they began and ended"
    NO_FRONTIER = "no_frontier", "no shard of the stream is known"

    meaning: str

    def __new__(cls, value: str, meaning: str) -> Self:
        """Make a member whose text is `value`."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    @property
    def is_defect(self) -> bool:
        """Tell whether something is certainly missing; else it could only not be proven."""
        return self in {Reason.LOST, Reason.BROKEN_CHAIN}


class Doubt(NamedTuple):
    """What spoils the proof of a time. `position` is where the chain, or what stands on it, is in doubt.

    `shard_id` names the shard that a doubt about the stream's shape begins with.
    """

    reason: Reason
    interval: Interval
    position: Position | None = None
    shard_id: str | None = None


class ChainView(NamedTuple):
    """What is known of one shard's chain.

    The links must go back to one whose minute begins two minutes before the scope or earlier, and forward to the
    scope's end. `begun_at` is the first position by start.json. `to_the_beginning`, `to_the_end`: nothing was left
    unsearched on that side, so what is not there is missing. `unseen`: nobody looked far enough for what ends there.
    `unread` are times of which some of the chain may have been expired, and nobody can tell what.
    """

    links: tuple[EvidenceLink, ...] = ()
    begun_at: Position | None = None
    to_the_beginning: bool = False
    to_the_end: bool = False
    unseen: frozenset[Position] = frozenset()
    unread: tuple[Interval, ...] = ()


class Node(NamedTuple):
    """One link in its place, and what it proves there: everything from `from_ms` to `until_ms`, or nothing before.

    `floor_ms`: what arrived from then on lies behind the last place before it at which the chain is torn or in
    doubt; `torn_ms`: the same for tears alone. `until_ms` carries on what it stands on.
    """

    link: EvidenceLink
    from_ms: int
    until_ms: int
    floor_ms: int
    torn_ms: int


_ALWAYS: Final = 0


class Chain:
    """One shard's links in order, and what each proves; `doubts` lie between them.

    Without `trusts_birth` a link that claims to reach back to the shard's birth proves nothing before its `until`.
    """

    def __init__(self, shard_id: str, view: ChainView, *, trusts_birth: bool = True) -> None:
        self.shard_id = shard_id
        self.nodes: list[Node] = []
        self.doubts: list[Doubt] = []
        self._view = view
        self._trusts_birth = trusts_birth
        for link in in_order(view.links):
            # A link inside the one before it is a double, which the audit reports: it carries nothing on.
            if not self.nodes or link.last > self.nodes[-1].link.last:
                self.nodes.append(self._join(self.nodes[-1] if self.nodes else None, link))
        self._lasts = [node.link.last for node in self.nodes]

    @property
    def intervals(self) -> tuple[Interval, ...]:
        """What the links prove, disjoint and in order."""
        return union(Interval(node.from_ms, node.until_ms) for node in self.nodes if node.from_ms < node.until_ms)

    @property
    def evidence(self) -> list[Evidence]:
        """What each link proves."""
        return [
            Evidence(
                self.shard_id,
                node.link.kind,
                node.from_ms,
                node.until_ms,
                node.link.last,
                Continuity.PROVEN if node.from_ms < node.until_ms else Continuity.UNPROVEN,
                node.link.stored_ms,
            )
            for node in self.nodes
        ]

    def at(self, position: Position) -> Node | None:
        """Return the link that ends at `position`; None when none does."""
        index = bisect_right(self._lasts, position) - 1
        return self.nodes[index] if index >= 0 and self._lasts[index] == position else None

    def holds(self, position: Position) -> bool:
        """Tell whether a link reaches over `position` and does not end there."""
        index = bisect_right(self._lasts, position)
        return index < len(self.nodes) and self.nodes[index].link.first <= position

    def next_after(self, position: Position | None) -> EvidenceLink | None:
        """Return the first link that ends behind `position` (None: the chain's first)."""
        index = 0 if position is None else bisect_right(self._lasts, position)
        return self.nodes[index].link if index < len(self.nodes) else None

    @property
    def begins_in_view(self) -> bool:
        """Tell whether nothing is archived before the first link that is known."""
        if not self.nodes:
            is_searched = self._view.to_the_beginning and self._view.to_the_end and not self._view.unread
            return self._view.begun_at is None or is_searched
        return self._is_start(self.nodes[0].link)

    @property
    def adopted(self) -> Position | None:
        """The checkpoint that the chain begins behind, if it was adopted."""
        after = self.nodes[0].link.after if self.nodes else None
        return after.adopted if isinstance(after, ChainStart) else None

    def missing(self, position: Position) -> Reason:
        """Tell why no link ends at `position`: it is gone, or lies where nobody looked."""
        before = not self.nodes or position < self.nodes[0].link.first
        behind = not self.nodes or position > self._lasts[-1]
        unsearched = (before and not self._view.to_the_beginning) or (behind and not self._view.to_the_end)
        unsearched |= position in self._view.unseen or bool(self._view.unread)
        return Reason.NOT_SEEN if unsearched else Reason.BROKEN_CHAIN

    def _join(self, before: Node | None, link: EvidenceLink) -> Node:
        joint = joint_of(before.link if before else None, link)
        if before is not None and joint is Joint.GOES_BACK and (resumed := _resume(before, link)) is not None:
            self.doubts.append(Doubt(Reason.UNPROVEN, Interval(before.until_ms, resumed.from_ms), link.first))
            return resumed
        follows = joint is Joint.FOLLOWS or (joint is Joint.HEAD and self._is_start(link))
        reason = self._doubt(before, link) if follows else self._tear(before, link, joint)
        reached_ms, floor_ms, torn_ms = before[2:] if before else (_ALWAYS, _ALWAYS, _ALWAYS)
        if reason is None:
            from_ms = reached_ms if link.from_ms is None else link.from_ms
            until_ms = max(link.until_ms, from_ms, reached_ms)
            if from_ms == BIRTH and not self._trusts_birth:
                from_ms = until_ms
            return Node(link, min(max(from_ms, floor_ms), until_ms), until_ms, floor_ms, torn_ms)
        begins_ms = max(link.begins_ms, reached_ms)
        if link.kind is Kind.SEGMENT:
            self.doubts.append(Doubt(reason, Interval(reached_ms, begins_ms), link.first))
        is_torn = reason in {Reason.BROKEN_CHAIN, Reason.NOT_SEEN}
        return Node(link, begins_ms, begins_ms, link.begins_ms, link.begins_ms if is_torn else torn_ms)

    def _is_start(self, link: EvidenceLink) -> bool:
        return isinstance(link.after, ChainStart) and link.first == self._view.begun_at

    def _tear(self, before: Node | None, link: EvidenceLink, joint: Joint) -> Reason:
        """Say what a link that does not follow the one before it is: a first one may follow what is out of sight.

        A start behind a stale checkpoint, or without one, that found its place trimmed says so itself: nothing that
        it stands on is missing.
        """
        if joint in {Joint.HEAD, Joint.GOES_BACK, Joint.RESTARTS} and link.is_doubtful:
            return Reason.LOST if link.claim is Continuity.LOST else Reason.UNPROVEN
        is_seen = joint is not Joint.ORPHAN or self._view.to_the_beginning
        between = Interval(before.until_ms if before else _ALWAYS, link.begins_ms)
        is_seen &= not any(times.overlaps(between) for times in self._view.unread)
        return Reason.BROKEN_CHAIN if is_seen else Reason.NOT_SEEN

    @staticmethod
    def _doubt(before: Node | None, link: EvidenceLink) -> Reason | None:
        if link.claim is Continuity.LOST:
            return Reason.LOST
        if link.claim is Continuity.UNPROVEN:
            return Reason.UNPROVEN
        if link.claim is Continuity.PROVEN:
            return None if link.from_ms is not None else Reason.UNDECIDED
        if before is None or link.run is None or link.run != before.link.run:
            return Reason.UNDECIDED
        # Its records cannot have been delivered before they arrived: so late, a segment must state its continuity.
        return None if link.until_ms - before.until_ms < SURELY_HELD_MS else Reason.UNDECIDED


def _resume(before: Node, link: EvidenceLink) -> Node | None:
    """Return what a link proves that was read on from a mark, behind a checkpoint older than the chain's end.

    All that arrived since the mark lies behind both: what was trimmed between them is not in question.
    """
    if link.claim is not Continuity.PROVEN or link.from_ms is None or link.from_ms < before.until_ms:
        return None
    return Node(link, link.from_ms, max(link.until_ms, link.from_ms), link.from_ms, before.torn_ms)


def footed(chain: Chain, pieces: Sequence[Evidence]) -> tuple[list[Evidence], list[Doubt]]:
    """Return the pieces that the chain agrees with, cut to what it can carry, and what is in doubt about the others.

    A piece stands on the chain at its position: the chain must end a link there, and none of the links that follow
    may hold what arrived by its `until`. It covers nothing from before the last tear or doubt behind it; a piece of
    level `stream` compared the records themselves, so for it only tears count.
    """
    proven: list[Evidence] = []
    doubts: list[Doubt] = []
    adopted = {piece.position: piece.until_ms for piece in pieces if piece.kind is Kind.ADOPTED}
    for piece in pieces:
        interval = Interval(piece.from_ms, piece.until_ms)
        reason, floor_ms = _footing(chain, piece, adopted)
        if reason is None:
            proven.append(piece._replace(from_ms=min(max(piece.from_ms, floor_ms), piece.until_ms)))
        else:
            doubts.append(Doubt(reason, interval, piece.position))
        if piece.continuity is not Continuity.PROVEN and piece.kind in {Kind.READ, Kind.END}:
            reason = Reason.LOST if piece.continuity is Continuity.LOST else Reason.UNPROVEN
            doubts.append(Doubt(reason, interval, piece.position))
    return proven, doubts


def _footing(chain: Chain, piece: Evidence, adopted: dict[Position | None, int]) -> tuple[Reason | None, int]:
    if piece.kind in {Kind.ADOPTED, Kind.EXPIRED}:
        return None, _ALWAYS
    floor_ms = _ALWAYS
    if piece.position is None:
        if not chain.begins_in_view:
            return Reason.NOT_SEEN, _ALWAYS
    elif (node := chain.at(piece.position)) is not None:
        floor_ms = node.torn_ms if piece.kind is Kind.STREAM else node.floor_ms
    elif piece.position in adopted:
        floor_ms = adopted[piece.position]
    elif not chain.holds(piece.position):
        return chain.missing(piece.position), _ALWAYS
    elif piece.continuity is Continuity.PROVEN:
        return Reason.CONTRADICTED, _ALWAYS
    follower = chain.next_after(piece.position)
    # An audit compares what arrived before its scope's end: a record at that very time is behind it.
    until_ms = piece.interval.until_ms - (1 if piece.kind is Kind.STREAM else 0)
    is_denied = follower is not None and follower.arrival_min_ms <= until_ms
    if is_denied and piece.continuity is Continuity.PROVEN:
        return Reason.CONTRADICTED, _ALWAYS
    return None, floor_ms
