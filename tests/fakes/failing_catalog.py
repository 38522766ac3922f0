"""Catalogs that fail on both sides of a request, at every step of a commit, and let others in between."""

import os
import signal
from collections.abc import Callable
from typing import Any, ClassVar, Self, TypeVar

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitStateUnknownException
from pyiceberg.io import InputFile, OutputFile, OutputStream
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

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


class Kill(Fault):
    """The process is gone at the step, as SIGKILL takes it: nothing is closed, no handler runs."""

    def __init__(self, at: int) -> None:
        super().__init__(at, applied=False)

    def send(self, request: Callable[[], T]) -> T:
        """Take a step, or die in front of it."""
        if self.steps + 1 == self._at:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().send(request)


class FailingIO(PyArrowFileIO):
    """Writes files for a `FailingCatalog`: naming one, making it and closing it are steps."""

    fault: ClassVar[Fault | None] = None

    def new_output(self, location: str) -> OutputFile:  # type: ignore[override]  # the base class names its own kind
        """Pass on, or fail."""
        fault = self.fault
        if fault is None:
            return super().new_output(location)
        return fault.send(lambda: _Output(_output(self, location), fault))


def _output(io: PyArrowFileIO, location: str) -> PyArrowFile:
    return PyArrowFileIO.new_output(io, location)


class _Output(OutputFile):
    """A file in the making: opened, it is there and empty; what is written may be there before it is closed."""

    def __init__(self, file: PyArrowFile, fault: Fault) -> None:
        super().__init__(file.location)
        self._file = file
        self._fault = fault

    def __len__(self) -> int:
        return len(self._file)

    def exists(self) -> bool:
        return self._file.exists()

    def to_input_file(self) -> InputFile:
        return self._file.to_input_file()

    def create(self, overwrite: bool = False) -> OutputStream:  # noqa: FBT001, FBT002 - pyiceberg's own
        stream = self._fault.send(lambda: self._file.create(overwrite))
        return _Stream(stream, self._fault)


class _Stream(OutputStream):
    def __init__(self, stream: OutputStream, fault: Fault) -> None:
        self._stream = stream
        self._fault = fault

    def write(self, data: bytes) -> int:
        return self._stream.write(data)

    def tell(self) -> int:
        return self._stream.tell()

    def close(self) -> None:
        self._fault.send(self._stream.close)
        self._fault.send(lambda: None)  # it is whole, and nobody else knows of it

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is None:
            self.close()
        else:
            self._stream.close()


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
