"""Processes of this machine that work: forked from a server that has loaded what tasks need.

    a task raises                              what happens
    StoreUnavailable, OutcomeUnknown,          it is run again, up to `TRIES` times in all
      OSError (a full disk), MemoryError
    any other exception                        it is raised here, and no further task begins

When a process dies, all are replaced, and what was at work is run again, up to `TRIES` times a job. They end within a
second of the process that started them, however that ends; they have its environment, and leave Ctrl-C to it.
"""

import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import connection, forkserver
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar

from compaction.local.machine import WORKER_BYTES, workers_here
from compaction.tasks.failures import RETRYABLE, TRIES, Failure, configure_task_logging
from minutebook.errors import MinutebookError

T = TypeVar("T")
U = TypeVar("U")

_LOADED: Final = ["compaction.local.shuffle", "minutebook.cli"]
"""What the server loads: a task's modules, and what each process imports again as the main module's."""
_POLL_SECONDS: Final = 0.25
_HANDED_OUT: Final = 2
"""Tasks at work or next, for each process: none waits for this one."""


class WorkersLost(MinutebookError):  # noqa: N818 - the name says what happened, as in minutebook.errors
    """Processes died at their work, or could not finish it, again and again."""

    exit_code: ClassVar[int] = 5


class _NotStartedError(Exception):
    """A process could not be started; those that are there go on."""


_MAY_PASS: Final = (*RETRYABLE, WorkersLost)


