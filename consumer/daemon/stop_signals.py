"""SIGTERM, SIGINT and SIGHUP as something that can be waited for, together with a process."""

import os
import select
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Final

_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class StopSignals:
    """The stop signals that arrived since `listen`, oldest first."""

    def __init__(self, wake: int) -> None:
        self.received: list[signal.Signals] = []
        self._wake = wake

    def note(self, number: int, _frame: FrameType | None) -> None:
        """Take a signal; the handler."""
        self.received.append(signal.Signals(number))

    def wait(self, descriptors: Sequence[int], seconds: float | None) -> None:
        """Return when a descriptor is readable, a signal has arrived, or `seconds` have passed."""
        ready, _, _ = select.select([*descriptors, self._wake], [], [], seconds)
        if self._wake in ready:
            os.read(self._wake, 4096)


@contextmanager
def listen() -> Iterator[StopSignals]:
    """Take over the stop signals while the block runs. Main thread only.

    A signal that whoever started us ignores (nohup) stays ignored.
    """
    read_end, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signals = StopSignals(read_end)
    heard = [number for number in _STOP_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, signals.note) for number in heard}
    wakeup_before = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    try:
        yield signals
    finally:
        signal.set_wakeup_fd(wakeup_before)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(read_end)
        os.close(write_end)
