"""Clocks, random numbers and ids. Only this module reads them from the machine; all others take them as arguments."""

import itertools
import random
import time
import uuid
from collections.abc import Callable
from typing import Protocol

IdSource = Callable[[], str]
_JITTER_SECONDS = 0.1
"""By which the two clocks of a machine may seem to differ: they are not read at the same moment."""


class Clock(Protocol):
    """Wall time, a monotonic time that includes suspend, and sleep."""

    def now_ms(self) -> int:
        """Wall clock: milliseconds since the epoch, UTC. May jump."""

    def monotonic(self) -> float:
        """Seconds on a clock that never jumps back and counts time in suspend."""

    def sleep(self, seconds: float) -> None:
        """Block for `seconds`."""


class SystemClock:
    """The clocks of the machine."""

    def now_ms(self) -> int:
        """Return the wall clock in epoch milliseconds."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Return CLOCK_BOOTTIME in seconds: CLOCK_MONOTONIC stops in suspend, and a buffer's age must not."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def sleep(self, seconds: float) -> None:
        """Block the calling thread."""
        time.sleep(seconds)  # noqa: TID251 - this is the module that may


class PauseCountingClock:
    """The clocks of a machine whose monotonic clock may miss pauses: seconds count by the later of both clocks.

    While a virtual machine is paused, also its CLOCK_BOOTTIME may stand still; its wall clock is set afterwards. So
    whatever the wall clock gains on the monotonic one between two looks is added for good. A wall clock that steps
    back takes nothing away and hides no later pause; one that is stepped forward by mistake looks like a pause.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._missed = 0.0
        self._lead = clock.now_ms() / 1000 - clock.monotonic()

    def now_ms(self) -> int:
        """Return the wall clock in epoch milliseconds."""
        return self._clock.now_ms()

    def monotonic(self) -> float:
        """Return seconds that never step back, and count suspends and pauses."""
        now = self._clock.monotonic()
        lead = self._clock.now_ms() / 1000 - now
        if lead > self._lead + _JITTER_SECONDS:
            self._missed += lead - self._lead
            self._lead = lead
        self._lead = min(self._lead, lead)
        return now + self._missed

    def sleep(self, seconds: float) -> None:
        """Block the calling thread."""
        self._clock.sleep(seconds)


def new_id() -> str:
    """Return a process-unique random id (32 hex digits)."""
    return uuid.uuid4().hex  # noqa: TID251 - this is the module that may


def numbered_ids(run: str) -> IdSource:
    """Return a source of the ids `<run>-1`, `<run>-2`, ..."""
    return (f"{run}-{number}" for number in itertools.count(1)).__next__


def new_random() -> random.Random:
    """Return a generator seeded by the operating system, for backoff jitter."""
    return random.Random()  # noqa: S311 - jitter needs no cryptography
