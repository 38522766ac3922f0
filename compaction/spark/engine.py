"""Run tasks in a Spark session.

RDDs, not DataFrames: the work is plain Python, and payloads are never shuffled. Counts come from returned results,
not from accumulators or `observe`, which count retried tasks twice. Runs on PySpark 3.5, 4.0 and 4.3.
"""

import functools
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeVar

from compaction.inventory.memory import Turns
from compaction.shard_groups.local import LocalGroupSource
from compaction.shard_groups.port import GroupSource
from compaction.spark import session
from compaction.spark.failures import Alarm, failure_in, guarded, unwrapped
from compaction.spark.shuffle import Jobs, ShuffledIds, collected, values
from compaction.spark.spark_groups import SparkShardGroups, scatter
from compaction.tasks.failures import Failure, configure_task_logging
from compaction.tasks.progress import Progress, no_progress, phase_of
from compaction.tasks.task import Order, TaskResult, run
from minutebook.clock import new_id

if TYPE_CHECKING:
    from pathlib import Path

    from compaction.job.context import Shuffled

T = TypeVar("T")
U = TypeVar("U")

_POLL_SECONDS = 0.25
_POLLS = Turns(240)
"""Polls of all jobs; py4j leaves about 1 MB of garbage a minute."""
_GROUPS = itertools.count(1)
MANY_GROUPS: Final = 18
"""Groups of a day (129 shards and more) whose objects are listed, read and judged by workers."""


class SparkEngine:
    """A session: `with SparkEngine(...) as engine: engine(orders)`. Implements `GroupSource`.

    Under spark-submit (or in a notebook) the platform's session is used and left running. Otherwise a local one is
    started; the output of its JVM and workers goes to a log file that errors name.
    """

    def __init__(self, master: str = "local[*]", *, progress: Progress = no_progress) -> None:
        self._master = master
        self._progress = progress
        self._context: Any = None
        self._is_platforms = False
        self._before: dict[str, str] = {}
        self._log: Path | None = None

    def __enter__(self) -> Self:
        self._is_platforms = session.submitted()
        if self._is_platforms:
            from pyspark.sql import SparkSession  # noqa: PLC0415 - the platform's

            self._context = SparkSession.builder.appName("minutebook").getOrCreate().sparkContext
        else:
            session.check_java()
            self._context, self._log = session.start_spark(self._master)
        self._before = session.use_safe_path(self._context)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(keep_log=kind is not None)

    def stop(self, *, keep_log: bool) -> None:
        """Stop the session, or give the platform's back; nothing if that was done before."""
        if self._context is not None and self._is_platforms:
            self._context.environment = self._before
        elif self._context is not None:
            session.stop(self._context)
            if self._log is not None and not keep_log:
                self._log.unlink(missing_ok=True)
        self._context = None

    @property
    def is_gone(self) -> bool:
        """Whether the JVM that this process started has ended, for want of memory or by a signal."""
        started = self._context is not None and not self._is_platforms
        return started and self._context._gateway.proc.poll() is not None  # noqa: SLF001 - we started it

    def use_pool(self, name: str) -> None:
        """Put the jobs of this thread into a scheduler pool; pools share the session fairly."""
        self._context.setLocalProperty("spark.scheduler.pool", name)

    def cancel(self) -> None:
        """Cancel the running jobs of all threads, where they raise SparkFailed."""
        if self._context is not None:
            self._context.cancelAllJobs()

    def __call__(self, orders: Sequence[Order]) -> list[TaskResult]:
        """Run the tasks; return results in order. Raises SparkFailed, or what a task raised, as the same kind."""
        return self.each(run, orders, phase_of(orders)) if orders else []

    def each(self, work: Callable[[T], U], items: Sequence[T], what: str = "work") -> list[U]:
        """Return `work(item)` of every item, in order; each is a task. Raises as `__call__`."""
        if not items:
            return []
        with self.alarm() as alarm:
            rdd = self._context.parallelize(items, len(items)).map(functools.partial(_guarded, work, alarm.tell))
            return unwrapped(self._job(what, len(items), rdd.collect, alarm))

    def shuffle(self, orders: Sequence[Order]) -> "Shuffled":
        """Run tasks that collect ids; return their results, and the ids, which stay in Spark's shuffle files.

        Partition 0 of the shuffle holds the results, the others the ids. Spark uses one attempt of each task for a
        shuffle, so ids and results are of the same attempt. Raises as `__call__`.
        """
        count = 1 + max(order.ids.partitions for order in orders if order.ids is not None)
        with self.alarm() as alarm:
            collect = functools.partial(collected, alarm.tell, count)
            shuffled = self._context.parallelize(orders, len(orders)).flatMap(collect).partitionBy(count, int)
            results = self._partitions(phase_of(orders), shuffled, [0], values, alarm)
        return ShuffledIds(self.jobs, shuffled, sorted(unwrapped(results), key=lambda result: result.number))

    @property
    def jobs(self) -> Jobs:
        """What shuffles run their jobs with."""
        return Jobs(self._context, self.alarm, self._partitions)

    def _partitions(
        self,
        what: str,
        rdd: Any,  # noqa: ANN401 - pyspark is untyped here
        numbers: Sequence[int],
        work: Callable[[Iterable[Any]], list[Any]],
        alarm: Alarm,
    ) -> list[Any]:
        """Return the results of `work` on some partitions, in order. Raises as `__call__`."""
        action = functools.partial(self._context.runJob, rdd, work, numbers)
        return self._job(what, len(numbers), action, alarm)

    @property
    def is_local(self) -> bool:
        """False: work runs in workers, which open their own clients."""
        return False

    def scatter(self, items: Sequence[Any]) -> SparkShardGroups:
        """Return groups of one item each; see `GroupSource`."""
        return scatter(self.jobs, items)

    def alarm(self) -> Alarm:
        """Return a new alarm for the tasks of one job."""
        return Alarm(self._context, f"minutebook-{new_id()}")

    def _job(self, what: str, total: int, action: Callable[[], list[Any]], alarm: Alarm) -> list[Any]:
        with _watch(self._context, _Phase(what, total, self._progress), alarm):
            try:
                return action()
            except Exception as exc:  # py4j raises what the JVM did: nothing narrower exists
                failure = alarm.failure or failure_in(str(exc))
                if failure is not None:
                    raise failure.error() from exc
                where = f"; Spark's log is {self._log}" if self._log else ""
                raise session.SparkFailed(
                    f"Spark gave up: {session.last_line(exc)}{where}",
                    next_step="read the log; then run the command again",
                ) from exc


