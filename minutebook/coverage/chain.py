"""What a shard's chain of segments proves about times, and where it is broken or in doubt. Pure.

A link that follows the one before it (`minutebook.coverage.joints`), with a credible claim, extends the interval of
that one. Any other begins a new interval, and the time between the two is not proven:

    FOLLOWS .......................... claim `proven` with its `from` ............. covers from there
                                       no claim, same run of one processor ........ covers from the `until` before
                                       no claim, another run, or too long after ... begins: UNDECIDED
                                       claim `unproven` or `lost` ................. begins: UNPROVEN, LOST
    HEAD, as start.json says ......... as above; `from` is the application's start, or `birth`
    GOES_BACK ........................ claim `proven`, `from` behind what it reaches  begins at its `from`: UNPROVEN
    HEAD, GOES_BACK, RESTARTS ........ claim `unproven` or `lost` ................. begins: UNPROVEN, LOST
    RESTARTS, as start.json says ..... whatever it claims ......................... begins: UNPROVEN, torn
    anything else .................... whatever it claims ......................... begins: BROKEN_CHAIN, NOT_SEEN

In the row of GOES_BACK alone, a reader whose checkpoint was older than the archive has continued from a read mark,
because the records after its checkpoint were trimmed. In the row of start.json behind RESTARTS, KCL had skipped the
shard's first records, and they were archived later, in segments that end before the recorded beginning. That none is
missing between the two, no object says, so not even a comparison with the stream covers both sides.
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
    LOST = "lost", "records were trimmed unread, or were in the stream and not in the archive"
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
        """Return whether records or segments are certainly missing, instead of unproven."""
        return self in {Reason.LOST, Reason.BROKEN_CHAIN}


class Doubt(NamedTuple):
    """Why a time is not proven. `position` is where the chain, or evidence that refers to it, is in doubt.

    `shard_id` is set for a doubt about the stream's shards.
    """

    reason: Reason
    interval: Interval
    position: Position | None = None
    shard_id: str | None = None


class ChainView(NamedTuple):
    """The known part of one shard's chain.

    The links must go back to one whose minute begins two minutes before the scope or earlier, and forward to the
    scope's end. `begun_at` is the first position by start.json. `to_the_beginning`, `to_the_end`: that side was
    searched completely, so links not found there are missing. `unseen` are ends of links that were not searched far
    enough. `unread` are times of which links may have expired under an unreadable tombstone.
    """

    links: tuple[EvidenceLink, ...] = ()
    begun_at: Position | None = None
    to_the_beginning: bool = False
    to_the_end: bool = False
    unseen: frozenset[Position] = frozenset()
    unread: tuple[Interval, ...] = ()


class Node(NamedTuple):
    """One link in its chain. It proves the times from `from_ms` to `until_ms`; none if the two are equal.

    `until_ms` is at least that of the links before it. What arrived after `floor_ms` lies after the last break or
    doubt in the chain before the link, what arrived after `torn_ms` after the last break.
    """

    link: EvidenceLink
    from_ms: int
    until_ms: int
    floor_ms: int
    torn_ms: int


_ALWAYS: Final = 0


class Chain:
    """One shard's links in order, what each proves, and the `doubts` between them.

    Without `trusts_birth`, a link that claims to cover time since the shard's birth proves nothing.
    """

    def __init__(self, shard_id: str, view: ChainView, *, trusts_birth: bool = True) -> None:
        self.shard_id = shard_id
        self.nodes: list[Node] = []
        self.doubts: list[Doubt] = []
        self._view = view
        self._trusts_birth = trusts_birth
        for link in in_order(view.links):
            # A link within the one before it is a duplicate, which the audit reports.
            if not self.nodes or link.last > self.nodes[-1].link.last:
                self.nodes.append(self._join(self.nodes[-1] if self.nodes else None, link))
        self._lasts = [node.link.last for node in self.nodes]

    @property
    def intervals(self) -> tuple[Interval, ...]:
        """The times that the links prove, disjoint and in order."""
        return union(Interval(node.from_ms, node.until_ms) for node in self.nodes if node.from_ms < node.until_ms)

    @property
    def evidence(self) -> list[Evidence]:
        """What each link proves, as evidence."""
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
        """Return the link that ends at `position`, or None."""
        index = bisect_right(self._lasts, position) - 1
        return self.nodes[index] if index >= 0 and self._lasts[index] == position else None

    def holds(self, position: Position) -> bool:
        """Return whether `position` lies within a link, before its end."""
        index = bisect_right(self._lasts, position)
        return index < len(self.nodes) and self.nodes[index].link.first <= position

    def next_after(self, position: Position | None) -> EvidenceLink | None:
        """Return the first link that ends after `position` (None: the chain's first)."""
        index = 0 if position is None else bisect_right(self._lasts, position)
        return self.nodes[index].link if index < len(self.nodes) else None

    @property
    def begins_in_view(self) -> bool:
        """Return whether nothing is archived before the first known link."""
        if not self.nodes:
            is_searched = self._view.to_the_beginning and self._view.to_the_end and not self._view.unread
            return self._view.begun_at is None or is_searched
        return self._is_start(self.nodes[0].link)

    @property
    def adopted(self) -> Position | None:
        """The adopted checkpoint after which the chain begins, if any."""
        after = self.nodes[0].link.after if self.nodes else None
        return after.adopted if isinstance(after, ChainStart) else None

    def proven_since(self, first: Position, last: Position) -> int | None:
        """Return since when the links from `first` to `last` are proven, standing on the one before.

        None: they are not, for one of them is in doubt.
        """
        if any(doubt.position is not None and first <= doubt.position <= last for doubt in self.doubts):
            return None
        number = next((number for number, node in enumerate(self.nodes) if node.link.first == first), None)
        if number is None:
            return None
        since_ms = self.nodes[number].link.from_ms
        # Without a time of its own it follows in the run of the one before, wherever that one was reached from.
        return self.nodes[number - 1].link.until_ms if since_ms is None and number else since_ms

    def missing(self, position: Position) -> Reason:
        """Return why no link ends at `position`: it is missing, or lies outside of what was searched."""
        is_before = not self.nodes or position < self.nodes[0].link.first
        is_after = not self.nodes or position > self._lasts[-1]
        unsearched = (is_before and not self._view.to_the_beginning) or (is_after and not self._view.to_the_end)
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
        is_torn = reason in {Reason.BROKEN_CHAIN, Reason.NOT_SEEN} or self._is_begun_before(joint, link)
        return Node(link, begins_ms, begins_ms, link.begins_ms, link.begins_ms if is_torn else torn_ms)

    def _is_start(self, link: EvidenceLink) -> bool:
        return isinstance(link.after, ChainStart) and link.first == self._view.begun_at

    def _is_begun_before(self, joint: Joint, link: EvidenceLink) -> bool:
        """Return whether a link is the recorded beginning, and others were archived before it, later."""
        return joint is Joint.RESTARTS and self._is_start(link)

    def _tear(self, before: Node | None, link: EvidenceLink, joint: Joint) -> Reason:
        """Return the reason for a link that does not follow; a doubtful one itself says that none is missing."""
        is_doubtful = link.is_doubtful or link.kind is Kind.EXPIRED
        if joint in {Joint.HEAD, Joint.GOES_BACK, Joint.RESTARTS} and is_doubtful:
            return Reason.LOST if link.claim is Continuity.LOST else Reason.UNPROVEN
        if self._is_begun_before(joint, link):
            return Reason.UNPROVEN
        is_searched = joint is not Joint.ORPHAN or self._view.to_the_beginning
        between = Interval(before.until_ms if before else _ALWAYS, link.begins_ms)
        is_searched &= not any(times.overlaps(between) for times in self._view.unread)
        return Reason.BROKEN_CHAIN if is_searched else Reason.NOT_SEEN

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
        # Records are delivered after they arrived: from this age on a segment must state its continuity.
        return None if link.until_ms - before.until_ms < SURELY_HELD_MS else Reason.UNDECIDED


def _resume(before: Node, link: EvidenceLink) -> Node | None:
    """Return the node of a link that continues from a read mark: all that arrived since lies after both."""
    if link.claim is not Continuity.PROVEN or link.from_ms is None or link.from_ms < before.until_ms:
        return None
    if link.kind is Kind.EXPIRED:  # between what a run that died has left of it
        return None
    return Node(link, link.from_ms, max(link.until_ms, link.from_ms), link.from_ms, before.torn_ms)


def supported_evidence(chain: Chain, pieces: Sequence[Evidence]) -> tuple[list[Evidence], list[Doubt]]:
    """Return the pieces of evidence that the chain supports, shortened where needed, and doubts about the others.

    A link of the chain must end at the position of a piece, and no later link may hold records that arrived by its
    `until`. The piece covers nothing before the last break or doubt up to its position; for one of level `stream`,
    which compared the records themselves, only breaks count. A loss is a doubt and nothing else.
    """
    proven: list[Evidence] = []
    doubts: list[Doubt] = []
    adopted = {piece.position: piece.until_ms for piece in pieces if piece.kind is Kind.ADOPTED}
    for piece in pieces:
        interval = Interval(piece.from_ms, piece.until_ms)
        if piece.is_loss:
            doubts.append(Doubt(Reason.LOST, interval))
            continue
        reason, floor_ms = _support(chain, piece, adopted)
        if reason is None:
            proven.append(piece._replace(from_ms=min(max(piece.from_ms, floor_ms), piece.until_ms)))
        else:
            doubts.append(Doubt(reason, interval, piece.position))
        if piece.continuity is not Continuity.PROVEN and piece.kind in {Kind.READ, Kind.END}:
            reason = Reason.LOST if piece.continuity is Continuity.LOST else Reason.UNPROVEN
            doubts.append(Doubt(reason, interval, piece.position))
    return proven, doubts


def _support(chain: Chain, piece: Evidence, adopted: dict[Position | None, int]) -> tuple[Reason | None, int]:
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
    # An audit compares records that arrived before its scope's end: one at that very time is not among them.
    until_ms = piece.interval.until_ms - (1 if piece.kind is Kind.STREAM else 0)
    is_denied = follower is not None and follower.arrival_min_ms <= until_ms
    if is_denied and piece.continuity is Continuity.PROVEN:
        return Reason.CONTRADICTED, _ALWAYS
    return None, floor_ms
