"""Python's cyclic collector, kept out of the way."""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_LOCK = threading.Lock()
_paused = 0
_was_on = False


@contextmanager
def collector_paused() -> Iterator[None]:
    """Do not look for cycles meanwhile, in any thread; pauses may overlap.

    An examination makes millions of small values that live until its end and form no cycles; walking through them
    again and again took 40 % of its time on 144,000 segments. Nor is it walked once more when all is done: what is
    there by then is not looked at again, unless `collect_what_is_left` asks for it.
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
    """Collects, at each so many-th turn of a loop, the cycles made since then: also while the collector is paused.

    Every question to Spark's JVM leaves some 5 KB of them (py4j's objects and their methods name each other). Only
    what is young is walked through: the first time all that is there, then what the loop has left.
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
    """Give back what a day held that is over: what was put aside, too, is walked through once."""
    gc.unfreeze()
    gc.collect()