class _Phase(NamedTuple):
    """The purpose of a job, and its progress callback."""

    what: str
    total: int
    progress: Progress

    def tell(self, done: int) -> None:
        """Report the number of finished tasks."""
        self.progress(self.what, min(done, self.total), self.total)


@contextmanager
def _watch(context: Any, phase: _Phase, alarm: Alarm) -> Iterator[None]:  # noqa: ANN401 - pyspark is untyped here
    """Name the jobs of the block in Spark's UI, report their progress, and cancel them if a task failed for good.

    They form a job group, so that days that run concurrently count only their own stages.
    """
    done = threading.Event()
    tracker = context.statusTracker()
    group = f"minutebook-{next(_GROUPS)}"
    context.setJobGroup(group, f"minutebook: {phase.what}")

    def poll() -> None:
        while not done.wait(_POLL_SECONDS):
            alarm.cancel_if_told()
            phase.tell(completed_tasks(tracker, group))
            _POLLS.turn()

    phase.tell(0)
    watcher = threading.Thread(target=poll, name="spark-progress", daemon=True)
    watcher.start()
    try:
        yield
        phase.tell(phase.total)
    finally:
        done.set()
        watcher.join()


def completed_tasks(tracker: Any, group: str) -> int:  # noqa: ANN401 - pyspark is untyped here
    """Count the finished tasks of a job group; stages that Spark has forgotten count as 0."""
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    return sum(stage.numCompletedTasks for stage in stages if stage is not None)


def _guarded(work: Callable[[T], U], tell: Callable[[list[Failure]], None], item: T) -> U | Failure:
    configure_task_logging()
    return guarded(functools.partial(work, item), tell)


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
        if groups < MANY_GROUPS or session.spark_java() is None:
            return LocalGroupSource(self, self.shuffle)
        return self._started()

    @property
    def is_started(self) -> bool:
        """Whether a task needed it."""
        return self._engine is not None

    def cancel(self) -> None:
        """Cancel the running jobs."""
        if self._engine is not None:
            self._engine.cancel()

    def forget_gone(self) -> None:
        """Let the next task start Spark anew if its JVM has ended: what ended it was another stream's matter."""
        with self._lock:
            if self._engine is not None and self._engine.is_gone:
                self._engine.stop(keep_log=True)
                self._engine = None

    def _started(self) -> SparkEngine:
        with self._lock:
            self._check()
            if self._engine is None:
                progress = self._stack.enter_context(self._progress())
                self._engine = self._stack.enter_context(SparkEngine(self._master, progress=progress))
                self._check()  # starting takes seconds
        self._engine.use_pool(threading.current_thread().name)
        return self._engine
