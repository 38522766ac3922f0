"""Detect gaps made by retention: Kinesis trims unread records without telling the reader."""

import math
from collections.abc import Callable
from typing import Final, NamedTuple

import structlog

from consumer.services import Services
from consumer.stream.port import SURELY_KEPT_MS, StreamIdentity
from minutebook.errors import DeliveryDoubt, StreamUnavailable
from minutebook.format.minute import MINUTE_MS, minute_of
from minutebook.format.position import Position
from minutebook.format.record import Record

RETENTION_MARGIN_SECONDS: Final = 300.0
FLIGHT_SECONDS: Final = 900.0
"""A PUT may arrive this long after it was sent: S3 refuses older signatures (RequestTimeTooSkewed)."""
STALE_DELIVERY_MS: Final = 12 * 3_600_000
"""Half of the day that `minutebook expire` adds to retention (docs/decisions/0011-restore-and-expire.md)."""
_RETENTION_REREAD_SECONDS: Final = 3600.0


class TimeLeft(NamedTuple):
    """How long a record stays in the stream.

    Until `far_until`, on the monotonic clock, it is far from being trimmed; if `is_near`, no buffer may hold it.
    """

    left_ms: int
    far_until: float
    is_near: bool


class RetentionGuard:
    """Watches how close the reader is to the records that retention trims.

    Buffered records must still be in the stream, or they could not be read again. Close to trimming, every call
    commits what it brought. `retention_ms` is at most an hour of work old; `asked_at` is when `identity` was
    requested, on the monotonic clock. `is_young` returns whether nothing after the shard's last evidence can have
    been trimmed, by the service's time.
    """

    def __init__(
        self,
        services: Services,
        shard_id: str,
        identity: StreamIdentity,
        *,
        asked_at: float,
        is_young: Callable[[], bool],
    ) -> None:
        self._stream = services.stream
        self._is_young = is_young
        self._clock = clock = services.clock
        self.retention_ms = identity.retention_ms
        margin_seconds = services.settings.max_segment_age_seconds + FLIGHT_SECONDS + RETENTION_MARGIN_SECONDS
        self._margin_ms = int(margin_seconds * 1000)
        self._shard_id = shard_id
        self._read_at = asked_at
        # The first batch may come long after the start: in a stream that has trimmed records, check its link again.
        self._read_up_to = -math.inf if identity.may_have_trimmed(clock.now_ms()) else clock.monotonic()
        self._held_at: float | None = None
        self._far_until = -math.inf  # until a batch shows the age of the last delivered record
        self._log = structlog.get_logger().bind(shard=shard_id)

    def caught_up(self, behind_ms: int | None, received_at: float, oldest: TimeLeft | None) -> None:
        """Note that everything that arrived until `behind_ms` before `received_at` has been delivered.

        `received_at` is when the call began, on the monotonic clock: the machine may sleep for days during the call.
        `oldest` is the time left for the first record of the call.
        """
        if oldest is not None:
            self._far_until = oldest.far_until
        if behind_ms is not None:
            self._read_up_to = received_at - behind_ms / 1000

    def check_unbroken(self, delivered: Position | None) -> None:
        """Raise if records between `delivered` (or what the start follows) and the next batch may be trimmed.

        Kinesis silently continues at its trim horizon, whether the reader was slow or the machine asleep. Only a new
        start can continue from here: it looks for what others archived meanwhile, and marks the gap.
        """
        if not self.is_unbroken(delivered):
            raise DeliveryDoubt(
                f"records of {self._shard_id} after {delivered} may have been trimmed before they were delivered",
                next_step="the next start marks the gap; raise the stream's retention above the longest outage",
            )

    def is_unbroken(self, delivered: Position | None) -> bool:
        """Return whether nothing after `delivered` can have been trimmed unread; asks the stream only in doubt."""
        unread_seconds = self._clock.monotonic() - self._read_up_to
        if delivered is None or unread_seconds * 1000 <= SURELY_KEPT_MS - self._margin_ms or self._is_young():
            return True
        # While a record is far from being trimmed, so is everything after it. So a reader that catches up over days
        # asks every few minutes, not with every batch.
        now = self._clock.monotonic()
        lately = self._held_at is not None and now - self._held_at < RETENTION_MARGIN_SECONDS
        if not lately or now >= self._far_until:
            self._held_at = now if self._stream.holds(self._shard_id, delivered) else None
        return self._held_at is not None

    def check_delivery(self, oldest: Record) -> None:
        """Raise if a batch waited in a pipe, or on a sleeping host, until the archive may have expired its slot.

        The monotonic clock does not see such a pause: for this process the batch has just come. A wrong wall clock
        cannot hide it, because S3 refuses requests whose signature is a quarter of an hour off.
        """
        arrived_ms = minute_of(oldest.arrival_ms) * MINUTE_MS
        past_ms = self._clock.now_ms() - arrived_ms - self.retention_ms
        if past_ms > STALE_DELIVERY_MS and not self._stream.holds(self._shard_id, oldest.position):
            raise DeliveryDoubt(
                f"record {oldest.position} of {self._shard_id} was delivered {past_ms // 3_600_000} h after the "
                "stream trimmed it",
                next_step="look for a pause of this host; the next start goes on from the archive and marks a gap",
            )

    def time_left(self, arrival_ms: int) -> TimeLeft:
        """Return how long a record of this arrival time stays in the stream, by the last known retention."""
        now = self._clock.monotonic()  # first: a suspend between the two clocks must not add to the time left
        left_ms = arrival_ms + self.retention_ms - self._clock.now_ms()
        far_ms = left_ms - self._margin_ms
        return TimeLeft(left_ms, now + far_ms / 1000, is_near=far_ms <= 0)

    def refresh(self) -> None:
        """Ask the stream for its retention once an hour; keep the last known one if it does not answer."""
        now = self._clock.monotonic()
        if now - self._read_at < _RETENTION_REREAD_SECONDS:
            return
        self._read_at = now
        try:
            self.retention_ms = self._stream.describe().retention_ms
        except StreamUnavailable as exc:
            # Archiving does not depend on this answer.
            self._log.warning("retention_unknown", error=str(exc), retention_hours=self.retention_ms // 3_600_000)
