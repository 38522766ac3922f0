"""Ctrl-C and SIGTERM: every day of a run ends at its next request, wait or Spark job.

A day may end at any step, as after a crash: publishing is one conditional write, and running the command again
finishes the day. A second signal ends the process at once.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from minutebook.clock import Clock
from minutebook.errors import MinutebookError

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_BY_SIGNAL: Final = 128
"""Shells report a command that a signal ended as 128 plus the signal's number."""
_TICK_SECONDS: Final = 0.2


class Stopped(MinutebookError):  # noqa: N818 - the name says what happened, as in minutebook.errors
    """The run was asked to end before this was done."""


class BudgetSpent(Stopped):
    """The time that the run was given is over, and the day was not begun."""

    exit_code = 4


class StopRequest:
    """Whether the run must end. It takes no lock, because a signal handler may interrupt any code."""

    def __init__(self) -> None:
        self.is_asked = False
        self._signal = 0

    @property
    def exit_code(self) -> int | None:
        """The exit code of a run that a signal ended; None without a signal."""
        return _BY_SIGNAL + self._signal if self._signal else None

    def ask(self) -> None:
        """End the run."""
        self.is_asked = True

    def forget(self) -> None:
        """Go on after a bug has ended a stream's days; a signal stays."""
        self.is_asked = self._signal != 0

    def check(self) -> None:
        """Raise Stopped if the run must end."""
        if self.is_asked:
            raise Stopped("the run was asked to end", next_step="run the command again: it finishes what is left")

    def note(self, number: int, _frame: FrameType | None) -> None:
        """Handle a signal; the second one has its default effect."""
        if self._signal:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self._signal = number
        self.is_asked = True


@contextmanager
def stopped_by_signals(stop: StopRequest) -> Iterator[None]:
    """Let SIGINT and SIGTERM end the run while the block runs; outside the main thread do nothing.

    A signal that the parent process ignores (nohup) stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    handlers = {number: signal.signal(number, stop.note) for number in numbers}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


class StoppableClock:
    """Implements `minutebook.clock.Clock` on another one: a sleep ends when the run must end."""

    def __init__(self, clock: Clock, stop: StopRequest) -> None:
        self._clock = clock
        self._stop = stop

    def now_ms(self) -> int:
        """Return the wall time."""
        return self._clock.now_ms()

    def monotonic(self) -> float:
        """Return the monotonic time."""
        return self._clock.monotonic()

    def sleep(self, seconds: float) -> None:
        """Block the calling thread; raises Stopped."""
        end = self._clock.monotonic() + seconds
        while (left := end - self._clock.monotonic()) > 0:
            self._stop.check()
            self._clock.sleep(min(left, _TICK_SECONDS))
        self._stop.check()
