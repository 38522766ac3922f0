"""The links of segments, read from their metadata by HEAD."""

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
    """Reads the links of segments by name. They never change, so they are cached."""

    def __init__(self, store: RetryingStore, index: ArchiveIndex) -> None:
        self._store = store
        self._index = index
        self._links: dict[str, EvidenceLink | None] = {}

    def of(self, names: Sequence[SegmentName]) -> list[tuple[str, EvidenceLink]]:
        """Return (shard, link) of each valid segment; the audit of its day reports any other object."""
        unknown = [name for name in names if name.key not in self._links]
        self._links |= zip((name.key for name in unknown), self._store.read_many(self._head, unknown), strict=True)
        return [(name.shard_id, link) for name in names if (link := self._links[name.key]) is not None]

    def predecessors(
        self, chosen: Sequence[SegmentName], ends: Mapping[str, AbstractSet[Position]]
    ) -> list[SegmentName]:
        """Return the predecessors of chosen segments in later minutes, if `ends` (by shard) does not have them.

        Arrival times of one shard step back by a minute at most, so a predecessor may have a later minute, even on
        the next day. A search back in time finds the others.
        """
        predecessors: dict[SegmentName, None] = {}
        while chosen:
            later = (
                name
                for segment in chosen
                if self._follows_unknown(segment, ends.get(segment.shard_id, frozenset()))
                for step in STEP_BACK_MINUTES
                for name in self._index.at(segment.minute + step, segment.shard_id)
                if name.first < segment.first
            )
            chosen = [name for name in dict.fromkeys(later) if name not in predecessors]
            predecessors |= dict.fromkeys(chosen)
        return list(predecessors)

    def _follows_unknown(self, name: SegmentName, ends: AbstractSet[Position]) -> bool:
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
