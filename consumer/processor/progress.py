"""Progress lines of a processor for its supervisor.

They have level debug: under a supervisor a processor writes them at any `minutebook.logLevel`, and the supervisor
passes on only what that level allows. It derives its gauges and its health check from them: the age of the oldest
delivered record that is not archived, and that the daemon still calls. A line is written before anything that may
block for long, so that the supervisor knows what a hanging processor holds.
"""

from typing import Final

import structlog

from minutebook.clock import Clock

EVENT: Final = "progress"
_HEARTBEAT_SECONDS: Final = 5.0
"""How often an idle shard writes a line."""


class Progress:
    """Logs the progress of one shard. Times of records are epoch milliseconds."""

    def __init__(self, shard_id: str, clock: Clock) -> None:
        self._clock = clock
        self._oldest_ms: int | None = None
        self._state_at: float | None = None
        self._written_at = clock.monotonic()
        self._buffer_bytes = 0
        self._log = structlog.get_logger().bind(shard=shard_id)

    def received(self, arrival_ms: int) -> None:
        """Log the arrival of a batch's first record, before the batch is processed."""
        if self._oldest_ms is None:
            self._oldest_ms = arrival_ms
            self._log_state(0, None)
            self._state_at = None

    def lives(self) -> None:
        """Log a heartbeat in a long call, at most every 5 s, so that the supervisor does not report a hang."""
        if self._clock.monotonic() - self._written_at >= _HEARTBEAT_SECONDS:
            self._write(self._buffer_bytes, None)

    def settled(self, oldest_ms: int | None, buffer_bytes: int, behind_ms: int | None = None) -> None:
        """Log what is held at the end of a call: the oldest arrival (None: nothing), and the number of bytes.

        `behind_ms` is how far the call was behind the stream's tip, if the daemon knows.
        """
        now = self._clock.monotonic()
        if oldest_ms != self._oldest_ms or self._state_at is None or now - self._state_at >= _HEARTBEAT_SECONDS:
            self._oldest_ms = oldest_ms
            self._log_state(buffer_bytes, behind_ms)

    def _log_state(self, buffer_bytes: int, behind_ms: int | None) -> None:
        self._state_at, self._buffer_bytes = self._clock.monotonic(), buffer_bytes
        self._write(buffer_bytes, behind_ms)

    def _write(self, buffer_bytes: int, behind_ms: int | None) -> None:
        self._written_at = self._clock.monotonic()
        self._log.debug(EVENT, oldest_ms=self._oldest_ms, buffer_bytes=buffer_bytes, behind_ms=behind_ms)
