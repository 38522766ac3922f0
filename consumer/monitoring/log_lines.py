"""One schema for all lines of a task: `timestamp` (ISO 8601, UTC), `level`, `event`, and the event's own keys.

The supervisor and the processors log in it. The supervisor converts all other lines:

    KCL's, by logback's JsonEncoder ... event `kcl`: the message formatted, the exception as `error` and `stack`
    any other output .................. event `printed`: the JVM's own lines, a library's, a traceback

KCL's info is our debug: a first start writes fifty such lines, and none tells an operator what to do. What of
them an operator may want to know, the supervisor reads before they are converted, and logs itself (`first_start`).
"""

import datetime as dt
import logging
from collections.abc import Iterator
from typing import Final

import msgspec

from minutebook.wording import printable_json

KCL: Final = "kcl"
PRINTED: Final = "printed"
STREAM: Final = "properties"
"""The key of a stream's name in the lines of several: the stem of its file."""
_LEVELS: Final = {"TRACE": "debug", "DEBUG": "debug", "INFO": "debug", "WARN": "warning"}
_NUMBERS: Final = logging.getLevelNamesMapping()


class _Frame(msgspec.Struct):
    className: str = ""  # noqa: N815 - logback's name
    methodName: str = ""  # noqa: N815 - same
    fileName: str | None = None  # noqa: N815 - same
    lineNumber: int = 0  # noqa: N815 - same


class _Throwable(msgspec.Struct):
    className: str = ""  # noqa: N815 - logback's name
    message: str | None = None
    stepArray: list[_Frame] = []  # noqa: N815 - logback's name
    cause: "_Throwable | None" = None


class _KclLine(msgspec.Struct):
    timestamp: int
    level: str
    loggerName: str  # noqa: N815 - logback's name
    message: str = ""
    threadName: str = ""  # noqa: N815 - same
    arguments: list[str] = []
    mdc: dict[str, str] = {}
    throwable: _Throwable | None = None


class _OurLine(msgspec.Struct):
    timestamp: str
    level: str
    event: str


_KCL_DECODER: Final = msgspec.json.Decoder(_KclLine)
_OUR_DECODER: Final = msgspec.json.Decoder(_OurLine)


def of_processor(line: bytes, level: str, now_ms: int) -> bytes:
    """Return a line of the daemon's stderr in the schema; b"" if it is below the log's level."""
    try:
        ours = _OUR_DECODER.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _printed(line, "warning", now_ms)
    return line if _rank(ours.level) >= _rank(level) else b""


def of_daemon(line: bytes, level: str, now_ms: int) -> bytes:
    """Return a line of the daemon's stdout in the schema; b"" if it is KCL's and below the log's level."""
    try:
        kcl = _KCL_DECODER.decode(line)
        timestamp = iso(kcl.timestamp)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError, OverflowError):
        return _printed(line, "info", now_ms)
    our_level = _LEVELS.get(kcl.level, kcl.level.lower())
    if _rank(our_level) < _rank(level):
        return b""
    entry: dict[str, object] = {
        "timestamp": timestamp,
        "level": our_level,
        "event": KCL,
        "logger": kcl.loggerName,
        "message": format_message(kcl.message, kcl.arguments),
        "thread": kcl.threadName,
    }
    # In a fleet, the stream of the thread that logged (StreamOfThread.java).
    entry |= {STREAM: stream} if (stream := kcl.mdc.pop(STREAM, "")) else {}
    if kcl.mdc:
        entry["mdc"] = kcl.mdc
    if kcl.throwable is not None:
        entry["error"] = _headline(kcl.throwable)
        entry["stack"] = "\n".join(_stack(kcl.throwable))
    return _as_line(entry)


def format_message(message: str, arguments: list[str]) -> str:
    """Replace the braces with the arguments as SLF4J does; surplus braces stay, surplus arguments are dropped."""
    parts = message.split("{}")
    pairs = zip(parts[1:], arguments, strict=False)
    filled = parts[0] + "".join(argument + part for part, argument in pairs)
    return "{}".join([filled, *parts[1 + len(arguments) :]])


def iso(ms: int) -> str:
    """Return epoch milliseconds in the log's format."""
    text = dt.datetime.fromtimestamp(ms / 1000, dt.UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def _rank(level: str) -> int:
    return _NUMBERS.get(level.upper(), logging.ERROR)


def _printed(line: bytes, level: str, now_ms: int) -> bytes:
    text = line.decode(errors="replace").rstrip("\r\n")
    if not text:
        return b""
    return _as_line({"timestamp": iso(now_ms), "level": level, "event": PRINTED, "message": text})


def _as_line(entry: dict[str, object]) -> bytes:
    """Return JSON that a terminal shows as it is: KCL repeats what producers wrote."""
    return printable_json(msgspec.json.encode(entry).decode()).encode() + b"\n"


def _headline(throwable: _Throwable) -> str:
    return f"{throwable.className}: {throwable.message}" if throwable.message else throwable.className


def _stack(throwable: _Throwable) -> Iterator[str]:
    yield _headline(throwable)
    for frame in throwable.stepArray:
        yield f"\tat {frame.className}.{frame.methodName}({frame.fileName or '?'}:{frame.lineNumber})"
    if throwable.cause is not None:
        first, *rest = _stack(throwable.cause)
        yield f"Caused by: {first}"
        yield from rest
