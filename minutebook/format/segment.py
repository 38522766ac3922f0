"""A segment's body: gzip or zstd over JSON lines, written and read as a stream.

The same records give the same bytes, however they were delivered: the header has no time, and the boundaries of the
compressor's input, which affect its output, depend on the lines alone.
"""

import io
from collections.abc import Iterable, Iterator, Sequence

from minutebook.compression import Compression, Compressor, decompress, new_compressor
from minutebook.errors import FormatError
from minutebook.format.metadata import Continuity, Predecessor, SegmentMetadata
from minutebook.format.position import Position, SequenceRange
from minutebook.format.record import (
    Measured,
    Record,
    WrittenLines,
    decode_dropped_line,
    decode_line,
    encode_dropped_line,
    encode_lines,
)

_FEED_BYTES = 128 * 1024
_READ_BYTES = 256 * 1024
MAX_LINE_BYTES = 64 * 1024 * 1024
"""The longest line a reader accepts: Kinesis' largest record (10 MiB) with every byte escaped to six."""


class _LineStream:
    """Compresses lines in blocks of a fixed size. Holds a compressor from the first full block until `close`."""

    def __init__(self, compression: Compression) -> None:
        self._compression = compression
        self._compressor: Compressor | None = None
        self._compressed = io.BytesIO()
        self._pending = bytearray()

    def write(self, lines: bytes | memoryview) -> None:
        """Add whole lines."""
        at = 0
        with memoryview(lines) as view:
            while len(view) - at > (free := _FEED_BYTES - len(self._pending)):
                self._pending += view[at : at + free]
                self._feed()
                at += free
            self._pending += view[at:]

    def close(self) -> bytes:
        """Return the compressed bytes."""
        compressor = self._compressor or new_compressor(self._compression)
        with memoryview(self._pending) as rest:
            self._compressed.write(compressor.finish(rest))
        # getvalue() of a BytesIO makes no copy (Modules/_io/bytesio.c): a minute may be 40 MB.
        body = self._compressed.getvalue()
        self._pending.clear()
        self._compressed.close()
        self._compressor = None
        return body

    def _feed(self) -> None:
        self._compressor = self._compressor or new_compressor(self._compression)
        with memoryview(self._pending) as block:
            self._compressed.write(self._compressor.compress(block))
        self._pending.clear()


def measure_records(records: Sequence[Record]) -> Measured:
    """Measure one or more records."""
    arrivals = [record.arrival_ms for record in records]
    return Measured(min(arrivals), max(arrivals), sum([len(record.data) for record in records]))


