r"""A record as the stream delivered it, and its line in a segment.

A line is lossless: a payload of valid UTF-8 is stored in `data` as text, any other in `data_base64`. Lines end with
`\n`; JSON escapes control characters, so no payload can break a line.
"""

import re
from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple

import msgspec

from minutebook.errors import FormatError
from minutebook.format.position import Position, SequenceRange, is_sequence_number

_PLACE: Final = re.compile(r"[^/]+/(?P<shard>[a-zA-Z0-9_.-]+)/(?P<position>[0-9]+:[0-9]+)", re.ASCII)
# The field names of KCL's daemon (JsonFriendlyRecord.java): a batch decodes into `Record`s in one pass.
_WIRE_NAMES = {
    "sequence_number": "sequenceNumber",
    "sub_sequence_number": "subSequenceNumber",
    "partition_key": "partitionKey",
    "arrival_ms": "approximateArrivalTimestamp",
}


SubSequenceNumber = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""A Java long, which fits into keys and metadata."""


class Record(msgspec.Struct, gc=False, rename=_WIRE_NAMES):
    """One user record (KCL has deaggregated KPL aggregates already).

    `sequence_number` is decimal text as in Kinesis, `arrival_ms` epoch milliseconds, `data` the exact payload bytes.
    """

    sequence_number: str
    sub_sequence_number: SubSequenceNumber
    partition_key: str
    arrival_ms: int
    data: bytes

    @property
    def position(self) -> Position:
        """The record's place in its shard."""
        return Position(int(self.sequence_number), self.sub_sequence_number)


class Measured(NamedTuple):
    """The earliest and latest arrival in epoch milliseconds, and the payloads' bytes."""

    arrival_min_ms: int
    arrival_max_ms: int
    payload_bytes: int


class WrittenLines(NamedTuple):
    """Lines of records in ascending order. `lines` is a view of the codec's buffer, valid until its next call."""

    lines: memoryview
    records: int
    span: SequenceRange
    measured: Measured


class _TextLine(msgspec.Struct, gc=False):
    shard_id: str
    sequence_number: str
    sub_sequence_number: int
    partition_key: str
    arrival_ms: int
    data: str


class _BinaryLine(msgspec.Struct, gc=False):
    shard_id: str
    sequence_number: str
    sub_sequence_number: int
    partition_key: str
    arrival_ms: int
    data_base64: bytes


