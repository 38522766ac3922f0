"""What ended a task, as text: exceptions do not pickle well."""

import functools
from typing import Final, NamedTuple

from minutebook.clock import SystemClock
from minutebook.errors import MinutebookError, OutcomeUnknown, StoreUnavailable
from minutebook.logs import Limit, configure_logging

TRIES: Final = 4
"""Attempts of a task: Spark's default on a cluster (`spark.task.maxFailures`)."""
RETRYABLE: Final = (StoreUnavailable, OutcomeUnknown)
"""What another attempt may not meet."""


class Failure(NamedTuple):
    """A MinutebookError that ended a task."""

    kind: str
    message: str
    next_step: str

    @classmethod
    def of(cls, error: MinutebookError) -> "Failure":
        """Return an error as a failure."""
        return cls(type(error).__name__, str(error), error.next_step)

    def error(self) -> MinutebookError:
        """Return the error as the same kind."""
        kinds: dict[str, type[MinutebookError]] = {}
        waiting: list[type[MinutebookError]] = [MinutebookError]
        while waiting:
            kind = waiting.pop()
            kinds[kind.__name__] = kind
            waiting += kind.__subclasses__()
        return kinds.get(self.kind, MinutebookError)(self.message, next_step=self.next_step)


@functools.cache
def configure_task_logging() -> None:
    """Configure a worker's log as the driver's: JSON on stderr, rate-limited. Once in a process."""
    configure_logging("warning", limit=Limit(SystemClock()))
