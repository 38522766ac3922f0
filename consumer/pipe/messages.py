"""Decode the daemon's messages. A batch becomes `minutebook.format.record.Record`s, some hundred at a time.

The daemon writes (MultiLangProtocol.java, ProcessRecordsMessage.java, JsonFriendlyRecord.java):

    {"action":"processRecords","records":[{"action":"record",...},...,{"action":"record",...}],"millisBehindLatest":0}

Ten megabytes of payload are a line of fourteen. Decoding it as a whole would hold them twice more. So a long line of
exactly this shape is cut before records, at `},{"action":"record",`. A producer cannot forge a cut, because quotes in
strings are escaped. Any other line, and one with a piece that is not a list of records, is decoded as a whole: which
lines are accepted, and the error of those that are not, does not depend on the cuts.

With a writer, pieces of the usual shape become lines of a segment directly, without records.
"""

import re
from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple

import msgspec

from consumer.pipe.pieces import PROTOCOL_STEP, RecordPiece, WrittenPiece, make_piece
from minutebook.codec.lines import LineWriter
from minutebook.errors import DeliveryDoubt
from minutebook.format.record import Record, SubSequenceNumber

PIECE_BYTES: Final = 192 << 10
"""A longer line is decoded in pieces of about this length. All memory for a piece, its records and their lines stays
below the sizes at which malloc would map memory or trim its heap for every piece (`consumer.forks.memory`)."""
_SHORT_BYTES: Final = 512
"""A line up to this length, a record or two, is decoded as a whole."""
_HEAD: Final = b'{"action":"processRecords","records":['
_CUT: Final = b'},{"action":"record",'
_TAIL: Final = re.compile(rb'\],"millisBehindLatest":(null|0|[1-9][0-9]{0,17})\}\n\Z', re.ASCII)
_TAIL_BYTES: Final = 64
_WINDOW_BYTES: Final = 16 << 10
_OPEN, _CLOSE = b"[]"


class Action(msgspec.Struct, tag_field="action", rename="camel"):
    """A message of the daemon."""

    @property
    def action(self) -> str:
        """The name that the answer must repeat."""
        return str(self.__struct_config__.tag)


class Initialize(Action, tag="initialize"):
    """The first message: `sequence_number` is a number, or a sentinel such as TRIM_HORIZON."""

    shard_id: str
    sequence_number: str
    sub_sequence_number: SubSequenceNumber | None = None


class _ProcessRecords(Action, tag="processRecords"):
    records: list[Record]
    millis_behind_latest: int | None = None


class LeaseLostMessage(Action, tag="leaseLost"):
    """A newer owner exists; no checkpoint is possible."""


class ShardEnded(Action, tag="shardEnded"):
    """All records of the shard have been delivered."""


class ShutdownRequested(Action, tag="shutdownRequested"):
    """The worker is about to stop."""


class CheckpointAnswer(Action, tag="checkpoint"):
    """The answer to our checkpoint request; `error` is the simple name of KCL's exception."""

    sequence_number: str | None = None
    sub_sequence_number: int | None = None
    error: str | None = None


Control = Initialize | LeaseLostMessage | ShardEnded | ShutdownRequested | CheckpointAnswer
_Message = _ProcessRecords | Control
_decode = msgspec.json.Decoder(_Message).decode
_decode_records = msgspec.json.Decoder(list[Record]).decode
_NOTHING: Final = RecordPiece([], ascends=True)
_FAULTS: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class _Place(NamedTuple):
    """Where the next piece begins in the line, and the number of records before it."""

    at: int
    decoded: int = 0


