"""Spark, started with the first task: level inventory, and days that are published already, need none."""

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

_MANY_BUCKETS: Final = 18
"""Groups of 128 shards and more: their objects are listed, seen and judged by workers."""
T = TypeVar("T")
U = TypeVar("U")


class LazySpark:
    """An engine that days in threads share; the jobs of each thread get a fair share of the session.

    `check` raises what ends the run, before each job; `progress` is entered when Spark is started.
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
        """Run tasks that ask for ids; see `SparkEngine`."""
        return self._started().shuffle(orders)

    def spread(self, work: Callable[[T], U], items: Sequence[T]) -> list[U]:
        """Do the same work for each item, in tasks; see `SparkEngine`."""
        return self._started().each(work, items) if items else []

    def group_source(self, groups: int) -> GroupSource:
        """Return Spark for a day of many shards, and this process for others: their tasks alone go to Spark then."""
        if groups < _MANY_BUCKETS or spark_java() is None:
            return LocalGroupSource(self, self.shuffle)
        return self._started()

    def cancel(self) -> None:
        """End the jobs that run."""
        if self._engine is not None:
            self._engine.cancel()

    def _started(self) -> SparkEngine:
        with self._lock:
            self._check()
            if self._engine is None:
                progress = self._stack.enter_context(self._progress())
                self._engine = self._stack.enter_context(SparkEngine(self._master, progress=progress))
                self._check()  # starting took its time
        self._engine.use_pool(threading.current_thread().name)
        return self._engine
