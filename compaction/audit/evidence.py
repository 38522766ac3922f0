"""What chains are judged by: what is known besides the segments, and what is concluded. Values only."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from archive.format.position import Position, SequenceRange
from compaction.inventory.neighbours import Reach
from compaction.inventory.shard_markers import ArchiveMarkers, ShardMarkers
from compaction.verdict.findings import Finding

StartProof = Literal["start.json", "link", "tombstone", ""]
"""What proves the start of a shard's day; '' when nothing does."""
EndProof = Literal["successor", "end.json", "checkpoint", "not begun", ""]
"""What proves that nothing is missing behind the tail; '' when nothing does."""


class Evidence(NamedTuple):
    """What is asked besides the day's objects. `expired` holds, by shard, what tombstones of earlier days cover."""

    markers: ArchiveMarkers
    checkpoints: Mapping[str, Position]
    expired: Mapping[str, tuple[SequenceRange, ...]] = {}


class ShardProof(NamedTuple):
    """What is proven about one shard's day."""

    start: StartProof
    end: EndProof


class ChainResult(NamedTuple):
    """Findings and proof of one shard."""

    findings: tuple[Finding, ...]
    proof: ShardProof


class ShardContext(NamedTuple):
    """What is known of a shard besides its segments.

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

    def has_hole(self, low: Position | None, high: Position | None) -> bool:
        """Tell whether a hole lies between two positions; None: no bound on that side."""
        return any((low is None or hole > low) and (high is None or hole < high) for hole in self.holes)