class Line(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A parsed line; its sequence number, and that it has exactly one payload field, are not checked yet."""

    shard_id: str
    sequence_number: str
    sub_sequence_number: SubSequenceNumber
    partition_key: str
    arrival_ms: int
    data: str | msgspec.UnsetType = msgspec.UNSET
    data_base64: bytes | msgspec.UnsetType = msgspec.UNSET


class _DroppedTextLine(_TextLine, gc=False):
    duplicate_of: str


class _DroppedBinaryLine(_BinaryLine, gc=False):
    duplicate_of: str


class _AnyDroppedLine(Line, gc=False, forbid_unknown_fields=True, kw_only=True):
    duplicate_of: str


_CLOSE = ord("}")
_encode_lines = msgspec.json.Encoder().encode_lines
_decode = msgspec.json.Decoder(Line).decode
_decode_lines = msgspec.json.Decoder(Line).decode_lines
_decode_dropped = msgspec.json.Decoder(_AnyDroppedLine).decode


def encode_lines(shard_id: str, records: Sequence[Record]) -> bytes:
    """Return the records' lines, each with its line break."""
    try:
        # One pass for the common case: every payload is text.
        return _encode_lines(
            [
                _TextLine(
                    shard_id,
                    record.sequence_number,
                    record.sub_sequence_number,
                    record.partition_key,
                    record.arrival_ms,
                    record.data.decode(),
                )
                for record in records
            ]
        )
    except UnicodeDecodeError:
        return _encode_lines([_line(shard_id, record) for record in records])


def _line(shard_id: str, record: Record) -> _TextLine | _BinaryLine:
    number, sub = record.sequence_number, record.sub_sequence_number
    try:
        text = record.data.decode()
    except UnicodeDecodeError:
        return _BinaryLine(shard_id, number, sub, record.partition_key, record.arrival_ms, record.data)
    return _TextLine(shard_id, number, sub, record.partition_key, record.arrival_ms, text)


def encode_dropped_line(shard_id: str, record: Record, duplicate_of: str) -> bytes:
    """Return the line of a dropped producer duplicate, with its line break."""
    number, sub = record.sequence_number, record.sub_sequence_number
    place = (shard_id, number, sub, record.partition_key, record.arrival_ms)
    try:
        text = record.data.decode()
    except UnicodeDecodeError:
        return _encode_lines([_DroppedBinaryLine(*place, record.data, duplicate_of)])
    return _encode_lines([_DroppedTextLine(*place, text, duplicate_of)])


def decode_line(line: bytes) -> tuple[str, Record]:
    """Parse one line to (shard id, record); raises FormatError, also for unknown fields."""
    try:
        return _checked(_decode(line))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise FormatError(f"not a line of a segment: {exc}") from exc


def decode_block(buffer: bytes | bytearray, size: int) -> list[Line] | None:
    """Parse whole lines, the first `size` bytes of a buffer, five times as fast as line by line.

    Returns None unless each line clearly holds one valid object: the caller then uses `decode_line`, which names the
    error, or accepts an unusual notation. The caller checks positions, and that each line has exactly one payload.

    msgspec does not check where lines end. Objects are flat and strings contain no line break, so a `}` before a line
    break ends an object: if every line ends with `}` and there are as many objects as lines, each line holds one.
    """
    find, last, count = buffer.find, size - 1, 1
    # The loop below looks at the byte before each line break; an empty first line has none.
    if buffer.startswith(b"\n") or not buffer.endswith(b"}\n", 0, size):
        return None
    at = find(b"\n", 0, last)  # a loop of `find` is four times as fast as counting b"}\n"
    while at >= 0:
        if buffer[at - 1] != _CLOSE:
            return None
        count += 1
        at = find(b"\n", at + 1, last)
    try:
        lines = _decode_lines(memoryview(buffer)[:size])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return lines if len(lines) == count else None


def decode_dropped_line(line: bytes) -> tuple[str, Record, str]:
    """Parse one line of a `_duplicates` object to (shard id, record, duplicate_of); raises FormatError."""
    try:
        parsed = _decode_dropped(line)
        return *_checked(parsed), parsed.duplicate_of
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise FormatError(f"not a line of a duplicates object: {exc}") from exc


def _checked(parsed: Line) -> tuple[str, Record]:
    if not is_sequence_number(parsed.sequence_number) or parsed.sub_sequence_number < 0:
        raise FormatError(
            f"not a line of a segment: position {parsed.sequence_number!r}:{parsed.sub_sequence_number}"
        )
    if isinstance(parsed.data, str):
        if parsed.data_base64 is not msgspec.UNSET:
            raise FormatError("not a line of a segment: both data and data_base64")
        data = parsed.data.encode()
    elif isinstance(parsed.data_base64, bytes):
        data = parsed.data_base64
    else:
        raise FormatError("not a line of a segment: neither data nor data_base64")
    return parsed.shard_id, Record(
        parsed.sequence_number, parsed.sub_sequence_number, parsed.partition_key, parsed.arrival_ms, data
    )


def numbered(producer: str, number: int) -> str:
    """Return what mode `watermark` writes into `duplicate_of`."""
    return f"producer {producer} number {number}"


def original_of(duplicate_of: str) -> tuple[str, Position] | None:
    """Return the shard and position of the original of a dropped duplicate; raises FormatError for a wrong position.

    Mode `claims` writes `<stream>/<shard>/<position>` into `duplicate_of`. None for mode `watermark`, which names a
    producer's number (`numbered`): the archive alone does not tell whether that number was archived.
    """
    match = _PLACE.fullmatch(duplicate_of)
    return None if match is None else (match["shard"], Position.parse(match["position"]))
