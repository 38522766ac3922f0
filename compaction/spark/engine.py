"""Spark as an engine: carries tasks to workers and results back.

RDD tasks, no DataFrames: the work is plain Python, and payloads are never shuffled. Only returned rows count; neither
accumulators nor `observe`, which count retried tasks twice. Runs on PySpark 3.5, 4.0 and 4.3.
"""

import functools
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from archive.clock import SystemClock
from archive.errors import MinutebookError
from archive.logs import Limit, configure_logging
from compaction.spark.phases import phase_of
from compaction.spark.session import SparkFailed, check_java, last_line, start, stop, submitted
from compaction.tasks.event_ids import Layout, find_copies
from compaction.tasks.task import Order, TaskResult, run, run_collecting

if TYPE_CHECKING:
    from pathlib import Path

    from compaction.job.context import Shuffled

Progress = Callable[[str, int, int], None]
"""Called with (what runs, tasks done, tasks in all) while a job runs."""

_POLL_SECONDS = 0.25
_GROUPS = itertools.count(1)


class Failure(NamedTuple):
    """An error of our tree that ended a task; errors themselves do not travel well."""

    kind: str
    message: str
    next_step: str


def no_progress(what: str, done: int, total: int) -> None:
    """Show nothing."""


class SparkEngine:
    """A session: `with SparkEngine(...) as engine: engine(orders)`.

    Under spark-submit (or in a notebook) the platform's session is used as it is and left running. Otherwise a local
    one is started; what its JVM and workers say goes into a file that a failure names.
    """

    def __init__(self, master: str = "local[*]", *, progress: Progress = no_progress) -> None:
        self._master = master
        self._progress = progress
        self._session: Any = None
        self._is_platforms = False
        self._log: Path | None = None

    def __enter__(self) -> Self:
        self._is_platforms = submitted()
        if self._is_platforms:
            from pyspark.sql import SparkSession  # noqa: PLC0415 - the platform's

            self._session = SparkSession.builder.appName("minutebook").getOrCreate()
            return self
        check_java()
        self._session, self._log = start(self._master)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None and not self._is_platforms:
            stop(self._session)
            if self._log is not None and kind is None:
                self._log.unlink(missing_ok=True)

    def __call__(self, orders: Sequence[Order]) -> list[TaskResult]:
        """Run the tasks; returns their results in order.

        Raises:
            MinutebookError: what a task raised, as the same kind of error.
            SparkFailed: Spark itself failed.
        """
        if not orders:
            return []
        context = self._session.sparkContext
        rdd = context.parallelize(orders, len(orders)).map(_run_safely)
        return _unwrapped(self._job(phase_of(orders), len(orders), rdd.collect))

    def shuffle(self, orders: Sequence[Order]) -> "Shuffled":
        """Run tasks that ask for ids; returns their results, and the ids, which wait in Spark's shuffle files.

        One shuffle carries both: partition 0 the results, the others the ids. Spark takes one attempt of each task
        into a shuffle, so what is counted here is what a returned row names. Raises as `__call__`.
        """
        context = self._session.sparkContext
        count = 1 + max(order.ids.partitions for order in orders if order.ids is not None)
        shuffled = context.parallelize(orders, len(orders)).flatMap(_collect_safely).partitionBy(count, int)
        results = self._job(phase_of(orders), len(orders), lambda: context.runJob(shuffled, _values, [0]))

        def copies(layout: Layout) -> list[bytes]:
            work = functools.partial(_copies, layout)
            return self._job(
                "find repeated events", count - 1, lambda: context.runJob(shuffled, work, range(1, count))
            )

        return _Shuffled(sorted(_unwrapped(results), key=lambda result: result.number), copies)

    def _job(self, what: str, total: int, action: Callable[[], list[Any]]) -> list[Any]:
        with _watch(self._session.sparkContext, what, total, self._progress):
            try:
                return action()
            except Exception as exc:  # py4j raises what the JVM did: nothing narrower exists
                where = f"; Spark's log is {self._log}" if self._log else ""
                raise SparkFailed(
                    f"Spark gave up: {last_line(exc)}{where}", next_step="read the log; then run the command again"
                ) from exc


class _Shuffled(NamedTuple):
    """Implements `compaction.job.context.Shuffled`."""

    results: list[TaskResult]
    find: Callable[[Layout], list[bytes]]

    def copies(self, layout: Layout) -> list[bytes]:
        """Find the copies, each partition in a task."""
        return self.find(layout)


@contextmanager
def _watch(context: Any, what: str, total: int, progress: Progress) -> Iterator[None]:  # noqa: ANN401 - pyspark is untyped here
    """Name the jobs of the block in Spark's UI, and report their progress from Spark's status tracker.

    A group of its own for each block: days that run side by side count their own stages.
    """
    done = threading.Event()
    tracker = context.statusTracker()
    group = f"minutebook-{next(_GROUPS)}"
    context.setJobGroup(group, f"minutebook: {what}")

    def poll() -> None:
        while not done.wait(_POLL_SECONDS):
            progress(what, min(total, _completed(tracker, group)), total)

    progress(what, 0, total)
    watcher = threading.Thread(target=poll, name="spark-progress", daemon=True)
    watcher.start()
    try:
        yield
        progress(what, total, total)
    finally:
        done.set()
        watcher.join()


def _completed(tracker: Any, group: str) -> int:  # noqa: ANN401 - pyspark is untyped here
    """Count the tasks of a group's stages that are done; a stage that Spark no longer remembers counts none."""
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    return sum(stage.numCompletedTasks for stage in stages if stage is not None)


@functools.cache
def configure_task_logging() -> None:
    """Let a worker's lines be those of the driver: JSON on its stderr, and few of them. Once in a process."""
    configure_logging("warning", limit=Limit(SystemClock()))


def _run_safely(order: Order) -> TaskResult | Failure:
    configure_task_logging()
    try:
        return run(order)
    except MinutebookError as exc:
        return Failure(type(exc).__name__, str(exc), exc.next_step)


def _unwrapped(results: Iterable[TaskResult | Failure]) -> list[TaskResult]:
    found = []
    for result in results:
        if isinstance(result, Failure):
            raise _error(result)
        found.append(result)
    return found


def _collect_safely(order: Order) -> Iterator[tuple[int, TaskResult | Failure | bytes]]:
    """Run a task; yield its result for partition 0, and its ids for the others."""
    configure_task_logging()
    try:
        result, ids = run_collecting(order)
    except MinutebookError as exc:
        yield 0, Failure(type(exc).__name__, str(exc), exc.next_step)
        return
    yield 0, result
    for partition, rows in () if ids is None else ids.rows():
        yield partition + 1, rows


def _values(rows: Iterable[tuple[int, Any]]) -> list[Any]:
    return [value for _, value in rows]


def _copies(layout: Layout, rows: Iterable[tuple[int, bytes]]) -> list[bytes]:
    return [find_copies((chunk for _, chunk in rows), layout)]


def _error(failure: Failure) -> MinutebookError:
    kinds: dict[str, type[MinutebookError]] = {}
    waiting: list[type[MinutebookError]] = [MinutebookError]
    while waiting:
        kind = waiting.pop()
        kinds[kind.__name__] = kind
        waiting += kind.__subclasses__()
    return kinds.get(failure.kind, MinutebookError)(failure.message, next_step=failure.next_step)
