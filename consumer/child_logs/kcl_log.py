"""What the supervisor reads in the daemon's own log: JSON lines on stdout, by logback's JsonEncoder.

KCL 3.1.3 reports only in its log that it gives up on records (strings from its jars, lines from running it):

    AggregatorUtil            ERROR  Unexpected exception during deaggregation   the rest of one aggregate
    ShardConsumerSubscriber   WARN   Caught exception from handleInput           a whole batch: an Error in Java
    ProcessTask               ERROR  ShardId {}: Caught exception:               a whole batch: a RuntimeException
    ProcessTask               ERROR  Application processRecords() threw          a whole batch
    the JVM itself            -      Terminating due to java.lang.OutOfMemoryError   nothing: it ends at once

`ShardConsumer` logs "The incoming data has been skipped" up to a second after `handleInput`, for the same batch: that
is not counted twice. An aggregate whose hash keys lie outside the shard is dropped without a line.
"""

import enum
import re
from typing import Final, NamedTuple

import msgspec


class Skipped(enum.StrEnum):
    """What KCL gave up on. `NOTHING`: the daemon ended itself before it could."""

    AGGREGATE_REST = "aggregate_rest"
    BATCH = "batch"
    NOTHING = "nothing"


NEXT_STEPS: Final = {
    Skipped.AGGREGATE_REST: "find the producer: its aggregate is malformed, and what follows in it cannot be "
    "delivered; the daemon's line on stdout holds it whole, as Raw data",
    Skipped.BATCH: "the daemon is killed and the batch read again; if the same batch is skipped every time, "
    "minutebook docs runbook kcl_skipped says how to get past it",
    Skipped.NOTHING: "give the daemon more memory, as in JAVA_TOOL_OPTIONS=-Xmx2g; no record is lost",
}


class KclEvent(NamedTuple):
    """A line by which KCL gave up on records. `shard` and `sequence_number` are empty if the line lacks them."""

    skipped: Skipped
    error: str
    shard: str = ""
    sequence_number: str = ""


class KclError(NamedTuple):
    """The root cause of an exception in KCL's log. `denied`: DynamoDB or Kinesis denied a permission."""

    error: str
    denied: bool = False


class _Throwable(msgspec.Struct):
    className: str = ""  # noqa: N815 - logback's name
    message: str | None = None
    cause: "_Throwable | None" = None


class _Line(msgspec.Struct):
    loggerName: str = ""  # noqa: N815 - logback's name
    message: str = ""
    arguments: list[str] = []
    throwable: _Throwable | None = None


_DECODER: Final = msgspec.json.Decoder(_Line)
_LIFECYCLE: Final = "software.amazon.kinesis.lifecycle."
_AGGREGATES: Final = "software.amazon.kinesis.retrieval.AggregatorUtil"
_MALFORMED: Final = "Unexpected exception during deaggregation"
_SEQUENCE: Final = re.compile(r"^Sequence number: (\d+)$", re.MULTILINE)
_BATCH: Final = {
    _LIFECYCLE + "ShardConsumerSubscriber": ("{}: Caught exception from handleInput",),
    _LIFECYCLE + "ProcessTask": (
        "ShardId {}: Caught exception: ",
        "ShardId {}: Application processRecords() threw an exception",
    ),
}
_SERVICES: Final = ("software.amazon.awssdk.services.dynamodb.", "software.amazon.awssdk.services.kinesis.")
_OUT_OF_MEMORY: Final = b"Terminating due to java.lang.OutOfMemoryError"
_HEAD_BYTES: Final = 2048


def read_kcl_line(line: bytes) -> KclEvent | None:
    """Return what KCL gave up on by this line; None for every other line."""
    if line.startswith(_OUT_OF_MEMORY):
        return KclEvent(Skipped.NOTHING, line.decode(errors="replace").strip())
    if not line.startswith(b"{"):
        return None
    try:
        entry = _DECODER.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _read_head(line[:_HEAD_BYTES])
    error = _error(entry.throwable)
    if entry.loggerName == _AGGREGATES and entry.message.startswith(_MALFORMED):
        # A partition key may hold such a line as well: the real one comes last.
        numbers = _SEQUENCE.findall(entry.message)
        return KclEvent(Skipped.AGGREGATE_REST, error, sequence_number=numbers[-1] if numbers else "")
    if entry.message.startswith(_BATCH.get(entry.loggerName, ())):
        return KclEvent(Skipped.BATCH, error, shard=entry.arguments[0] if entry.arguments else "")
    return None


def read_kcl_error(line: bytes) -> KclError | None:
    """Return the root cause of the exception in an error line; None for every other line.

    A refusal by CloudWatch is not `denied`: KCL goes on without its metrics.
    """
    if not line.startswith(b"{") or b'"level":"ERROR"' not in line[:_HEAD_BYTES]:
        return None
    try:
        root = _DECODER.decode(line).throwable
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    while root is not None and root.cause is not None:
        root = root.cause
    if root is None:
        return None
    is_denied = root.className.startswith(_SERVICES) and (
        root.className.endswith("AccessDeniedException") or "is not authorized to perform" in (root.message or "")
    )
    return KclError(_error(root), is_denied)


def _read_head(head: bytes) -> KclEvent | None:
    """Recognise a line by its beginning: KCL logs whole aggregates, and too long a line arrives in pieces."""
    if f'"loggerName":"{_AGGREGATES}"'.encode() in head and f'"message":"{_MALFORMED}'.encode() in head:
        return KclEvent(Skipped.AGGREGATE_REST, "the line is too long to be read")
    return None


def _error(throwable: _Throwable | None) -> str:
    if throwable is None:
        return ""
    return f"{throwable.className}: {throwable.message}" if throwable.message else throwable.className
