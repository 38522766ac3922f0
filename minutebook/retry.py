"""Retries: exponential backoff within a budget, and requests repeated while their outcome is unknown."""

import random
from collections.abc import Callable
from typing import Final, TypeVar

import structlog

from minutebook.clock import Clock, SystemClock, new_random
from minutebook.errors import OutcomeUnknown, StoreUnavailable

T = TypeVar("T")

_LOGGED_ATTEMPTS = 10
LOOK_AT_STORE: Final = "look at the store's health and at throttling"


class Backoff:
    """Exponential waits with jitter, within a budget of seconds in which pauses of the process count."""

    def __init__(
        self,
        clock: Clock,
        rng: random.Random,
        *,
        budget_seconds: float,
        first_seconds: float = 0.1,
        ceiling_seconds: float = 10.0,
    ) -> None:
        self._clock = clock
        self._rng = rng
        self._deadline = clock.monotonic() + budget_seconds
        self._next = first_seconds
        self._ceiling = ceiling_seconds

    @property
    def is_spent(self) -> bool:
        """Return whether the budget is spent."""
        return self._clock.monotonic() >= self._deadline

    def spent(self) -> "Backoff":
        """Return the same without any wait: one attempt is made."""
        return Backoff(self._clock, self._rng, budget_seconds=0)

    def wait(self) -> bool:
        """Sleep before the next attempt; False if the budget allows none."""
        left = self._deadline - self._clock.monotonic()
        if left <= 0:
            return False
        self._clock.sleep(min(left, self._rng.uniform(self._next / 2, self._next)))
        self._next = min(self._ceiling, self._next * 2)
        return self._clock.monotonic() < self._deadline


def backoff_within(budget_seconds: float) -> Callable[[], Backoff]:
    """Return a factory of backoffs with this budget, on the machine's clock."""
    clock, rng = SystemClock(), new_random()
    return lambda: Backoff(clock, rng, budget_seconds=budget_seconds)


def until_known(request: Callable[[], T], backoff: Backoff, what: str) -> T:
    """Repeat `request` while it raises OutcomeUnknown; raises StoreUnavailable once the backoff's budget is spent.

    The last answer's `next_step` says what to look at, if it has one.
    """
    attempts = 0
    while True:
        try:
            return request()
        except OutcomeUnknown as exc:
            attempts += 1
            step = exc.next_step or LOOK_AT_STORE
            # Log the first attempt and every so many after it: an outage neither stays silent nor floods the log.
            if attempts % _LOGGED_ATTEMPTS == 1:
                structlog.get_logger().warning(
                    "outcome_unknown",
                    request=what,
                    error=str(exc),
                    attempts=attempts,
                    next_step=f"nothing yet: it is sent again; if that goes on, {step}",
                )
            if not backoff.wait():
                raise StoreUnavailable(
                    f"gave up on {what}: {exc}",
                    next_step=f"{step}; nothing was checkpointed, the records will be delivered again",
                ) from exc
