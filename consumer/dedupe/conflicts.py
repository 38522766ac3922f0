"""Id conflicts: different events with the same id. Both are kept, and a warning is logged."""

from typing import Final

import structlog

from consumer.dedupe.claim_batches import EventClaim, Owner
from minutebook.clock import Clock

_TELL_SECONDS: Final = 60.0


class IdConflicts:
    """Counts the conflicts of one shard, and logs them at most once a minute."""

    def __init__(self, shard_id: str, clock: Clock) -> None:
        self._clock = clock
        self._log = structlog.get_logger().bind(shard=shard_id)
        self._untold = 0
        self._last: tuple[EventClaim, Owner] | None = None
        self._told_at: float | None = None

    def add(self, claim: EventClaim, owner: Owner) -> None:
        """Count a record whose id is claimed by a record with another payload."""
        self._untold += 1
        self._last = (claim, owner)

    def tell(self, *, is_last: bool = False) -> None:
        """Log the conflicts since the last line, at most once a minute; at once if `is_last`."""
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
