"""Days side by side: each in a thread of its own, all on one Spark session.

A day that raises an error of our tree ends alone. Any other exception is a fault of the program: no further day
begins, those that run are stopped, and it is raised. What a day has given is shown and let go of before the next
one's: a run of a month holds what its days at work need, and a line for each that is over.
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

T = TypeVar("T")

THREAD: Final = "day"
"""What the names of the threads begin with; Spark's pools are called as they are."""
_TICK_SECONDS: Final = 0.5


class DayDone(NamedTuple, Generic[T]):
    """A day that is over: what it gave, or the error that ended it."""

    day: Day
    seconds: float
    given: T | None
    error: BaseException | None


class DayWorkers(NamedTuple):
    """So many threads, each of which works on one day at a time, until `stop` ends the run.

    `cancel` ends what Spark does for the days; `give_back` is called behind each day that has been shown.
    """

    parallel: int
    stop: StopRequest
    clock: Clock
    cancel: Callable[[], None]
    give_back: Callable[[], None] = collect_what_is_left

    def run(self, days: Sequence[Day], work: Callable[[Day], T], show: Callable[[DayDone[T]], None]) -> None:
        """Work on the days; `show` is called for each in this thread, in the order in which they end.

        Once the run is to end no other day begins, and `cancel` is called until those at work have noticed; `show` is
        given all days. Raises what is no MinutebookError.
        """
        waiting, ended = deque(days), queue.Queue[DayDone[T]](maxsize=1)

        def serve() -> None:
            while True:
                try:
                    day = waiting.popleft()
                except IndexError:
                    return
                ended.put(self._done(day, work))

        count = min(self.parallel, len(days))
        threads = [threading.Thread(target=serve, name=f"{THREAD}-{number}", daemon=True) for number in range(count)]
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

    def _done(self, day: Day, work: Callable[[Day], T]) -> DayDone[T]:
        begin = self.clock.monotonic()
        try:
            self.stop.check()
            given = work(day)
        except BaseException as exc:  # noqa: BLE001 - it is raised in the main thread, or a row of the table
            return DayDone(day, self.clock.monotonic() - begin, None, _as_seen(exc, self.stop))
        return DayDone(day, self.clock.monotonic() - begin, given, None)

    def _next(self, ended: "queue.Queue[DayDone[T]]") -> DayDone[T]:
        while True:
            try:
                return ended.get(timeout=_TICK_SECONDS)
            except queue.Empty:
                if self.stop.is_asked:
                    self.cancel()


def _as_seen(error: BaseException, stop: StopRequest) -> BaseException:
    """Return Stopped for an error of a day that was being stopped: a job that is cancelled fails in Spark's words."""
    if not isinstance(error, MinutebookError):
        return error
    try:
        stop.check()
    except MinutebookError as stopped:
        return stopped
    return error
