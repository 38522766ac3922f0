"""What segments say of their chains: their links, by HEAD."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from minutebook.coverage.evidence import EvidenceLink, segment_link
from minutebook.errors import FormatError
from minutebook.format.arrival import STEP_BACK_MINUTES
from minutebook.format.metadata import SegmentMetadata, is_ours
from minutebook.format.position import Position
from minutebook.index.names import ArchiveIndex, SegmentName
from minutebook.store.retrying import RetryingStore


class SegmentLinks:
    """The links of segments that were found by name. They are remembered: they never change."""

    def __init__(self, store: RetryingStore, index: ArchiveIndex) -> None:
        self._store = store
        self._index = index
        self._links: dict[str, EvidenceLink | None] = {}

    def of(self, names: Sequence[SegmentName]) -> list[tuple[str, EvidenceLink]]:
        """Return (shard, link) of those that are segments in their places; others are their own day's to report."""
        unknown = [name for name in names if name.key not in self._links]
        self._links |= zip((name.key for name in unknown), self._store.read_many(self._head, unknown), strict=True)
        return [(name.shard_id, link) for name in names if (link := self._links[name.key]) is not None]

    def predecessors(
        self, chosen: Sequence[SegmentName], ends: Mapping[str, AbstractSet[Position]]
    ) -> list[SegmentName]:
        """Return what chosen segments stand on, not among `ends` by shard, and lies in later minutes than theirs.

        The stamps of one shard step back by a minute at most. So what a segment stands on may carry a later minute
        than it, on the day after. The other way round, a search that goes back day by day comes to it by itself.
        """
        found: dict[SegmentName, None] = {}
        while chosen:
            later = (
                name
                for lone in chosen
                if self._stands_on_unknown(lone, ends.get(lone.shard_id, frozenset()))
                for step in STEP_BACK_MINUTES
                for name in self._index.at(lone.minute + step, lone.shard_id)
                if name.first < lone.first
            )
            chosen = [name for name in dict.fromkeys(later) if name not in found]
            found |= dict.fromkeys(chosen)
        return list(found)

    def _stands_on_unknown(self, name: SegmentName, ends: AbstractSet[Position]) -> bool:
        afters = (link.after for _, link in self.of([name]))
        return any(isinstance(after, Position) and after not in ends for after in afters)

    def _head(self, name: SegmentName) -> EvidenceLink | None:
        head = self._store.head(name.key)
        if head is None or not is_ours(head.metadata):
            return None
        try:
            metadata = SegmentMetadata.decode(head.metadata)
        except FormatError:
            return None
        is_in_place = (metadata.minute, metadata.shard_id, metadata.first) == name[1:]
        return segment_link(metadata, head.last_modified_ms) if is_in_place else None
