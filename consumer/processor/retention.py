"""The watch over retention: Kinesis trims what nobody has read, without a word to the reader."""

import math
from typing import Final

import structlog

from archive.clock import Clock
from archive.errors import DeliveryDoubt, StreamUnavailable
from archive.format.minute import MINUTE_MS, minute_of
from archive.format.position import Position
from archive.format.record import Record
from consumer.stream.port import SURELY_KEPT_MS, Stream, StreamIdentity

RETENTION_MARGIN_SECONDS: Final = 300.0
FLIGHT_SECONDS: Final = 900.0
"""A PUT may arrive so long after it was sent: S3 refuses a signature that is older (RequestTimeTooSkewed)."""
STALE_DELIVERY_MS: Final = 12 * 3_600_000
"""Half of the day that `minutebook expire` adds to retention (docs/decisions/0011-restore-and-expire.md)."""
_RETENTION_REREAD_SECONDS: Final = 3600.0
_NEAR_RETENTION_LOG_SECONDS: Final = 60.0


class RetentionGuard:
    """Tells when the reader comes close to what retention trims.

    A writer's buffer must be younger than what has been trimmed already: else its slot's records could be
    re-read by nobody. Close to the edge every call commits what it brought. `retention_ms` is the stream's retention
    as it was an hour of work ago at most; `asked_at` is when `identity` was asked for, on the monotonic clock.
    """

    def __init__(
        self,
        stream: Stream,
        clock: Clock,
        shard_id: str,
        identity: StreamIdentity,
        max_segment_age_seconds: float,
        *,
        asked_at: float,
    ) -> None:
        self._stream = stream
        self._clock = clock
        self.retention_ms = identity.retention_ms
        self._margin_ms = int((max_segment_age_seconds + FLIGHT_SECONDS + RETENTION_MARGIN_SECONDS) * 1000)
        self._shard_id = shard_id
        self._read_at = asked_at
        # The first batch may come long after the start looked, so it proves its link again where anything is trimmed.
        self._read_up_to = -math.inf if identity.may_have_trimmed(clock.now_ms()) else clock.monotonic()
        self._held_at: float | None = None
        self._kept_until = -math.inf  # until a batch says how old the last delivered record is
        self._logged_at: float | None = None
        self._log = structlog.get_logger().bind(shard=shard_id)

    def caught_up(self, behind_ms: int | None, received_at: float) -> None:
        """Note how far the reader is: all that arrived until `behind_ms` before `received_at` has been delivered.

        `received_at` is when the call began, on the monotonic clock: a machine may sleep for days in the middle.
        """
        if behind_ms is not None:
            self._read_up_to = received_at - behind_ms / 1000

    def check_unbroken(self, delivered: Position | None) -> None:
        """Raise when records between `delivered` (or what the start follows) and the next batch may be trimmed.

        Kinesis goes on at its trim horizon without a word, whether the reader was slow or the machine asleep. Only a
        new start can go on from here: it looks for what others archived meanwhile, and marks the gap.

        Raises:
            DeliveryDoubt: that record is no longer held, and what followed it may be gone, too.
        """
        if not self.is_unbroken(delivered):
            raise DeliveryDoubt(
                f"records of {self._shard_id} after {delivered} may have been trimmed before they were delivered",
                next_step="the next start marks the gap; raise the stream's retention above the longest outage",
            )

    def is_unbroken(self, delivered: Position | None) -> bool:
        """Tell whether nothing behind `delivered` can have been trimmed unread; asks the stream only in doubt."""
        unread_seconds = self._clock.monotonic() - self._read_up_to
        if delivered is None or unread_seconds * 1000 <= SURELY_KEPT_MS - self._margin_ms:
            return True
        # A record that was held a moment ago, and is known to be far from its end, holds everything behind it for a
        # while. So a reader that catches up over days asks every few minutes, not with every batch.
        now = self._clock.monotonic()
        lately = self._held_at is not None and now - self._held_at < RETENTION_MARGIN_SECONDS
        if not lately or now >= self._kept_until:
            self._held_at = now if self._stream.holds(self._shard_id, delivered) else None
        return self._held_at is not None

    def check_delivery(self, oldest: Record) -> None:
        """Raise when a batch waited in a pipe, or on a sleeping host, until the archive may have expired its slot.

        No other clock has seen such a pause: for this process the batch has just come. A wrong wall clock cannot hide
        it, because S3 refuses requests that are signed a quarter of an hour off.

        Raises:
            DeliveryDoubt: the record is long past retention, and the stream no longer holds it.
            FormatError: its arrival time is none.
        """
        arrived_ms = minute_of(oldest.arrival_ms) * MINUTE_MS
        past_ms = self._clock.now_ms() - arrived_ms - self.retention_ms
        if past_ms > STALE_DELIVERY_MS and not self._stream.holds(self._shard_id, oldest.position):
            raise DeliveryDoubt(
                f"record {oldest.position} of {self._shard_id} was delivered {past_ms // 3_600_000} h after the "
                "stream trimmed it",
                next_step="look for a pause of this host; the next start goes on from the archive and marks a gap",
            )

    def is_near(self, arrival_ms: int) -> bool:
        """Tell whether a record of this arrival time is close to being trimmed; logs it once a minute."""
        self._reread()
        now = self._clock.monotonic()
        left_ms = arrival_ms + self.retention_ms - self._clock.now_ms()
        self._kept_until = now + (left_ms - self._margin_ms) / 1000
        if left_ms > self._margin_ms:
            return False
        if self._logged_at is None or now - self._logged_at >= _NEAR_RETENTION_LOG_SECONDS:
            self._logged_at = now
            self._log.error(
                "near_retention",
                left_seconds=left_ms // 1000,
                next_step="raise the stream's retention now; the reader is about to lose records to trimming",
            )
        return True

    def _reread(self) -> None:
        now = self._clock.monotonic()
        if now - self._read_at < _RETENTION_REREAD_SECONDS:
            return
        self._read_at = now
        try:
            self.retention_ms = self._stream.describe().retention_ms
        except StreamUnavailable as exc:
            # The last known retention still stands; archiving does not depend on this answer.
            self._log.warning("retention_unknown", error=str(exc), retention_hours=self.retention_ms // 3_600_000)