class Workers:
    """A pool of processes, started by its first work. Threads may share it."""

    def __init__(self, count: int | None = None) -> None:
        self._count = workers_here() if count is None else count
        self._lock = threading.Lock()
        self._pool: ProcessPoolExecutor | None = None
        self._is_cancelled = False

    @property
    def count(self) -> int:
        """Number of processes."""
        return self._count

    @property
    def are_started(self) -> bool:
        """Whether there are processes."""
        return self._pool is not None

    def each(self, work: Callable[[T], U], items: Iterable[T]) -> Iterator[tuple[int, U]]:
        """Yield (index, `work(item)`) of every item, in the order in which they end; items are drawn as needed.

        Raises WorkersLost, or what work raised.
        """
        job = _Job(work, items, _HANDED_OUT * self._count)
        losses = 0
        try:
            while not job.is_done:
                try:
                    yield from self._run(job)
                except (BrokenProcessPool, _NotStartedError) as exc:
                    losses += 1
                    if self._is_cancelled or losses == TRIES:
                        raise self._lost(losses, exc) from exc
                    if isinstance(exc, BrokenProcessPool):
                        job.begin_anew()
        finally:
            job.take_back()

    def cancel(self) -> None:
        """Kill the processes; work at hand raises WorkersLost, and so does any later one until `renew`."""
        self._is_cancelled = True
        for process in multiprocessing.active_children():
            process.kill()

    def renew(self) -> None:
        """Take work again."""
        self._is_cancelled = False

    def close(self) -> None:
        """End the processes."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=not self._is_cancelled, cancel_futures=True)

    def _run(self, job: "_Job[T, U]") -> Iterator[tuple[int, U]]:
        """Run what is left of a job; raises BrokenProcessPool when a process died."""
        pool = self._started()
        try:
            while not job.is_done:
                if self._is_cancelled:
                    raise self._lost(0, None)
                job.hand_out(pool)
                yield from job.ended()
        except BrokenProcessPool:
            with self._lock:
                self._pool = None if self._pool is pool else self._pool
            pool.shutdown(wait=False, cancel_futures=True)
            raise

    def _started(self) -> ProcessPoolExecutor:
        with self._lock:
            if self._pool is None:
                context = multiprocessing.get_context("forkserver")
                context.set_forkserver_preload(_LOADED)
                with _starting(), _server_environment():
                    forkserver.ensure_running()
                self._pool = ProcessPoolExecutor(
                    self._count, mp_context=context, initializer=_begin, initargs=(dict(os.environ),)
                )
            return self._pool

    def _lost(self, times: int, error: Exception | None) -> WorkersLost:
        if self._is_cancelled:
            return WorkersLost("the work was cancelled", next_step="run the command again")
        if isinstance(error, _NotStartedError):
            return WorkersLost(
                f"{self._count} processes cannot be started: {error}",
                next_step="look at the limits of processes and memory (ulimit -u, pids), and at TMPDIR, whose path "
                "may have some 80 characters; then run the command again",
            )
        return WorkersLost(
            f"processes died at their work, {times} times in a row",
            next_step=f"the kernel's log (dmesg) tells whether memory ran out: each of {self._count} may take "
            f"{WORKER_BYTES >> 20} MB; then use a larger machine, or --engine spark",
        )


class _Job(Generic[T, U]):
    """Work on items: which are drawn and not done, by index, and how often each was tried."""

    def __init__(self, work: Callable[[T], U], items: Iterable[T], most: int) -> None:
        self._work = work
        self._items = enumerate(items)
        self._most = most
        self._drawn: dict[int, T] = {}
        self._tries: dict[int, int] = {}
        self._running: dict[Future[Any], int] = {}
        self.is_done = False

    def hand_out(self, pool: ProcessPoolExecutor) -> None:
        """Submit what is drawn and not at work, and further items as long as there is room."""
        for index in self._drawn.keys() - self._running.values():
            self._submit(pool, index)
        while len(self._drawn) < self._most:
            try:
                index, self._drawn[index] = next(self._items)
            except StopIteration:
                break
            self._submit(pool, index)
        self.is_done = not self._drawn

    def ended(self) -> Iterator[tuple[int, U]]:
        """Yield what ended within a moment; raise what was raised."""
        for future in wait(self._running, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED).done:
            index = self._running.pop(future)
            outcome = future.result()
            if not isinstance(outcome, _Failed):
                del self._drawn[index]
                yield index, outcome
                continue
            self._tries[index] = self._tries.get(index, 0) + 1
            if not outcome.may_pass or self._tries[index] == TRIES:
                raise outcome.failure.error()

    def begin_anew(self) -> None:
        """Forget what was submitted: the processes are gone."""
        self._running.clear()

    def take_back(self) -> None:
        """Cancel what has not begun."""
        for future in self._running:
            future.cancel()

    def _submit(self, pool: ProcessPoolExecutor, index: int) -> None:
        with _starting():  # a process is started with the first work that none is free for
            self._running[pool.submit(_outcome, self._work, self._drawn[index])] = index


class _Failed(NamedTuple):
    """What ended a task, and whether another try may pass."""

    failure: Failure
    may_pass: bool


def _outcome(work: Callable[[T], U], item: T) -> U | _Failed:
    """Run a task, in a process."""
    try:
        with told_as_lost():
            return work(item)
    except MinutebookError as exc:
        return _Failed(Failure.of(exc), isinstance(exc, _MAY_PASS))


def each_here(
    work: Callable[[T], U], items: Iterable[T], *, check: Callable[[], None] = lambda: None
) -> Iterator[tuple[int, U]]:
    """Do what `Workers.each` does without processes, with the same tries and errors; `check` comes before each."""
    for index, item in enumerate(items):
        yield index, _tried(work, item, check)


def _tried(work: Callable[[T], U], item: T, check: Callable[[], None]) -> U:
    tries = 0
    while True:
        check()
        try:
            with told_as_lost():
                return work(item)
        except _MAY_PASS:
            tries += 1
            if tries == TRIES:
                raise


@contextmanager
def told_as_lost() -> Iterator[None]:
    """Raise WorkersLost in place of a fault of this machine: it is that of one day, and no bug."""
    try:
        yield
    except (OSError, MemoryError) as exc:
        raise WorkersLost(
            f"a process could not finish its work: {type(exc).__name__}: {exc}",
            next_step="look at the disk and the memory of this machine; then run the command again",
        ) from exc


def _begin(environment: dict[str, str]) -> None:
    """Prepare a process: its environment, its log, and that it does not outlive the one that works with it."""
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    configure_task_logging()
    gc.freeze()  # what was loaded is neither looked at by the collector nor copied
    parent = multiprocessing.parent_process()
    assert parent is not None  # noqa: S101 - for the type checker: this is a child

    def end_with_it() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=end_with_it, name="parent", daemon=True).start()


@contextmanager
def _starting() -> Iterator[None]:
    """Raise _NotStartedError in place of what a server says that cannot be reached, or cannot fork."""
    try:
        yield
    except (OSError, EOFError) as exc:
        raise _NotStartedError(f"{type(exc).__name__}: {exc}") from exc


@contextmanager
def _server_environment() -> Iterator[None]:
    """While the server is started: it imports nothing of the working directory, and numpy starts no threads."""
    before = dict(os.environ)
    os.environ.update(PYTHONSAFEPATH="1", OPENBLAS_NUM_THREADS="1")
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
