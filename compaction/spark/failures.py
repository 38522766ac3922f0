"""Report errors of tasks to the driver: Spark retries a task after a retryable error, others cancel the job.

    a task raises                                   Spark gets                what happens
    StoreUnavailable: its requests were retried     an exception              the task is retried, on any free
      for minutes, or its upload was lost                                     worker; the last attempt fails the job
    any other MinutebookError: access denied,       a value, and an update    the job is cancelled within a second
      a line that does not parse                    of an accumulator         of the task's end
    anything else: a lost worker, a full disk       an exception              as the first

An accumulator reaches the driver at the end of a task, not only at the end of the job. It counts nothing, because
Spark adds it twice if a task succeeds twice.
"""

import base64
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import msgspec

from compaction.tasks.failures import RETRYABLE, Failure
from minutebook.errors import MinutebookError

if TYPE_CHECKING:
    from types import TracebackType

T = TypeVar("T")

_MARK: Final = "minutebook-failure"
_MARKED: Final = re.compile(rf"{_MARK}:([A-Za-z0-9+/=]+):")


def guarded(work: Callable[[], T], tell: Callable[[list[Failure]], None]) -> T | Failure:
    """Return the result of a task, or its failure for good, which `tell` gets, too; raise TryAgain after another."""
    try:
        return work()
    except RETRYABLE as exc:
        raise TryAgain(Failure.of(exc)) from exc
    except MinutebookError as exc:
        failure = Failure.of(exc)
        tell([failure])
        return failure


def unwrapped(results: Iterable[T | Failure]) -> list[T]:
    """Return the results; raise the first failure among them."""
    values = []
    for result in results:
        if isinstance(result, Failure):
            raise result.error()
        values.append(result)
    return values


class TryAgain(Exception):  # noqa: N818 - the name says what Spark is to do
    """Makes Spark retry a task; its text holds the failure, for the driver after the last attempt."""

    def __init__(self, failure: Failure) -> None:
        packed = base64.b64encode(msgspec.json.encode(failure)).decode()
        super().__init__(f"{failure.kind}: {failure.message} [{_MARK}:{packed}:]")


def failure_in(text: str) -> Failure | None:
    """Return the failure in Spark's error message of a job; None: the job failed for another reason."""
    marked = _MARKED.search(text)
    return None if marked is None else msgspec.json.decode(base64.b64decode(marked[1]), type=Failure)


class Alarm:
    """Receives failures of the tasks of a job while it runs; inside its block the job can be cancelled."""

    def __init__(self, context: Any, tag: str) -> None:  # noqa: ANN401 - pyspark is untyped here
        self._context = context
        self._tag = tag
        self._failures = context.accumulator([], _first_failure())
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
        """The function that tasks call with a failure."""
        add: Callable[[list[Failure]], None] = self._failures.add
        return add

    @property
    def failure(self) -> Failure | None:
        """The first failure."""
        return next(iter(self._failures.value), None)

    def cancel_if_told(self) -> None:
        """Cancel the job, once, if a task has failed for good."""
        if self.failure is not None and not self._is_cancelled:
            self._is_cancelled = True
            self._context.cancelJobsWithTag(self._tag)


def _first_failure() -> Any:  # noqa: ANN401 - pyspark is untyped here
    from pyspark.accumulators import AccumulatorParam  # noqa: PLC0415 - an extra

    class FirstFailure(AccumulatorParam[list[Failure]]):
        def zero(self, value: list[Failure]) -> list[Failure]:
            return value[:0]

        def addInPlace(self, value1: list[Failure], value2: list[Failure]) -> list[Failure]:  # noqa: N802 - Spark's name
            return value1 or value2[:1]

    return FirstFailure()
