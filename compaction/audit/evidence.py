"""What the chain of one shard is judged by: its segments, and what is known beside them. Values only."""

from typing import NamedTuple

from archive.format.metadata import SegmentMetadata
from archive.format.position import Position, SequenceRange
from compaction.inventory.inventory import ShardMarkers
from compaction.verdict.findings import Finding


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

    def has_hole(self, low: Position | None, high: Position | None) -> bool:
        """Tell whether a hole lies between two positions; None: no bound on that side."""
        return any((low is None or hole > low) and (high is None or hole < high) for hole in self.holes)