class Delivery:
    """The records of one `processRecords`, in pieces that are decoded lazily, once.

    `first` is the first record, None when there is none. `millis_behind_latest` is None when KCL does not know.
    The pieces are decoded in the line's memory, which must be writable: read all of them before the next line.
    """

    action: Final = "processRecords"

    def __init__(
        self, line: memoryview, begin: int, end: int, millis_behind_latest: int | None, piece_bytes: int = PIECE_BYTES
    ) -> None:
        self._line = line
        self._begin = begin
        self._end = end
        self._piece_bytes = piece_bytes
        self._place = _Place(begin)
        self._whole = _NOTHING
        self.millis_behind_latest = millis_behind_latest
        self.first = _first(self._read(self._place, self._next_cut(begin, 1))[1])

    @classmethod
    def of(cls, records: list[Record], millis_behind_latest: int | None) -> "Delivery":
        """Return a delivery of records that are already decoded."""
        delivery = cls(memoryview(b""), 0, 0, millis_behind_latest)
        delivery._whole = make_piece(records)
        delivery.first = _first(delivery._whole)
        return delivery

    @property
    def decoded(self) -> int:
        """Return how many records have been read so far."""
        return self._place.decoded

    def __iter__(self) -> Iterator[RecordPiece]:
        for piece in self.pieces(None):
            yield piece if isinstance(piece, RecordPiece) else piece.decode()

    def pieces(self, writer: LineWriter | None) -> Iterator[RecordPiece | WrittenPiece]:
        """Yield the pieces, as lines if `writer` accepts them. A piece is valid until the next one is requested."""
        whole, self._whole = self._whole, _NOTHING
        if whole.records:
            self._place = _Place(0, len(whole.records))
            yield whole
        while self._place.at < self._end:
            place, behind = self._place, self._next_cut(self._place.at, self._piece_bytes)
            written = None if writer is None else writer.write(self._line, place.at, behind)
            if written is None:
                self._place, piece = self._read(place, behind)
                if piece.records:
                    yield piece
            else:
                self._place = _Place(behind + 1, place.decoded + written.records)
                yield WrittenPiece(written, partial(self._piece_at, place, behind))

    def check_rest(self) -> None:
        """Raise DeliveryDoubt if a piece that is not read yet is malformed.

        Call this before making earlier pieces durable: a malformed message must be refused as a whole.
        """
        place = self._place
        while place.at < self._end:
            place, _ = self._read(place, self._next_cut(place.at, self._piece_bytes))

    def _piece_at(self, place: _Place, behind: int) -> RecordPiece:
        return self._read(place, behind)[1]

    def _read(self, place: _Place, behind: int) -> tuple[_Place, RecordPiece]:
        """Decode the piece from `place` to `behind`; return where the next one begins, and the piece."""
        if place.at >= self._end:
            return place, _NOTHING
        try:
            records = self._decode(place.at, behind)
        except _FAULTS:
            records, behind = self._rest_of_whole(place), self._end
        try:
            piece = make_piece(records)
        except DeliveryDoubt:
            _decode_line(self._line)  # another error of the line takes precedence
            raise
        return _Place(behind + 1, place.decoded + len(records)), piece

    def _rest_of_whole(self, place: _Place) -> list[Record]:
        """Decode the line as a whole, and return the records that are not decoded yet.

        A JSON decoder takes the last of two fields with one name, so a second `records` could differ from the first.
        """
        whole = _decode_line(self._line)
        records = whole.records if isinstance(whole, _ProcessRecords) else []
        if records[: place.decoded] != self._decode(self._begin, max(place.at - 1, self._begin)):
            raise DeliveryDoubt("malformed protocol line: two lists of records in one", next_step=PROTOCOL_STEP)
        return records[place.decoded :]

    def _decode(self, begin: int, end: int) -> list[Record]:
        """Decode the records in place: the bytes around them are brackets for the time of the call."""
        line, before, behind = self._line, self._line[begin - 1], self._line[end]
        line[begin - 1], line[end] = _OPEN, _CLOSE
        try:
            with line[begin - 1 : end + 1] as cut:
                return _decode_records(cut)
        finally:
            line[begin - 1], line[end] = before, behind

    def _next_cut(self, at: int, piece_bytes: int) -> int:
        """Return the index after the piece of about `piece_bytes` that begins at `at`."""
        for start in range(at + piece_bytes, self._end, _WINDOW_BYTES):
            with self._line[start : min(start + _WINDOW_BYTES + len(_CUT), self._end)] as window:
                offset = bytes(window).find(_CUT)
            if offset >= 0:
                return start + offset + 1
        return self._end


def _first(piece: RecordPiece) -> Record | None:
    return piece.records[0] if piece.records else None


def read_message(line: memoryview, piece_bytes: int = PIECE_BYTES) -> Control | Delivery:
    """Decode one line; a long batch lazily, in pieces of about `piece_bytes`.

    Raises DeliveryDoubt, which names the field, if the line is not a message of the protocol.
    """
    if len(line) > min(piece_bytes, _SHORT_BYTES) and bytes(line[: len(_HEAD)]) == _HEAD:
        tail = _TAIL.search(bytes(line[-_TAIL_BYTES:]))
        if tail is not None:
            behind = None if tail[1] == b"null" else int(tail[1])
            return Delivery(line, len(_HEAD), len(line) - len(tail[0]), behind, piece_bytes)
    message = _decode_line(line)
    if isinstance(message, _ProcessRecords):
        return Delivery.of(message.records, message.millis_behind_latest)
    return message


def _decode_line(line: memoryview) -> _Message:
    try:
        message: _Message = _decode(line)
    except _FAULTS as exc:
        raise DeliveryDoubt(f"malformed protocol line: {exc}", next_step=PROTOCOL_STEP) from exc
    return message