class SegmentWriter:
    """A segment being written: one contiguous run of one shard's records within one minute.

    Holds the compressed stream, not the records. `extend` and `drop` take records in ascending position order, which
    the caller checks. Dropped producer duplicates belong to the span and go to a separate stream.
    """

    def __init__(self, shard_id: str, minute: int, compression: Compression = Compression.GZIP) -> None:
        self.shard_id = shard_id
        self.minute = minute
        self.compression = compression
        self.records = 0
        self.dropped = 0
        self.payload_bytes = 0
        self.raw_bytes = 0
        self._first: Position | None = None
        self._last: Position | None = None
        self._arrival_min_ms = 0
        self._arrival_max_ms = 0
        self._lines = _LineStream(compression)
        self._duplicates = _LineStream(compression)
        self._body: bytes | None = None
        self._duplicates_body: bytes | None = None

    def extend(self, records: Sequence[Record], measured: Measured | None = None) -> None:
        """Add one or more records; `measured` spares measuring them again."""
        span = SequenceRange(records[0].position, records[-1].position)
        self._add(encode_lines(self.shard_id, records), len(records), span, measured or measure_records(records))

    def extend_written(self, written: WrittenLines) -> None:
        """Add records that are encoded already."""
        self._add(written.lines, written.records, written.span, written.measured)

    def drop(self, record: Record, duplicate_of: str) -> None:
        """Add a producer duplicate: it extends the span, and its line goes to the duplicates."""
        self._extend_span(SequenceRange(record.position, record.position), measure_records([record]))
        line = encode_dropped_line(self.shard_id, record, duplicate_of)
        self.dropped += 1
        self.raw_bytes += len(line)
        self._duplicates.write(line)

    @property
    def span(self) -> SequenceRange:
        """The closed interval that the segment covers; raises FormatError if it is empty."""
        if self._first is None or self._last is None:
            raise FormatError("an empty segment has no span")
        return SequenceRange(self._first, self._last)

    def body(self) -> bytes:
        """Finish the body and return its bytes; nothing can be added afterwards."""
        if self._body is None:
            self._body = self._lines.close()
        return self._body

    def duplicates_body(self) -> bytes:
        """Finish the object of dropped duplicates and return its bytes."""
        if self._duplicates_body is None:
            self._duplicates_body = self._duplicates.close()
        return self._duplicates_body

    def metadata(
        self,
        *,
        after: Predecessor,
        writer: str,
        continuity: Continuity | None = None,
        evidence_ms: int | None = None,
        watermarks: str | None = None,
    ) -> SegmentMetadata:
        """Return the segment's metadata; raises FormatError if it is empty."""
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

    def _add(self, lines: bytes | memoryview, records: int, span: SequenceRange, measured: Measured) -> None:
        self._extend_span(span, measured)
        self.records += records
        self.payload_bytes += measured.payload_bytes
        self.raw_bytes += len(lines)
        self._lines.write(lines)

    def _extend_span(self, span: SequenceRange, measured: Measured) -> None:
        if self._first is None:
            self._first = span.first
            self._arrival_min_ms, self._arrival_max_ms = measured.arrival_min_ms, measured.arrival_max_ms
        else:
            self._arrival_min_ms = min(measured.arrival_min_ms, self._arrival_min_ms)
            self._arrival_max_ms = max(measured.arrival_max_ms, self._arrival_max_ms)
        self._last = span.last


def inflate(
    chunks: Iterable[bytes], compression: Compression = Compression.GZIP, *, max_line_bytes: int = MAX_LINE_BYTES
) -> Iterator[bytes]:
    """Yield the lines of a body that arrives in chunks; memory is bounded by the longest line.

    Raises FormatError as `decompress`, and for a line that is too long or has no line break.
    """
    partial: list[bytes] = []
    partial_bytes = 0
    for block in inflate_blocks(chunks, compression):
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


def inflate_blocks(
    chunks: Iterable[bytes], compression: Compression = Compression.GZIP, block_bytes: int = _READ_BYTES
) -> Iterator[bytes]:
    """Yield the decompressed bytes in blocks of at most `block_bytes`; raises FormatError as `decompress`."""
    return decompress(compression, chunks, block_bytes)


def read_records(
    body: bytes, shard_id: str, compression: Compression = Compression.GZIP
) -> Iterator[tuple[Position, Record]]:
    """Yield positions and records in order; raises FormatError for damage, another shard, or a step back."""
    return read_chunks([body], shard_id, compression)


def read_chunks(
    chunks: Iterable[bytes], shard_id: str, compression: Compression = Compression.GZIP
) -> Iterator[tuple[Position, Record]]:
    """Yield the records of a body that arrives in chunks, as `read_records` does, one line in memory."""
    check = _LineCheck(shard_id)
    for line in inflate(chunks, compression):
        line_shard, record = decode_line(line)
        yield check.position(line_shard, record), record


def read_dropped(
    body: bytes, shard_id: str, compression: Compression = Compression.GZIP
) -> Iterator[tuple[Position, Record, str]]:
    """Yield (position, record, duplicate_of) of a `_duplicates` body; raises FormatError."""
    check = _LineCheck(shard_id)
    for line in inflate([body], compression):
        line_shard, record, duplicate_of = decode_dropped_line(line)
        yield check.position(line_shard, record), record, duplicate_of


class _LineCheck:
    """Checks that lines belong to one shard and that their positions ascend."""

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
