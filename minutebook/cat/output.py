"""How records are written: payloads as lines, the archive's own JSON lines, or Parquet.

Payloads and partition keys are what producers chose. On a terminal everything that is not printable is escaped, so
that no record moves the cursor, hides another one or types an answer; into a file or a pipe bytes go as they are.
"""

import json
from collections.abc import Callable
from typing import Any, BinaryIO, Final, Protocol

from minutebook.cat.merging import FoundRecord
from minutebook.cat.request import CatRequest
from minutebook.errors import SettingsError
from minutebook.format.record import encode_lines
from minutebook.store.directory_storage import FileSink


class RecordOutput(Protocol):
    """Takes records in their order."""

    def write(self, found: FoundRecord) -> None:
        """Take one."""
        ...

    def flush(self) -> None:
        """Let whoever reads see what was written."""
        ...

    def close(self) -> None:
        """Finish: a file gets its name now."""
        ...

    def abort(self) -> None:
        """Give up: a file does not come into being."""
        ...


def open_output(request: CatRequest, stdout: BinaryIO) -> RecordOutput:
    """Return where records go; raises SettingsError where that cannot be written."""
    if request.out is None:
        return _Lines(_LINES[request.form, stdout.isatty()], stdout)
    try:
        sink = FileSink(request.out.absolute())
    except OSError as exc:
        raise SettingsError(f"{request.out}: {exc}", next_step="name a file in a folder of yours") from exc
    if request.form == "parquet":
        return _parquet(sink)
    return _Lines(_LINES[request.form, False], sink)


def printable(text: str) -> str:
    """Return a text with all escaped that is not printable, as in a text of Python."""
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(char: str) -> str:
    return char if char.isprintable() else char.encode("unicode_escape").decode("ascii")


def _payload(found: FoundRecord) -> bytes:
    return found.record.data + b"\n"


def _shown_payload(found: FoundRecord) -> bytes:
    return printable(found.record.data.decode(errors="backslashreplace")).encode() + b"\n"


def _line(found: FoundRecord) -> bytes:
    return encode_lines(found.segment.parsed.shard_id, [found.record])


def _shown_line(found: FoundRecord) -> bytes:
    """Return the line; what is escaped stays JSON, and means the same."""
    line = _line(found).decode().removesuffix("\n")
    shown = line if line.isprintable() else "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in line)
    return shown.encode() + b"\n"


_LINES: Final[dict[tuple[str, bool], Callable[[FoundRecord], bytes]]] = {
    ("text", False): _payload,
    ("text", True): _shown_payload,
    ("json", False): _line,
    ("json", True): _shown_line,
}


class _Lines:
    def __init__(self, line: Callable[[FoundRecord], bytes], stream: Any) -> None:  # noqa: ANN401 - stdout or a sink
        self._line = line
        self._stream = stream

    def write(self, found: FoundRecord) -> None:
        self._stream.write(self._line(found))

    def flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        if isinstance(self._stream, FileSink):
            self._stream.close()
        else:
            self._stream.flush()

    def abort(self) -> None:
        if isinstance(self._stream, FileSink):
            self._stream.abort()
        else:
            self._stream.flush()


def _parquet(sink: FileSink) -> RecordOutput:
    try:
        from minutebook.cat.parquet import ParquetOutput  # noqa: PLC0415 - needs pyarrow
    except ModuleNotFoundError as exc:
        sink.abort()
        raise SettingsError(
            f"Parquet needs {exc.name}, which is not installed", next_step="pip install 'minutebook[spark]'"
        ) from exc
    return ParquetOutput(sink)
