"""Errors of tasks on their way to the driver: those that pass let Spark try a task again, the others end the job.

    a task raises                                   what Spark is given       what happens
    StoreUnavailable: its requests were repeated    an exception              the task is tried again, on any free
      for minutes, or its upload was lost                                     worker; the last try ends the job
    any other error of our tree: AccessDenied,      a value, and an update    the job is cancelled within a second
      a line that does not parse                    of an accumulator         of the task's end, whatever runs
    anything else: a lost worker, a full disk       an exception              as the first

Errors themselves do not travel well, so they go as text. An accumulator is what reaches the driver at the end of a
task and not of a job. Nothing is counted by it: Spark adds it twice where a task succeeds twice.
"""

import base64
import functools
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeVar

import msgspec

from minutebook.clock import SystemClock
from minutebook.errors import MinutebookError, OutcomeUnknown, StoreUnavailable
from minutebook.logs import Limit, configure_logging

if TYPE_CHECKING:
    from types import TracebackType

T = TypeVar("T")

TRIES: Final = 4
"""How often a task is tried: Spark's own default on a cluster (`spark.task.maxFailures`)."""
_PASSING: Final = (StoreUnavailable, OutcomeUnknown)
_MARK: Final = "minutebook-failure"
_MARKED: Final = re.compile(rf"{_MARK}:([A-Za-z0-9+/=]+):")


class Failure(NamedTuple):
    """An error of our tree that ended a task."""

    kind: str
    message: str
    next_step: str

    def error(self) -> MinutebookError:
        """Return the error as the same kind."""
        kinds: dict[str, type[MinutebookError]] = {}
        waiting: list[type[MinutebookError]] = [MinutebookError]
        while waiting:
            kind = waiting.pop()
            kinds[kind.__name__] = kind
            waiting += kind.__subclasses__()
        return kinds.get(self.kind, MinutebookError)(self.message, next_step=self.next_step)


def guarded(work: Callable[[], T], tell: Callable[[list[Failure]], None]) -> T | Failure:
    """Do the work of a task; return its result, or the failure that nothing can mend, which is told at once, too.

    Raises:
        TryAgain: an error that may have passed by the next try.
    """
    try:
        return work()
    except _PASSING as exc:
        raise TryAgain(_failure(exc)) from exc
    except MinutebookError as exc:
        failure = _failure(exc)
        tell([failure])
        return failure


def unwrapped(results: Iterable[T | Failure]) -> list[T]:
    """Return results as they are; raises the first failure among them."""
    found = []
    for result in results:
        if isinstance(result, Failure):
            raise result.error()
        found.append(result)
    return found


class TryAgain(Exception):  # noqa: N818 - the name says what Spark is to do
    """Tells Spark to try a task again; its text holds the failure for the driver, should this be the last try."""

    def __init__(self, failure: Failure) -> None:
        packed = base64.b64encode(msgspec.json.encode(failure)).decode()
        super().__init__(f"{failure.kind}: {failure.message} [{_MARK}:{packed}:]")


def failure_in(text: str) -> Failure | None:
    """Return the failure in what Spark says of a job that it gave up; None when it gave up for another reason."""
    found = _MARKED.search(text)
    return None if found is None else msgspec.json.decode(base64.b64decode(found[1]), type=Failure)


class Alarm:
    """What the tasks of one job tell before it ends; within its block the job can be cancelled."""

    def __init__(self, context: Any, tag: str) -> None:  # noqa: ANN401 - pyspark is untyped here
        self._context = context
        self._tag = tag
        self._heard = context.accumulator([], _first_failure())
        self._is_cancelled = False

    def __enter__(self) -> Self:
        self._context.addJobTag(self._tag)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        self._context.removeJobTag(self._tag)

    @property
    def tell(self) -> Callable[[list[Failure]], None]:
        """Return what tasks call."""
        add: Callable[[list[Failure]], None] = self._heard.add
        return add

    @property
    def failure(self) -> Failure | None:
        """Return the first failure that was told."""
        return next(iter(self._heard.value), None)

    def cancel_if_told(self) -> None:
        """Cancel the job, once, when a task has told that it is in vain."""
        if self.failure is not None and not self._is_cancelled:
            self._is_cancelled = True
            self._context.cancelJobsWithTag(self._tag)


@functools.cache
def configure_task_logging() -> None:
    """Let a worker's lines be those of the driver: JSON on its stderr, and few of them. Once in a process."""
    configure_logging("warning", limit=Limit(SystemClock()))


def _failure(error: MinutebookError) -> Failure:
    return Failure(type(error).__name__, str(error), error.next_step)


def _first_failure() -> Any:  # noqa: ANN401 - the same
    from pyspark.accumulators import AccumulatorParam  # noqa: PLC0415 - an extra

    class FirstFailure(AccumulatorParam[list[Failure]]):
        def zero(self, value: list[Failure]) -> list[Failure]:
            return value[:0]

        def addInPlace(self, value1: list[Failure], value2: list[Failure]) -> list[Failure]:  # noqa: N802 - Spark's name
            return value1 or value2[:1]

    return FirstFailure()
