"""Run days side by side: each in its own thread, all on one Spark session.

A day that raises a MinutebookError ends alone. Any other exception is a bug: no further day begins, running ones are
stopped, and it is raised. Each result is shown and dropped before the next one, so that a run of a month holds only
the days at work and a line for each finished one.
"""

import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from compaction.inventory.memory import collect_what_is_left
from compaction.night.days.stop import StopRequest
from minutebook.clock import Clock
from minutebook.errors import MinutebookError
from minutebook.format.day import Day
from minutebook.logs import in_context

T = TypeVar("T")

THREAD: Final = "day"
"""Prefix of the threads' names, and so of Spark's pools."""
_TICK_SECONDS: Final = 0.5


class DayDone(NamedTuple, Generic[T]):
    """A day that is over: its result, or the error that ended it."""

    day: Day
    seconds: float
    result: T | None
    error: BaseException | None


class DayWorkers(NamedTuple):
    """`parallel` threads, each of which works on one day at a time, until `stop` ends the run.

    `cancel` cancels Spark's jobs; `give_back` frees memory after each day that has been shown.
    """

    parallel: int
    stop: StopRequest
    clock: Clock
    cancel: Callable[[], None]
    give_back: Callable[[], None] = collect_what_is_left

    def run(self, days: Sequence[Day], work: Callable[[Day], T], show: Callable[[DayDone[T]], None]) -> None:
        """Work on the days; `show` is called for each day in this thread, in the order in which they end.

        After a stop no other day begins, and `cancel` is called until running ones have ended. Raises any error that
        is no MinutebookError.
        """
        waiting, ended = deque(days), queue.Queue[DayDone[T]](maxsize=1)

        def serve() -> None:
            while True:
                try:
                    day = waiting.popleft()
                except IndexError:
                    return
                ended.put(self._work_on(day, work))

        count = min(self.parallel, len(days))
        # What is bound for the lines of the log goes along: which stream of a folder it is.
        threads = [
            threading.Thread(target=in_context(serve), name=f"{THREAD}-{number}", daemon=True)
            for number in range(count)
        ]
        for thread in threads:
            thread.start()
        fault: BaseException | None = None
        for _ in days:
            done = self._next(ended)
            if done.error is not None and not isinstance(done.error, MinutebookError):
                fault = fault or done.error
                self.stop.ask()
            else:
                show(done)
            del done
            if not self.stop.is_asked:
                self.give_back()
        for thread in threads:
            thread.join()
        if fault is not None:
            raise fault

    def _work_on(self, day: Day, work: Callable[[Day], T]) -> DayDone[T]:
        begin = self.clock.monotonic()
        try:
            self.stop.check()
            result = work(day)
        except BaseException as exc:  # noqa: BLE001 - it is raised in the main thread, or a row of the table
            return DayDone(day, self.clock.monotonic() - begin, None, self._or_stopped(exc))
        return DayDone(day, self.clock.monotonic() - begin, result, None)

    def _or_stopped(self, error: BaseException) -> BaseException:
        """Return Stopped instead of a MinutebookError after a stop: a cancelled job fails with Spark's error."""
        if not isinstance(error, MinutebookError):
            return error
        try:
            self.stop.check()
        except MinutebookError as stopped:
            return stopped
        return error

    def _next(self, ended: "queue.Queue[DayDone[T]]") -> DayDone[T]:
        while True:
            try:
                return ended.get(timeout=_TICK_SECONDS)
            except queue.Empty:
                if self.stop.is_asked:
                    self.cancel()
