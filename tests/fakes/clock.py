"""A clock that stands still until a test moves it."""

from collections.abc import Callable

START_MS = 1_795_256_160_000
"""2026-11-21T10:16:00Z, the beginning of a minute."""


SleepHook = Callable[[float], None]


class ManualClock:
    """Implements `minutebook.clock.Clock`. Sleeping moves it; nothing else does unless asked.

    `on_sleep` is called before each sleep with its seconds: the place where a test lets others work while one
    process waits.
    """

    def __init__(self, now_ms: int = START_MS) -> None:
        self._wall_ms = now_ms
        self._monotonic = 1_000.0
        self.slept: list[float] = []
        self.on_sleep: SleepHook | None = None

    def now_ms(self) -> int:
        """Return the wall clock in epoch milliseconds."""
        return self._wall_ms

    def monotonic(self) -> float:
        """Return seconds that never step back."""
        return self._monotonic

    def sleep(self, seconds: float) -> None:
        """Move both clocks by `seconds` at once."""
        if seconds < 0:
            raise ValueError(f"cannot sleep {seconds} s")
        self.slept.append(seconds)
        if self.on_sleep is not None:
            self.on_sleep(seconds)
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Let time pass on both clocks; a suspended machine looks the same (CLOCK_BOOTTIME counts suspend)."""
        if seconds < 0:
            raise ValueError(f"time does not pass backwards: {seconds} s")
        self._wall_ms += round(seconds * 1000)
        self._monotonic += seconds

    def jump_wall(self, seconds: float) -> None:
        """Step the wall clock alone, forwards or backwards, as an operator or NTP does."""
        self._wall_ms += round(seconds * 1000)


class SkewedClock:
    """The clock of another machine: its wall clock is off by `skew_ms`, its monotonic time is that of `base`."""

    def __init__(self, base: ManualClock, skew_ms: int = 0) -> None:
        self._base = base
        self.skew_ms = skew_ms

    def now_ms(self) -> int:
        """Return this machine's idea of the wall clock."""
        return self._base.now_ms() + self.skew_ms

    def monotonic(self) -> float:
        """Return the base's monotonic seconds."""
        return self._base.monotonic()

    def sleep(self, seconds: float) -> None:
        """Let time pass for everyone."""
        self._base.sleep(seconds)
