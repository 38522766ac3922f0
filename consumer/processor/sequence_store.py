"""The sequence store: the S3 objects of one shard, seen as a store of sequence ranges.

LIST and HEAD find the segments of earlier writers, once per minute that is reached; those of later writers are found
by losing a slot. So a steady processor sends no LIST and no HEAD.
"""

from bisect import insort

import structlog

from consumer.dedupe.watermarks import WATERMARKS_BESIDE, Watermarks, load_watermarks, store_watermarks
from consumer.evidence.shard_evidence import EvidenceClaim
from consumer.services import Services
from minutebook.compression import Compression, compression_of
from minutebook.errors import SafetyRefusal, StoreUnavailable
from minutebook.format.keys import application_key, duplicates_key, minute_prefix, segment_key, watermarks_key
from minutebook.format.metadata import Predecessor, SegmentMetadata
from minutebook.format.minute import MINUTE_MS, minute_text
from minutebook.format.position import Position
from minutebook.format.segment import SegmentWriter
from minutebook.store.commit import AlreadyStored, Committed, commit_segment, stored_segment

SKEW_MS = 5 * MINUTE_MS
"""How far the clocks of two writers may be apart: minutes that began later than this need no LIST."""


class SequenceStore:
    """One shard's stored ranges ahead of the reader, in order.

    A minute that began more than five minutes after this processor's start can only have segments of writers that
    contend for the same slots as we do. Only the first LIST is needed for correctness: a range lies within one
    minute, and after it this processor is on the chain.
    `compression` is that of the prefix: a writer with another one would contend for other slots.
    """

    def __init__(self, services: Services, shard_id: str, compression: Compression) -> None:
        self._services = services
        self._prefix = services.settings.prefix
        self._shard_id = shard_id
        self.compression = compression
        self._clock = services.clock
        self._started_ms = self._clock.now_ms()
        self._loaded: set[int] = set()
        self._ahead: list[SegmentMetadata] = []
        self._log = structlog.get_logger().bind(shard=shard_id)

    def load_minute(self, minute: int, archived_through: Position | None) -> None:
        """List the segments of `minute`, once; ranges up to `archived_through` are known already.

        The first minute is always listed, whatever the clock says: a start may lie inside a stored range, and the
        clock may have been wrong at the start.
        """
        if minute in self._loaded or (self._loaded and not self._may_be_stored(minute)):
            return
        prefix = minute_prefix(self._prefix, self._shard_id, minute)
        store = self._services.store_within()
        keys = store.keys(prefix)
        for key in keys:
            stored = stored_segment(store, self._prefix, key)
            self._check_compression(key)
            if archived_through is None or stored.last > archived_through:
                insort(self._ahead, stored, key=lambda segment: segment.span)
        self._loaded.add(minute)
        if keys:
            self._log.info("stored_ranges_found", minute=minute_text(minute), segments=len(keys))

    def _check_compression(self, key: str) -> None:
        if compression_of(key) is not self.compression:
            raise SafetyRefusal(
                f"{key} is not of the archive's compression, {self.compression}: its writer contends for other slots",
                next_step=f"stop the other writer, or restore {application_key(self._prefix)} from a version of it; "
                "then run minutebook audit",
            )

    @property
    def next_first(self) -> Position | None:
        """Where the next stored range ahead begins; None if there is none."""
        return self._ahead[0].first if self._ahead else None

    def next_stored(self, position: Position) -> SegmentMetadata | None:
        """Remove and return the next stored segment that begins at or before `position`; None if there is none."""
        if self._ahead and self._ahead[0].first <= position:
            return self._ahead.pop(0)
        return None

    def commit(
        self,
        segment: SegmentWriter,
        *,
        after: Predecessor,
        writer: str,
        claim: EvidenceClaim,
        watermarks: Watermarks | None,
        budget_seconds: float,
    ) -> tuple[str, SegmentMetadata, Committed | AlreadyStored]:
        """Commit a segment at its slot; return the key, our metadata and the outcome. See `minutebook.store.commit`.

        Dropped duplicates, and watermarks that do not fit into the metadata, are written first, under keys that
        contain `writer`. Readers ignore them until the segment exists.
        """
        store = self._services.store_within(budget_seconds)
        backoff = store.new_backoff()
        first = segment.span.first
        if segment.dropped:
            key = duplicates_key(self._prefix, self._shard_id, segment.minute, first, writer, segment.compression)
            body = segment.duplicates_body()
            # The key contains our writer id: if it exists already, an earlier attempt of this request was applied.
            store.put_if_absent(key, body, content_type=segment.compression.media_type)
        text = None
        if watermarks is not None:
            beside = watermarks_key(self._prefix, self._shard_id, segment.minute, first, writer)
            text = store_watermarks(store, beside, watermarks)
        if backoff.is_spent and (segment.dropped or text == WATERMARKS_BESIDE):
            raise StoreUnavailable(
                f"writing the objects beside segment {first} of {self._shard_id} took the whole time budget",
                next_step="nothing was checkpointed, the records are delivered again; look for pauses of this host",
            )
        metadata = segment.metadata(
            after=after,
            writer=writer,
            continuity=claim.continuity,
            evidence_ms=claim.evidence_ms,
            watermarks=text,
        )
        slot = segment_key(self._prefix, self._shard_id, segment.minute, first, segment.compression)
        return slot, metadata, commit_segment(store.raw, slot, segment.body(), metadata, backoff)

    def watermarks_of(self, metadata: SegmentMetadata) -> Watermarks | None:
        """Return the watermarks stored with a segment; see `load_watermarks`."""
        return load_watermarks(self._services.store, self._prefix, metadata)

    def _may_be_stored(self, minute: int) -> bool:
        start_ms = minute * MINUTE_MS
        ahead_ms = start_ms - self._clock.now_ms()
        if ahead_ms > 0:
            self._log.warning(
                "clock_skew",
                minute=minute_text(minute),
                ahead_ms=ahead_ms,
                next_step="set this machine's clock; until then each minute costs one LIST",
            )
            return True
        return start_ms < self._started_ms + SKEW_MS
