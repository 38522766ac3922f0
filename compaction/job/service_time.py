"""The time of a run: that of the service whose objects it judges, not of a host whose clock may be wrong.

Which days are over, and so which of them have a row, goes by it. By a clock that is eleven hours late yesterday is
not over, no row names it, and nothing tells that.
"""

from typing import Final

import structlog

from minutebook.clock import Clock
from minutebook.errors import StoreError
from minutebook.store.retrying import RetryingStorage

TOLERATED_MS: Final = 60_000
"""So far the two may be apart: the service tells whole seconds, and its answer takes a while."""


class ServiceClock:
    """Implements `minutebook.clock.Clock` on another one, whose wall time is late by `late_ms`."""

    def __init__(self, clock: Clock, late_ms: int) -> None:
        self._clock = clock
        self._late_ms = late_ms

    def now_ms(self) -> int:
        """Return the service's time."""
        return self._clock.now_ms() + self._late_ms

    def monotonic(self) -> float:
        """Return the monotonic time."""
        return self._clock.monotonic()

    def sleep(self, seconds: float) -> None:
        """Block the calling thread."""
        self._clock.sleep(seconds)


def by_service(clock: Clock, archive: RetryingStorage, prefix: str) -> Clock:
    """Return a clock that tells the time of the archive's service: the host's where that is right.

    A service that cannot be asked is no error here: whatever the run does with the archive meets the same.
    """
    try:
        late_ms = archive.now_ms(prefix) - clock.now_ms()
    except StoreError:
        return clock
    if abs(late_ms) <= TOLERATED_MS:
        return clock
    structlog.get_logger().warning(
        "host_clock_wrong",
        late_seconds=late_ms // 1000,
        next_step="set the host's clock (chrony, NTP); this run goes by the time of the archive's service",
    )
    return ServiceClock(clock, late_ms)
