"""A segment's body: gzip over JSON lines, written and read as a stream.

The same records give the same bytes, however they were delivered: the gzip header carries no time, and the
compressor is fed at boundaries that depend on the lines alone (ISA-L's output depends on where its input is cut).
"""

import io
import zlib
from collections.abc import Iterable, Iterator, Sequence

from isal import isal_zlib

from archive.errors import FormatError
from archive.format.metadata import Continuity, Predecessor, SegmentMetadata
from archive.format.position import Position, SequenceRange
from archive.format.record import Record, decode_dropped_line, decode_line, encode_dropped_line, encode_lines

COMPRESSION_LEVEL = 1
_GZIP_WBITS = 31
_FEED_BYTES = 128 * 1024
_READ_BYTES = 256 * 1024
_PIECE_BYTES = 64 * 1024
MAX_LINE_BYTES = 64 * 1024 * 1024
"""Longest line a reader accepts: Kinesis' largest record (10 MiB) with every byte escaped to six."""


class _LineStream:
    """Lines that become a gzip stream. Compresses in blocks that the byte stream alone decides."""

    def __init__(self) -> None:
        self._compressor = isal_zlib.compressobj(COMPRESSION_LEVEL, wbits=_GZIP_WBITS)
        self._compressed = io.BytesIO()
        self._pending = bytearray()

    def write(self, lines: bytes) -> None:
        """Add whole lines."""
        self._pending += lines
        if len(self._pending) >= _FEED_BYTES:
            self._feed(len(self._pending) // _FEED_BYTES * _FEED_BYTES)

    def close(self) -> bytes:
        """Return the gzip bytes."""
        self._feed(len(self._pending))
        self._compressed.write(self._compressor.flush())
        # Gives its own memory away, without a copy (Modules/_io/bytesio.c): a minute may be 40 MB.
        return self._compressed.getvalue()

    def _feed(self, size: int) -> None:
        view = memoryview(self._pending)
        for start in range(0, size, _FEED_BYTES):
            self._compressed.write(self._compressor.compress(view[start : min(start + _FEED_BYTES, size)]))
        view.release()
        del self._pending[:size]


class SegmentWriter:
    """The growing segment: one contiguous run of one shard's records within one minute.

    Holds the compressed stream, not the records. `extend` and `drop` take records in ascending position order;
    the caller checks the order, because it knows what it delivered before. Dropped producer duplicates belong to
    the span and are written to a stream of their own.
    """

    def __init__(self, shard_id: str, minute: int) -> None:
        self.shard_id = shard_id
        self.minute = minute
        self.records = 0
        self.dropped = 0
        self.payload_bytes = 0
        self.raw_bytes = 0
        self._first: Position | None = None
        self._last: Position | None = None
        self._arrival_min_ms = 0
        self._arrival_max_ms = 0
        self._lines = _LineStream()
        self._duplicates = _LineStream()
        self._bodies: tuple[bytes, bytes] | None = None

    def extend(self, records: Sequence[Record]) -> None:
        """Add a stretch of records and their lines; at least one."""
        self._span_over(records)
        lines = encode_lines(self.shard_id, records)
        self.records += len(records)
        self.payload_bytes += sum([len(record.data) for record in records])
        self.raw_bytes += len(lines)
        self._lines.write(lines)

    def drop(self, record: Record, duplicate_of: str) -> None:
        """Add a producer duplicate: it counts in the span, and its line goes to the duplicates."""
        self._span_over([record])
        line = encode_dropped_line(self.shard_id, record, duplicate_of)
        self.dropped += 1
        self.raw_bytes += len(line)
        self._duplicates.write(line)

    @property
    def span(self) -> SequenceRange:
        """The closed interval that the segment covers. Raises FormatError when it is empty."""
        if self._first is None or self._last is None:
            raise FormatError("an empty segment has no span")
        return SequenceRange(self._first, self._last)

    def body(self) -> bytes:
        """Close the segment and return its gzip bytes; nothing can be added afterwards."""
        return self._close()[0]

    def duplicates_body(self) -> bytes:
        """Close the segment and return the gzip bytes of its dropped duplicates."""
        return self._close()[1]

    def metadata(
        self,
        *,
        after: Predecessor,
        writer: str,
        continuity: Continuity | None = None,
        evidence_ms: int | None = None,
        watermarks: str | None = None,
    ) -> SegmentMetadata:
        """Describe the segment. Raises FormatError when it is empty."""
        first, last = self.span
        return SegmentMetadata(
            shard_id=self.shard_id,
            minute=self.minute,
            first=first,
            last=last,
            after=after,
            records=self.records,
            dropped=self.dropped,
            payload_bytes=self.payload_bytes,
            arrival_min_ms=self._arrival_min_ms,
            arrival_max_ms=self._arrival_max_ms,
            writer=writer,
            continuity=continuity,
            evidence_ms=evidence_ms,
            watermarks=watermarks,
        )

    def _span_over(self, records: Sequence[Record]) -> None:
        arrivals = [record.arrival_ms for record in records]
        low, high = min(arrivals), max(arrivals)
        if self._first is None:
            self._first = records[0].position
            self._arrival_min_ms, self._arrival_max_ms = low, high
        else:
            self._arrival_min_ms = min(low, self._arrival_min_ms)
            self._arrival_max_ms = max(high, self._arrival_max_ms)
        self._last = records[-1].position

    def _close(self) -> tuple[bytes, bytes]:
        if self._bodies is None:
            self._bodies = (self._lines.close(), self._duplicates.close())
        return self._bodies


def inflate(chunks: Iterable[bytes], *, max_line_bytes: int = MAX_LINE_BYTES) -> Iterator[bytes]:
    """Yield the lines of a gzip body that arrives in chunks; memory is bounded by the longest line.

    Checks the CRC and length of the gzip trailer. Other writers' bodies of several gzip members are read too.

    Raises:
        FormatError: damaged, cut short, followed by something that is not a gzip member, or a line without end.
    """
    partial: list[bytes] = []
    partial_bytes = 0
    for block in inflate_blocks(chunks):
        *lines, tail = block.split(b"\n")
        if lines and partial:
            lines[0] = b"".join([*partial, lines[0]])
            partial.clear()
            partial_bytes = 0
        yield from lines
        if tail:
            partial.append(tail)
            partial_bytes += len(tail)
            if partial_bytes > max_line_bytes:
                raise FormatError(f"a line is longer than {max_line_bytes} bytes")
    if partial:
        raise FormatError("the last line has no line break")


def inflate_blocks(chunks: Iterable[bytes], block_bytes: int = _READ_BYTES) -> Iterator[bytes]:
    """Yield the decompressed bytes in blocks of at most `block_bytes`, however well they were compressed.

    Raises:
        FormatError: damaged, cut short, or followed by something that is not a gzip member.
    """
    decoder = isal_zlib.decompressobj(wbits=_GZIP_WBITS)
    for piece in _pieces(chunks):
        rest = piece
        while rest:
            if decoder.eof:
                decoder = isal_zlib.decompressobj(wbits=_GZIP_WBITS)
            try:
                block = decoder.decompress(rest, block_bytes)
            except (isal_zlib.error, zlib.error) as exc:  # type: ignore[misc]  # isal's stubs call it an instance
                raise FormatError(f"damaged gzip stream: {exc}") from exc
            rest = decoder.unused_data if decoder.eof else decoder.unconsumed_tail
            yield block
    if not decoder.eof:
        raise FormatError("the gzip stream is cut short")


def _pieces(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Cut the chunks small: for each block the decoder copies all that it has not consumed yet."""
    for chunk in chunks:
        for start in range(0, len(chunk), _PIECE_BYTES):
            yield chunk[start : start + _PIECE_BYTES]


def read_records(body: bytes, shard_id: str) -> Iterator[tuple[Position, Record]]:
    """Yield the records of a body in their order, with positions.

    Raises:
        FormatError: damage, a line of another shard, or positions that do not ascend.
    """
    check = _LineCheck(shard_id)
    for line in inflate([body]):
        line_shard, record = decode_line(line)
        yield check.position(line_shard, record), record


def read_dropped(body: bytes, shard_id: str) -> Iterator[tuple[Position, Record, str]]:
    """Yield the dropped duplicates of a `_duplicates` body: position, record, duplicate_of. Raises FormatError."""
    check = _LineCheck(shard_id)
    for line in inflate([body]):
        line_shard, record, duplicate_of = decode_dropped_line(line)
        yield check.position(line_shard, record), record, duplicate_of


class _LineCheck:
    """Lines belong to one shard, and their positions ascend."""

    def __init__(self, shard_id: str) -> None:
        self._shard_id = shard_id
        self._previous: Position | None = None
        self._number = 0

    def position(self, line_shard: str, record: Record) -> Position:
        self._number += 1
        position = record.position
        if line_shard != self._shard_id:
            raise FormatError(f"line {self._number} belongs to shard {line_shard!r}, not {self._shard_id!r}")
        if self._previous is not None and position <= self._previous:
            raise FormatError(f"line {self._number}: position {position} does not lie after {self._previous}")
        self._previous = position
        return position
