"""Outputs of records: payloads as lines, the archive's JSON lines, or Parquet.

Producers choose payloads and partition keys. On a terminal, unprintable characters are escaped, so that no record can
move the cursor, hide another one or send input; a file or a pipe gets the bytes unchanged.
"""

import json
from collections.abc import Callable
from typing import Any, BinaryIO, Final, Protocol

from minutebook.cat.merging import SegmentRecord
from minutebook.cat.request import CatRequest
from minutebook.errors import SettingsError
from minutebook.format.record import encode_lines
from minutebook.store.directory_storage import FileSink


class RecordOutput(Protocol):
    """Writes records in order."""

    def write(self, row: SegmentRecord) -> None:
        """Write one record."""

    def flush(self) -> None:
        """Make the written records visible to readers."""

    def close(self) -> None:
        """Finish: a file gets its name."""

    def abort(self) -> None:
        """Give up: no file is left."""


def open_output(request: CatRequest, stdout: BinaryIO) -> RecordOutput:
    """Return the output of a request; raises SettingsError if its file cannot be written."""
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
    """Return a text with unprintable characters escaped as in Python's literals."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def _payload(row: SegmentRecord) -> bytes:
    return row.record.data + b"\n"


def _printable_payload(row: SegmentRecord) -> bytes:
    return printable(row.record.data.decode(errors="backslashreplace")).encode() + b"\n"


def _line(row: SegmentRecord) -> bytes:
    return encode_lines(row.segment.parsed.shard_id, [row.record])


def _printable_line(row: SegmentRecord) -> bytes:
    """Return the line with unprintable characters escaped as in JSON, so that it means the same."""
    line = _line(row).decode().removesuffix("\n")
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in line).encode() + b"\n"


_LINES: Final[dict[tuple[str, bool], Callable[[SegmentRecord], bytes]]] = {
    ("text", False): _payload,
    ("text", True): _printable_payload,
    ("json", False): _line,
    ("json", True): _printable_line,
}


class _Lines:
    def __init__(self, line: Callable[[SegmentRecord], bytes], stream: Any) -> None:  # noqa: ANN401 - stdout or a sink
        self._line = line
        self._stream = stream

    def write(self, row: SegmentRecord) -> None:
        self._stream.write(self._line(row))

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
