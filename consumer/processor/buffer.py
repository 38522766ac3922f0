"""A buffer: a segment in the making, that is the records of one minute that are held, and since when.

It is a contiguous part of the shard. Where it ends never matters for correctness, only that its slot is named by its
first record and that it follows the chain's tail (docs/decisions/0003).
"""

from collections.abc import Sequence
from typing import Literal

from consumer.settings.settings import Settings
from minutebook.compression import Compression
from minutebook.errors import BufferTooOld
from minutebook.format.minute import MINUTE_MS
from minutebook.format.record import Measured, Record
from minutebook.format.segment import SegmentWriter

Reason = Literal["minute", "size", "stored_range", "near_retention", "flush", "age", "idle", "shutdown", "shard_end"]
"""Why a buffer is committed."""


class Buffer:
    """Records on their way to a slot, held since `since` on the monotonic clock; the last came at `last_arrival`.

    `oldest_ms` is when the first of them arrived at the stream.
    """

    def __init__(
        self, shard_id: str, minute: int, settings: Settings, since: float, oldest_ms: int, compression: Compression
    ) -> None:
        self.segment = SegmentWriter(shard_id, minute, compression)
        self.since = self.last_arrival = since
        self.oldest_ms = oldest_ms
        self._settings = settings

    @property
    def room(self) -> int:
        """How many bytes may still be added."""
        return self._settings.max_segment_bytes - self.segment.raw_bytes

    def hold(
        self, records: Sequence[Record], duplicates: Sequence[str | None], measured: Measured | None = None
    ) -> None:
        """Add records; those that `duplicates` names as copies of something go beside. Without verdicts all stay.

        `measured` are they, where the caller did.
        """
        start = 0
        for index, duplicate_of in enumerate(duplicates):
            if duplicate_of is not None:
                if index > start:
                    self.segment.extend(records[start:index])
                self.segment.drop(records[index], duplicate_of)
                start = index + 1
        if start == 0:
            self.segment.extend(records, measured)
        elif start < len(records):
            self.segment.extend(records[start:])

    def rest(self) -> "Buffer":
        """Return an empty buffer of the same minute and age."""
        segment = self.segment
        return Buffer(
            segment.shard_id, segment.minute, self._settings, self.since, self.oldest_ms, segment.compression
        )

    def ends_before(self, minute: int, payload_bytes: int) -> Reason | None:
        """Return why a record of this minute and payload cannot be added; None when it can."""
        if minute != self.segment.minute:
            return "minute"
        return "size" if payload_bytes > self.room else None

    def due(self, now: float, now_ms: int, *, near_retention: bool) -> Reason | None:
        """Return why the buffer must wait no longer; None while it may."""
        settings, age = self._settings, now - self.since
        if near_retention:
            return "near_retention"
        if settings.flush_seconds is not None and age >= settings.flush_seconds:
            return "flush"
        if self.is_aged(now):
            return "age"
        is_over = now_ms >= (self.segment.minute + 1) * MINUTE_MS or age >= MINUTE_MS / 1000 + settings.linger_seconds
        return "idle" if is_over and now - self.last_arrival >= settings.linger_seconds else None

    def is_aged(self, now: float) -> bool:
        """Tell whether half of the time is over for which it may be held.

        A minute may still be delivered then: in a slow catch-up, or while claims are held back. Thrown away at the
        end of that time it would be read again, as slowly, and thrown away again, for ever.
        """
        return self.seconds_left(now) <= self._settings.max_segment_age_seconds / 2

    def seconds_left(self, now: float) -> float:
        """Return how long it may still be sent: once it is older, its slot may have been expired."""
        return self._settings.max_segment_age_seconds - (now - self.since)

    def check_age(self, now: float) -> None:
        """Raise BufferTooOld when the buffer has outlived its guarantee."""
        age, segment = now - self.since, self.segment
        if age > self._settings.max_segment_age_seconds:
            raise BufferTooOld(
                f"the buffer of {segment.shard_id} is {age:.0f} s old, older than maxSegmentAgeSeconds "
                f"({self._settings.max_segment_age_seconds:g}); {segment.records} buffered records were thrown away",
                next_step="nothing is lost, they will be delivered again; look for pauses of this process or host",
            )
