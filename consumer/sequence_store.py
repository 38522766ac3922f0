"""The sequence store: the S3 objects of one shard, seen as a store of sequence ranges.

What was archived before this processor started is found by LIST and HEAD, once for each minute that is met; what
is archived afterwards is found by losing a slot. A steady processor therefore sends no LIST and no HEAD.
"""

import random
from bisect import insort

import structlog

from archive.clock import Backoff, Clock
from archive.commit import AlreadyStored, Committed, commit_segment, stored_segment, until_known
from archive.keys import minute_prefix, segment_key
from archive.metadata import SegmentMetadata
from archive.minute import MINUTE_MS, minute_text
from archive.position import Position, SequenceRange
from archive.store import ObjectStore

SKEW_MS = 5 * MINUTE_MS
"""How far the clocks of two writers may be apart: minutes that began later than this need no LIST."""


class SequenceStore:
    """One shard's stored ranges, in order, as far as they lie ahead of the reader.

    `started_ms` is the wall clock at the processor's start: a minute that began more than five minutes after it
    can only have been written by a writer that contends for the same slots as we do.
    """

    def __init__(
        self,
        store: ObjectStore,
        prefix: str,
        shard_id: str,
        clock: Clock,
        rng: random.Random,
        *,
        budget_seconds: float,
    ) -> None:
        self._store = store
        self._prefix = prefix
        self._shard_id = shard_id
        self._clock = clock
        self._rng = rng
        self._budget_seconds = budget_seconds
        self._started_ms = clock.now_ms()
        self._met: set[int] = set()
        self._ahead: list[SequenceRange] = []
        self._log = structlog.get_logger().bind(shard=shard_id)

    def meet(self, minute: int, floor: Position | None) -> None:
        """Learn what is stored of `minute`, the first time it is met; ranges up to `floor` are known already.

        Raises:
            ForeignObject, FormatError, ObjectVanished: doubt about a stored segment.
            StoreUnavailable, StoreRefused: the store.
        """
        if minute in self._met or not self._may_be_stored(minute):
            return
        prefix = minute_prefix(self._prefix, self._shard_id, minute)
        backoff = self.backoff(self._budget_seconds)
        listed = until_known(lambda: list(self._store.list_objects(prefix)), backoff, f"LIST {prefix}")
        for row in listed:
            span = stored_segment(self._store, self._prefix, row.key, backoff).span
            if floor is None or span.last > floor:
                insort(self._ahead, span)
        self._met.add(minute)
        if listed:
            self._log.info("stored_ranges_found", minute=minute_text(minute), segments=len(listed))

    @property
    def next_first(self) -> Position | None:
        """Where the next stored range ahead begins; None when there is none."""
        return self._ahead[0].first if self._ahead else None

    def next_stored(self, position: Position) -> SequenceRange | None:
        """Take the next stored range that begins at or before `position`; None when there is none."""
        if self._ahead and self._ahead[0].first <= position:
            return self._ahead.pop(0)
        return None

    def commit(
        self, body: bytes, metadata: SegmentMetadata, *, budget_seconds: float
    ) -> tuple[str, Committed | AlreadyStored]:
        """Commit a segment at its slot; returns the key and the outcome. See `archive.commit`."""
        key = segment_key(self._prefix, self._shard_id, metadata.minute, metadata.first)
        return key, commit_segment(self._store, key, body, metadata, self.backoff(budget_seconds))

    def backoff(self, budget_seconds: float) -> Backoff:
        """Return waits for one request within a budget."""
        return Backoff(self._clock, self._rng, budget_seconds=budget_seconds)

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
