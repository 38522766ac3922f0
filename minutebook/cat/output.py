"""Outputs of records: payloads as lines, the archive's JSON lines, or Parquet.

Producers choose payloads and partition keys. On a terminal, unprintable characters are escaped, so that no record can
move the cursor, hide another one or send input; a file or a pipe gets the bytes unchanged.
"""

from collections.abc import Callable
from typing import Any, BinaryIO, Final, Protocol

from minutebook.cat.request import CatRequest
from minutebook.errors import SettingsError
from minutebook.format.record import encode_lines
from minutebook.segments.merging import SegmentRecord
from minutebook.store.directory_storage import FileSink
from minutebook.wording import printable, printable_json

_GROUP_BYTES: Final = 16 << 20


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


def _payload(row: SegmentRecord) -> bytes:
    return row.record.data + b"\n"


def _printable_payload(row: SegmentRecord) -> bytes:
    return printable(row.record.data.decode(errors="backslashreplace")).encode() + b"\n"


def _line(row: SegmentRecord) -> bytes:
    return encode_lines(row.segment.parsed.shard_id, [row.record])


def _printable_line(row: SegmentRecord) -> bytes:
    """Return the line with unprintable characters escaped as in JSON, so that it means the same."""
    return printable_json(_line(row).decode()).encode()


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


class _Parquet:
    """Rows in the columns of published days, one row group of them in memory; raises ModuleNotFoundError."""

    def __init__(self, sink: FileSink) -> None:
        import pyarrow as pa  # noqa: PLC0415 - of the extra `compact`
        import pyarrow.parquet as pq  # noqa: PLC0415 - as above

        from minutebook.published.schema import SCHEMA  # noqa: PLC0415 - as above
        from minutebook.segments.rows import RecordRows  # noqa: PLC0415 - as above

        self._sink, self._rows = sink, RecordRows(_GROUP_BYTES)
        self._writer = pq.ParquetWriter(pa.PythonFile(sink, mode="w"), SCHEMA, compression="zstd")

    def write(self, row: SegmentRecord) -> None:
        self._rows.add(row)
        if self._rows.is_full:
            self._writer.write_table(self._rows.take())

    def flush(self) -> None:
        """Do nothing: an unfinished file has no readers."""

    def close(self) -> None:
        self._writer.write_table(self._rows.take())
        self._writer.close()
        self._sink.close()

    def abort(self) -> None:
        self._writer.is_open = False  # else its destructor writes a footer, and fails
        self._sink.abort()


def _parquet(sink: FileSink) -> RecordOutput:
    try:
        return _Parquet(sink)
    except ModuleNotFoundError as exc:
        sink.abort()
        raise SettingsError(
            f"Parquet needs {exc.name}, which is not installed",
            next_step="install compact.lock and the wheel, as `minutebook docs spark` says",
        ) from exc
