"""What a day's shards were judged, group by group, as the driver holds it."""

from collections.abc import Container, Mapping
from typing import NamedTuple

from compaction.audit.rules.lines import Counts
from compaction.audit.shards.group_view import JudgedShard
from compaction.audit.shards.judging import (
    JudgedGroup,
)
from compaction.inventory.neighbours import Neighbours
from compaction.inventory.segments import (
    ClassifiedObjects,
)
from compaction.verdict.findings import Finding
from minutebook.coverage.condensed import hidden
from minutebook.coverage.evidence import EvidenceLink
from minutebook.coverage.shard_coverage import ShardFacts
from minutebook.format.position import Position
from minutebook.index.last_segments import LastSegment


class Judgement(NamedTuple):
    """What the groups' shards were judged, and the neighbours that it rests on."""

    groups: Mapping[int, JudgedGroup]
    neighbours: Neighbours
    foreign: ClassifiedObjects

    @property
    def shards(self) -> dict[str, JudgedShard]:
        """The shards, in the order of their names."""
        found = {shard: judged for group in self.groups.values() for shard, judged in group.shards.items()}
        return dict(sorted(found.items()))

    @property
    def of_chains(self) -> list[Finding]:
        """What was found of the links between segments."""
        return [about for shard in self.shards.values() for about in shard.chain.findings]

    @property
    def of_names(self) -> list[Finding]:
        """What was found of objects by their names and metadata."""
        return [*self.foreign.findings, *(about for group in self.groups.values() for about in group.of_names)]

    @property
    def of_lines(self) -> list[Finding]:
        """What was found of their lines."""
        return [about for group in self.groups.values() for about in group.of_lines]

    @property
    def counts(self) -> Counts:
        """Lines of all objects."""
        counts = Counts()
        for group in self.groups.values():
            counts = counts.plus(group.counts)
        return counts

    @property
    def tainted(self) -> frozenset[int]:
        """The tasks whose part must not be published as it is."""
        return frozenset[int]().union(*(group.tainted for group in self.groups.values()))

    @property
    def has_merges(self) -> bool:
        """Tell whether any objects must be merged."""
        return any(group.merges for group in self.groups.values())

    def ends(self, closed: Container[str]) -> dict[str, LastSegment]:
        """Return the last segment that is known of each shard when the day ends; `closed` are those that ended."""
        tails = ((shard, judged.chain.tail) for shard, judged in self.shards.items())
        return {
            shard: LastSegment(
                tail.key, tail.metadata.last, tail.metadata.minute, tail.metadata.after, shard in closed
            )
            for shard, tail in tails
            if tail is not None
        }

    @property
    def proofs(self) -> dict[str, tuple[EvidenceLink, ...]]:
        """The links of each shard, condensed."""
        return {shard: judged.proofs for shard, judged in self.shards.items() if judged.proofs}

    def hidden(self, shards: Mapping[str, ShardFacts]) -> dict[str, frozenset[Position]]:
        """Return the positions that evidence stands on, and that lie inside links which stand for several."""
        found = {}
        for shard, judged in self.shards.items():
            positions = {piece.position for piece in shards[shard].pieces} if shard in shards and judged.whole else ()
            inside = {one for one in positions if one is not None and hidden(judged.proofs, judged.whole, one)}
            if inside:
                found[shard] = frozenset(inside)
        return found
