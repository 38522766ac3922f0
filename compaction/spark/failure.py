"""Errors of our tree on their way from a worker to the driver: errors themselves do not travel well."""

from typing import NamedTuple

from archive.errors import MinutebookError


class Failure(NamedTuple):
    """An error of our tree that ended a task."""

    kind: str
    message: str
    next_step: str


def failure_of(error: MinutebookError) -> Failure:
    """Return an error as it travels."""
    return Failure(type(error).__name__, str(error), error.next_step)


def error_of(failure: Failure) -> MinutebookError:
    """Return the error that a failure was made of, as the same kind."""
    kinds: dict[str, type[MinutebookError]] = {}
    waiting: list[type[MinutebookError]] = [MinutebookError]
    while waiting:
        kind = waiting.pop()
        kinds[kind.__name__] = kind
        waiting += kind.__subclasses__()
    return kinds.get(failure.kind, MinutebookError)(failure.message, next_step=failure.next_step)
