"""Conflicts of ids: events that name the id of another one. Both are kept, and somebody should know."""

from typing import Final

import structlog

from consumer.dedupe.claim_batches import EventClaim, Owner
from minutebook.clock import Clock

_TELL_SECONDS: Final = 60.0


class IdConflicts:
    """Counts the conflicts of one shard, and tells of them once a minute at most."""

    def __init__(self, shard_id: str, clock: Clock) -> None:
        self._clock = clock
        self._log = structlog.get_logger().bind(shard=shard_id)
        self._untold = 0
        self._last: tuple[EventClaim, Owner] | None = None
        self._told_at: float | None = None

    def add(self, claim: EventClaim, owner: Owner) -> None:
        """Count a record whose id is held by a record of another payload."""
        self._untold += 1
        self._last = (claim, owner)

    def tell(self, *, is_last: bool = False) -> None:
        """Log how many there were since the last line, unless that is younger than a minute and another may come."""
        now = self._clock.monotonic()
        is_young = self._told_at is not None and now - self._told_at < _TELL_SECONDS
        if self._last is None or (is_young and not is_last):
            return
        claim, owner = self._last
        self._log.warning(
            "id_conflict",
            records=self._untold,
            position=claim.owner,
            owner=owner.position,
            next_step="find the producer that gives two events one id: compare the records at these two positions",
        )
        self._untold, self._last, self._told_at = 0, None, now
