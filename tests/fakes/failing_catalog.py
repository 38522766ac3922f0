"""Catalogs that fail on both sides of a request, at every step of a commit, and let others in between."""

from collections.abc import Callable
from typing import Any, ClassVar, Self, TypeVar

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitStateUnknownException
from pyiceberg.io import OutputFile
from pyiceberg.io.pyarrow import PyArrowFileIO

from tests.fakes.failing_storage import Crash

T = TypeVar("T")


class Fault:
    """One fault at the step of a given number (from 1); `applied` tells on which side of the step it happens.

    `crash` ends the process; otherwise the catalog's answer is lost.
    """

    def __init__(self, at: int, *, applied: bool, crash: bool = True) -> None:
        self._at = at
        self._applied = applied
        self._error: BaseException = Crash(f"at step {at}") if crash else CommitStateUnknownException("time-out")
        self.steps = 0

    @property
    def reached(self) -> bool:
        """Tell whether the step of the fault was begun."""
        return self.steps >= self._at

    def send(self, request: Callable[[], T]) -> T:
        """Take a step, or fail at it."""
        self.steps += 1
        if self.steps != self._at:
            return request()
        if self._applied:
            request()
        raise self._error


class FailingIO(PyArrowFileIO):
    """Writes files for a `FailingCatalog`: opening one is a step."""

    fault: ClassVar[Fault | None] = None

    def new_output(self, location: str) -> OutputFile:  # type: ignore[override]  # the base class names its own kind
        """Pass on, or fail."""
        return (
            super().new_output(location) if self.fault is None else self.fault.send(lambda: _output(self, location))
        )


def _output(io: PyArrowFileIO, location: str) -> OutputFile:
    return PyArrowFileIO.new_output(io, location)


class _Failing(Catalog):
    """A catalog with at most one fault; `before_load` and `before_commit` are called once, right before a request.

    As a context it gives its fault to the files, too, and closes itself.
    """

    def __init__(self, name: str, fault: Fault | None = None, **properties: str) -> None:
        super().__init__(name, **properties, **{"py-io-impl": f"{__name__}.FailingIO"})
        self.fault = fault
        self.before_load: Callable[[], object] | None = None
        self.before_commit: Callable[[], object] | None = None
        self.sends_twice = False
        """Commits are sent again, as clients and load balancers do when an answer is late."""

    def __enter__(self) -> Self:
        """Let files fail, too."""
        FailingIO.fault = self.fault
        return self

    def __exit__(self, *error: object) -> None:
        """Close the catalog."""
        FailingIO.fault = None
        self.close()

    def load_table(self, identifier: Any) -> Any:  # noqa: ANN401 - pyiceberg's own
        """Let somebody in, then pass on, or fail."""
        hook, self.before_load = self.before_load, None
        if hook is not None:
            hook()
        return self._send(lambda: super(_Failing, self).load_table(identifier))

    def create_namespace(self, *given: Any, **named: Any) -> None:  # noqa: ANN401 - pyiceberg's own
        """Pass on, or fail."""
        self._send(lambda: super(_Failing, self).create_namespace(*given, **named))

    def create_table(self, *given: Any, **named: Any) -> Any:  # noqa: ANN401 - pyiceberg's own
        """Pass on, or fail."""
        return self._send(lambda: super(_Failing, self).create_table(*given, **named))

    def commit_table(self, *given: Any, **named: Any) -> Any:  # noqa: ANN401 - pyiceberg's own
        """Let somebody in, then pass on, or fail."""
        hook, self.before_commit = self.before_commit, None
        if hook is not None:
            hook()
        if self.sends_twice:
            super().commit_table(*given, **named)
        return self._send(lambda: super(_Failing, self).commit_table(*given, **named))

    def _send(self, request: Callable[[], T]) -> T:
        return request() if self.fault is None else self.fault.send(request)


class FailingCatalog(_Failing, SqlCatalog):
    """In a SQLite file."""


class FailingRestCatalog(_Failing, RestCatalog):
    """Behind a REST server."""
