"""What chains are judged by: what is known besides the segments, and what is concluded. Values only."""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from compaction.inventory.neighbours import ChainLink, SearchReach
from compaction.inventory.shard_markers import ArchiveMarkers, ShardMarkers
from compaction.inventory.tombstones import ExpiredBefore
from compaction.verdict.findings import Finding
from minutebook.format.arrival import MIDNIGHT_EDGE_MS
from minutebook.format.day import Day
from minutebook.format.minute import MINUTE_MS
from minutebook.format.position import Position, SequenceRange

_EDGE_MINUTES: Final = MIDNIGHT_EDGE_MS // MINUTE_MS
StartProof = Literal["start.json", "link", "tombstone", ""]
"""What proves the start of a shard's day; '' when nothing does."""
EndProof = Literal["successor", "end.json", "checkpoint", "not begun", ""]
"""What proves that nothing is missing behind the tail; '' when nothing does."""


class AuditEvidence(NamedTuple):
    """What is asked besides the day's objects. `expired` is what tombstones of earlier days cover."""

    markers: ArchiveMarkers
    checkpoints: Mapping[str, Position]
    expired: ExpiredBefore = ExpiredBefore()


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
    `expired` are the runs of days before this one whose segments were deleted on purpose, by their tombstones, and
    `unread` those of these days whose tombstone cannot be read.
    """

    shard_id: str
    markers: ShardMarkers
    checkpoint: Position | None
    reach: SearchReach
    holes: tuple[Position, ...] = ()
    expired: tuple[SequenceRange, ...] = ()
    unread: tuple[Day, ...] = ()

    def unread_between(self, low: int | None, high: int) -> Day | None:
        """Return a day that lies between two minutes, and whose tombstone cannot be read; None: no bound."""
        for day in self.unread:
            begin, end = day.first_minute - _EDGE_MINUTES, day.shift(1).first_minute + _EDGE_MINUTES
            if begin <= high and (low is None or low < end):
                return day
        return None

    def has_hole(self, low: Position | None, high: Position | None) -> bool:
        """Tell whether a hole lies between two positions; None: no bound on that side."""
        return any((low is None or hole > low) and (high is None or hole < high) for hole in self.holes)
