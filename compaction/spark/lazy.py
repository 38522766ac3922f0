"""Spark, started with the first task that needs it."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Final

from compaction.dealing.local import LocalDealer
from compaction.dealing.port import Dealer
from compaction.job.context import Shuffled
from compaction.spark.engine import Progress, SparkEngine
from compaction.spark.session import find_java
from compaction.tasks.task import Order, TaskResult

_MANY_BUCKETS: Final = 18
"""Buckets of 128 shards and more: their objects are listed, seen and judged by workers."""


class LazySpark:
    """Starts Spark with the first task: level inventory, and days that are published already, need none."""

    def __init__(self, stack: ExitStack, progress: Callable[[], Progress], master: str) -> None:
        self._stack = stack
        self._progress = progress
        self._master = master
        self._engine: SparkEngine | None = None

    def __call__(self, orders: Sequence[Order]) -> list[TaskResult]:
        """Run tasks."""
        if not orders:
            return []
        return self._started()(orders)

    def shuffle(self, orders: Sequence[Order]) -> Shuffled:
        """Run tasks that ask for ids."""
        return self._started().shuffle(orders)

    def dealer(self, buckets: int) -> Dealer:
        """Return Spark for a day of many shards, and this process for others: their tasks alone go to Spark then."""
        if buckets < _MANY_BUCKETS or find_java() is None:
            return LocalDealer(self)
        return self._started()

    def _started(self) -> SparkEngine:
        if self._engine is None:
            self._engine = self._stack.enter_context(SparkEngine(self._master, progress=self._progress()))
        return self._engine
