"""A buffer: the held records of one minute, which become a segment.

It is a contiguous part of the shard. Where it ends does not matter for correctness, only that its first record names
its slot and that it follows the chain's tail (docs/decisions/0003).
"""

from collections.abc import Sequence
from typing import Literal

from consumer.settings.settings import Settings
from minutebook.compression import Compression
from minutebook.errors import BufferTooOld
from minutebook.format.minute import MINUTE_MS
from minutebook.format.record import Measured, Record
from minutebook.format.segment import SegmentWriter

Reason = Literal[
    "minute",
    "size",
    "stored_range",
    "beginning",
    "near_retention",
    "flush",
    "age",
    "idle",
    "shutdown",
    "shard_end",
]
"""Why a buffer is committed."""


class Buffer:
    """Records of one minute. `since` and `last_arrival`: when the first and the last came, in monotonic seconds.

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
        """Add records; those with an entry in `duplicates`, the verdicts, go beside. No verdicts: all are kept.

        `measured`: the sizes of these records, if the caller has them.
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
        """Return why a record of this minute and payload cannot be added; None if it can."""
        if minute != self.segment.minute:
            return "minute"
        return "size" if payload_bytes > self.room else None

    def due(self, now: float, now_ms: int, *, near_retention: bool) -> Reason | None:
        """Return why the buffer must be committed now; None if it may wait."""
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
        """Return whether half of the time for which it may be held is over.

        Its minute may still be in delivery, in a slow catch-up or with throttled claims. Without this commit, the
        buffer would be dropped at the end of that time, read again as slowly, and dropped again for ever.
        """
        return self.seconds_left(now) <= self._settings.max_segment_age_seconds / 2

    def seconds_left(self, now: float) -> float:
        """Return for how long it may still be sent: after that, its slot may have been expired."""
        return self._settings.max_segment_age_seconds - (now - self.since)

    def check_age(self, now: float) -> None:
        """Raise BufferTooOld if the buffer is older than maxSegmentAgeSeconds."""
        age, segment = now - self.since, self.segment
        if age > self._settings.max_segment_age_seconds:
            raise BufferTooOld(
                f"the buffer of {segment.shard_id} is {age:.0f} s old, older than maxSegmentAgeSeconds "
                f"({self._settings.max_segment_age_seconds:g}); {segment.records} buffered records were thrown away",
                next_step="nothing is lost, they will be delivered again; look for pauses of this process or host, "
                "and for a wall clock that was stepped forward",
            )
