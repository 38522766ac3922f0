"""Run tasks on this machine: a small night in this process, others in processes beside it."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import Final, TypeVar

from compaction.local.shuffle import Begin, Each, ShuffledHere, in_order, shuffled
from compaction.local.workers import Workers, each_here
from compaction.shard_groups.local import LocalGroupSource
from compaction.shard_groups.port import GroupSource
from compaction.tasks.progress import Progress, phase_of
from compaction.tasks.task import Order, TaskResult, run

T = TypeVar("T")
U = TypeVar("U")

_HERE_BYTES: Final = 64 << 20
"""Compressed bytes of tasks that are run in this process: a second of work; to start others takes as long."""
_FEW: Final = 2


class LocalEngine:
    """Runs tasks; days in threads share it. `check` is called before each task is handed out, and may raise.

    `progress` is entered with the first work.
    """

    def __init__(
        self,
        stack: ExitStack,
        check: Callable[[], None],
        progress: Callable[[], AbstractContextManager[Progress]],
        workers: Workers | None = None,
    ) -> None:
        self._stack = stack
        self._check = check
        self._entered = progress
        self._progress: Progress | None = None
        self._lock = threading.Lock()
        self._workers = Workers() if workers is None else workers
        self._here: Each = partial(each_here, check=check)
        stack.callback(self._workers.close)

    @property
    def cores(self) -> int:
        """Tasks that run at once."""
        return self._workers.count

    def __call__(self, orders: Sequence[Order]) -> list[TaskResult]:
        """Run the tasks; return results in order. Raises WorkersLost, or what a task raised."""
        return in_order(self._begin_for(orders)(phase_of(orders), len(orders))(run, orders)) if orders else []

    def shuffle(self, orders: Sequence[Order]) -> ShuffledHere:
        """Run tasks that collect ids; see `compaction.local.shuffle`."""
        return shuffled(self._begin_for(orders), orders)

    def spread(self, work: Callable[[T], U], items: Sequence[T]) -> list[U]:
        """Return `work(item)` for each item, in order."""
        is_small = len(items) < _FEW and not self._workers.are_started
        return in_order(self._told(self._here if is_small else self._workers.each, "work", len(items))(work, items))

    def group_source(self, groups: int) -> GroupSource:
        """Return this process, which runs only tasks elsewhere."""
        del groups
        return LocalGroupSource(self, self.shuffle)

    def cancel(self) -> None:
        """End the work at hand."""
        self._workers.cancel()

    def forget_gone(self) -> None:
        """Work again for the next stream."""
        self._workers.renew()

    def _begin_for(self, orders: Sequence[Order]) -> Begin:
        is_small = len(orders) < _FEW or sum(order.task.size for order in orders) < _HERE_BYTES
        each: Each = self._here if is_small and not self._workers.are_started else self._workers.each
        return partial(self._told, each)

    def _told(self, each: Each, phase: str, total: int) -> Each:
        """Return the same, checked before each item, and with progress."""

        def checked(items: Iterable[T]) -> Iterator[T]:
            for item in items:
                self._check()
                yield item

        def run_each(work: Callable[[T], U], items: Iterable[T]) -> Iterator[tuple[int, U]]:
            progress = self._started_progress()
            for done, pair in enumerate(each(work, checked(items)), start=1):
                progress(phase, done, total)
                yield pair

        return run_each

    def _started_progress(self) -> Progress:
        with self._lock:
            if self._progress is None:
                self._progress = self._stack.enter_context(self._entered())
            return self._progress
