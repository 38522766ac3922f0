"""Start Spark with the first task: level inventory, and published days, need none."""

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, Final, TypeVar

from compaction.shard_groups.local import LocalGroupSource
from compaction.shard_groups.port import GroupSource
from compaction.spark.engine import Progress, SparkEngine
from compaction.spark.session import spark_java
from compaction.tasks.task import Order, TaskResult

if TYPE_CHECKING:
    from compaction.job.context import Shuffled

_MANY_GROUPS: Final = 18
"""Groups of a day (128 shards and more) whose objects are listed, read and judged by workers."""
T = TypeVar("T")
U = TypeVar("U")


class LazySpark:
    """An engine shared by days in threads; each thread's jobs get a fair share of the session.

    `check` is called before each job and may raise; `progress` is entered when Spark is started.
    """

    def __init__(
        self,
        stack: ExitStack,
        master: str,
        check: Callable[[], None],
        progress: Callable[[], AbstractContextManager[Progress]],
    ) -> None:
        self._stack = stack
        self._master = master
        self._check = check
        self._progress = progress
        self._lock = threading.Lock()
        self._engine: SparkEngine | None = None

    def __call__(self, orders: Sequence[Order]) -> list[TaskResult]:
        """Run the tasks; see `SparkEngine`."""
        if not orders:
            return []
        return self._started()(orders)

    def shuffle(self, orders: Sequence[Order]) -> "Shuffled":
        """Run tasks that collect ids; see `SparkEngine`."""
        return self._started().shuffle(orders)

    def spread(self, work: Callable[[T], U], items: Sequence[T]) -> list[U]:
        """Run `work(item)` for each item, in tasks; see `SparkEngine.each`."""
        return self._started().each(work, items) if items else []

    def group_source(self, groups: int) -> GroupSource:
        """Return Spark for days of many shards; for others this process, which sends only tasks to Spark."""
        if groups < _MANY_GROUPS or spark_java() is None:
            return LocalGroupSource(self, self.shuffle)
        return self._started()

    def cancel(self) -> None:
        """Cancel the running jobs."""
        if self._engine is not None:
            self._engine.cancel()

    def _started(self) -> SparkEngine:
        with self._lock:
            self._check()
            if self._engine is None:
                progress = self._stack.enter_context(self._progress())
                self._engine = self._stack.enter_context(SparkEngine(self._master, progress=progress))
                self._check()  # starting takes seconds
        self._engine.use_pool(threading.current_thread().name)
        return self._engine
