"""Control of Python's cyclic garbage collector."""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_LOCK = threading.Lock()
_paused = 0
_was_on = False


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the collector in all threads; pauses may overlap.

    An audit makes millions of small values that live until its end and form no cycles: collections took 40 % of its
    time on 144,000 segments. What exists at the end is frozen, so that later collections skip it too, until
    `collect_what_is_left`.
    """
    global _paused, _was_on  # noqa: PLW0603 - the collector is the process's, and so is its state
    with _LOCK:
        if _paused == 0:
            _was_on = gc.isenabled()
            gc.disable()
        _paused += 1
    try:
        yield
    finally:
        with _LOCK:
            _paused -= 1
            if _paused == 0 and _was_on:
                gc.freeze()
                gc.enable()


class Turns:
    """Collects young garbage every `turns` turns of a loop, also while the collector is paused.

    Each call into Spark's JVM leaves some 5 KB of cycles: py4j's objects and their methods refer to each other.
    """

    def __init__(self, turns: int) -> None:
        self._turns = turns
        self._left = turns

    def turn(self) -> None:
        """Count a turn."""
        self._left -= 1
        if self._left <= 0:  # threads may count at once
            self._left = self._turns
            gc.collect(0)


def collect_what_is_left() -> None:
    """Collect the garbage of a finished day, frozen objects included."""
    gc.unfreeze()
    gc.collect()
