"""Choose what runs a night's tasks: Spark, or processes of this machine.

--engine auto   Spark under spark-submit and with --master; else Spark for days that are large, where it is
installed, and this machine for the others
local, spark    as they say
"""

import importlib.util
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import cached_property
from typing import Final, Protocol, TypeVar

import structlog

from compaction.job.context import Shuffled
from compaction.local.engine import LocalEngine
from compaction.shard_groups.local import LocalGroupSource
from compaction.shard_groups.port import GroupSource
from compaction.spark import session
from compaction.spark.engine import MANY_GROUPS, LazySpark
from compaction.tasks.progress import Progress
from compaction.tasks.task import Order, TaskResult
from minutebook.errors import SettingsError

T = TypeVar("T")
U = TypeVar("U")

_MOST_OBJECTS: Final = 200_000
_MOST_SECONDS: Final = 1200
_BYTES_A_SECOND: Final = 12 << 20
"""Compressed bytes of segments that one core reads and writes in a second: docs/performance.md."""
_OBJECTS_A_SECOND: Final = 250
"""Segments that a task opens in a second: eight at once, and S3 answers in 30 ms."""
_LOCAL_MASTER: Final = "local[*]"


class TaskEngine(Protocol):
    """Runs tasks for the days of a run, which may be in threads."""

    def __call__(self, orders: Sequence[Order], /) -> list[TaskResult]:
        """Run tasks; return results in order."""
        ...

    def shuffle(self, orders: Sequence[Order]) -> Shuffled:
        """Run tasks that collect ids."""
        ...

    def spread(self, work: Callable[[T], U], items: Sequence[T]) -> list[U]:
        """Return `work(item)` for each item, in order."""
        ...

    def group_source(self, groups: int) -> GroupSource:
        """Return what makes shard groups for a day of so many groups."""
        ...

    def cancel(self) -> None:
        """End the work at hand, where it raises a MinutebookError."""
        ...

    def forget_gone(self) -> None:
        """Make good what ended another stream's run."""
        ...


def engine_for(
    name: str,
    master: str | None,
    stack: ExitStack,
    check: Callable[[], None],
    progress: Callable[[], AbstractContextManager[Progress]],
) -> TaskEngine:
    """Return the engine that was asked for; nothing is started. Raises SettingsError."""
    if name not in {"auto", "local", "spark"}:
        raise SettingsError(f"--engine {name} is not known", next_step="write auto, local or spark")
    if name == "local" and master is not None:
        raise SettingsError("--master is Spark's, which --engine local does without", next_step="leave one out")
    if name == "spark" or (name == "auto" and (master is not None or session.submitted())):
        if importlib.util.find_spec("pyspark") is None:
            raise SettingsError(
                f"{'--engine spark' if master is None else '--master'} needs PySpark, which is not installed",
                next_step="leave it out, since days of ordinary size need no Spark; or install spark.lock and the "
                "wheel, as `minutebook docs spark` says",
            )
        return LazySpark(stack, master or _LOCAL_MASTER, check, progress)
    local = LocalEngine(stack, check, progress)
    if name == "local":
        return local
    return AutoEngine(local, LazySpark(stack, _LOCAL_MASTER, check, progress) if _can_run_spark() else None)


def is_large(orders: Sequence[Order], cores: int) -> bool:
    """Whether tasks are many, or would take processes of this machine longer than twenty minutes."""
    objects = sum(len(group.objects) for order in orders for group in order.task.groups)
    size = sum(order.task.size for order in orders)
    seconds = (size / _BYTES_A_SECOND + objects / _OBJECTS_A_SECOND) / cores
    return objects > _MOST_OBJECTS or seconds > _MOST_SECONDS


class AutoEngine:
    """This machine for days of ordinary size, Spark for large ones; None: it cannot be run here."""

    def __init__(self, local: LocalEngine, spark: LazySpark | None) -> None:
        self._local = local
        self._spark = spark

    def __call__(self, orders: Sequence[Order]) -> list[TaskResult]:
        """Run the tasks."""
        return self._for(orders)(orders)

    def shuffle(self, orders: Sequence[Order]) -> Shuffled:
        """Run tasks that collect ids."""
        return self._for(orders).shuffle(orders)

    def spread(self, work: Callable[[T], U], items: Sequence[T]) -> list[U]:
        """Return `work(item)` for each item: by Spark where a day of this run needed it."""
        spark = self._spark
        return (self._local if spark is None or not spark.is_started else spark).spread(work, items)

    def group_source(self, groups: int) -> GroupSource:
        """Return Spark for a day of many groups; else this process, which sends tasks where they belong."""
        spark = self._large if groups >= MANY_GROUPS else None
        return LocalGroupSource(self, self.shuffle) if spark is None else spark.group_source(groups)

    @cached_property
    def _large(self) -> LazySpark | None:
        """Spark, if this machine's Java runs it: that is asked, by a start of it, with the first large day."""
        if self._spark is not None:
            try:
                session.check_java()
            except SettingsError as exc:
                structlog.get_logger().warning("spark_not_used", reason=str(exc), next_step=exc.next_step)
                return None
        return self._spark

    def cancel(self) -> None:
        """End the work at hand."""
        self._local.cancel()
        if self._spark is not None:
            self._spark.cancel()

    def forget_gone(self) -> None:
        """Make good what ended another stream's run."""
        self._local.forget_gone()
        if self._spark is not None:
            self._spark.forget_gone()

    def _for(self, orders: Sequence[Order]) -> LocalEngine | LazySpark:
        if not is_large(orders, self._local.cores):
            return self._local
        if self._large is not None:
            return self._large
        structlog.get_logger().warning(
            "large_day_without_spark",
            objects=sum(len(order.task.objects) for order in orders),
            next_step="this machine goes on alone; with PySpark and Java, or by spark-submit, it is faster",
        )
        return self._local


def _can_run_spark() -> bool:
    return importlib.util.find_spec("pyspark") is not None and session.spark_java() is not None
