"""What a processor tells its supervisor while nothing happens that a person would want to read.

Lines of level debug: a processor under a supervisor writes them whatever `minutebook.logLevel` says, and the
supervisor passes on only what that level asks for. They are what its gauges and its health check are made of: how old
the oldest record is that came and is not archived yet, and that the daemon still calls. A line comes before anything
that may block for long, so that a processor that hangs has said what it holds.
"""

from typing import Final

import structlog

from minutebook.clock import Clock

EVENT: Final = "progress"
_HEARTBEAT_SECONDS: Final = 5.0
"""How often a shard on which nothing happens is heard of."""


class Progress:
    """The progress of one shard. Times of records are epoch milliseconds."""

    def __init__(self, shard_id: str, clock: Clock) -> None:
        self._clock = clock
        self._oldest_ms: int | None = None
        self._told_at: float | None = None
        self._said_at = clock.monotonic()
        self._buffer_bytes = 0
        self._log = structlog.get_logger().bind(shard=shard_id)

    def received(self, arrival_ms: int) -> None:
        """Take the arrival of a batch's first record, before anything is done with it."""
        if self._oldest_ms is None:
            self._oldest_ms = arrival_ms
            self._tell(0, None)
            self._told_at = None

    def lives(self) -> None:
        """Say within a call that takes long, now and then, that it goes on: else this would be taken for a hang."""
        if self._clock.monotonic() - self._said_at >= _HEARTBEAT_SECONDS:
            self._say(self._buffer_bytes, None)

    def settled(self, oldest_ms: int | None, buffer_bytes: int, behind_ms: int | None = None) -> None:
        """Take what is held at the end of a call: since which arrival, and how many bytes; None when nothing is.

        `behind_ms` is how far the call was behind the stream's tip, where the daemon knows.
        """
        now = self._clock.monotonic()
        if oldest_ms != self._oldest_ms or self._told_at is None or now - self._told_at >= _HEARTBEAT_SECONDS:
            self._oldest_ms = oldest_ms
            self._tell(buffer_bytes, behind_ms)

    def _tell(self, buffer_bytes: int, behind_ms: int | None) -> None:
        self._told_at, self._buffer_bytes = self._clock.monotonic(), buffer_bytes
        self._say(buffer_bytes, behind_ms)

    def _say(self, buffer_bytes: int, behind_ms: int | None) -> None:
        self._said_at = self._clock.monotonic()
        self._log.debug(EVENT, oldest_ms=self._oldest_ms, buffer_bytes=buffer_bytes, behind_ms=behind_ms)
