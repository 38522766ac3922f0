"""Waiting for what no event announces."""

from collections.abc import Callable

from archive.clock import SystemClock

_CLOCK = SystemClock()


def wait_until(ready: Callable[[], bool], seconds: float, what: str) -> None:
    """Poll a condition.

    Raises:
        AssertionError: it did not become true in time.
    """
    deadline = _CLOCK.monotonic() + seconds
    while not ready():
        assert _CLOCK.monotonic() < deadline, f"{seconds:g} s without: {what}"
        _CLOCK.sleep(0.05)
