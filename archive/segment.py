"""A segment's body: gzip over JSON lines, written and read as a stream.

The same records give the same bytes, however they were delivered: the gzip header carries no time, and the
compressor is fed at boundaries that depend on the lines alone (ISA-L's output depends on where its input is cut).
"""

import zlib
from collections.abc import Iterable, Iterator

from isal import isal_zlib

from archive.errors import FormatError
from archive.metadata import Continuity, Predecessor, SegmentMetadata
from archive.position import Position, SequenceRange
from archive.record import Record, decode_line, encode_line

COMPRESSION_LEVEL = 2
_GZIP_WBITS = 31
_FEED_BYTES = 256 * 1024
_READ_BYTES = 256 * 1024
MAX_LINE_BYTES = 64 * 1024 * 1024
"""Longest line a reader accepts: Kinesis' largest record (10 MiB) with every byte escaped to six."""


class SegmentWriter:
    """The growing segment: one contiguous run of one shard's records within one minute.

    Holds the compressed stream, not the records. `append` takes records in ascending position order; the caller
    checks the order, because it knows what it delivered before.
    """

    def __init__(self, shard_id: str, minute: int) -> None:
        self.shard_id = shard_id
        self.minute = minute
        self._first: Position | None = None
        self._last: Position | None = None
        self.records = 0
        self.payload_bytes = 0
        self.raw_bytes = 0
        self._arrival_min_ms = 0
        self._arrival_max_ms = 0
        self._compressor = isal_zlib.compressobj(COMPRESSION_LEVEL, wbits=_GZIP_WBITS)
        self._compressed: list[bytes] = []
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._body: bytes | None = None

    def append(self, position: Position, record: Record) -> None:
        """Add a record and its line."""
        self._extend(position, record.arrival_ms)
        line = encode_line(self.shard_id, record)
        size = len(line) + 1
        self.records += 1
        self.payload_bytes += len(record.data)
        self.raw_bytes += size
        self._pending.append(line)
        self._pending_bytes += size
        if self._pending_bytes >= _FEED_BYTES:
            self._feed()

    @property
    def span(self) -> SequenceRange:
        """The closed interval that the segment stands for. Raises FormatError when it is empty."""
        if self._first is None or self._last is None:
            raise FormatError("an empty segment has no span")
        return SequenceRange(self._first, self._last)

    def body(self) -> bytes:
        """Close the stream and return the gzip bytes; nothing can be added afterwards."""
        if self._body is None:
            self._feed()
            self._compressed.append(self._compressor.flush())
            self._body = b"".join(self._compressed)
            self._compressed.clear()
        return self._body

    def metadata(self, *, after: Predecessor, writer: str, continuity: Continuity | None = None) -> SegmentMetadata:
        """Describe the segment. Raises FormatError when it is empty."""
        first, last = self.span
        return SegmentMetadata(
            shard_id=self.shard_id,
            minute=self.minute,
            first=first,
            last=last,
            after=after,
            records=self.records,
            dropped=0,
            payload_bytes=self.payload_bytes,
            arrival_min_ms=self._arrival_min_ms,
            arrival_max_ms=self._arrival_max_ms,
            writer=writer,
            continuity=continuity,
        )

    def _extend(self, position: Position, arrival_ms: int) -> None:
        if self._first is None:
            self._first = position
            self._arrival_min_ms = self._arrival_max_ms = arrival_ms
        elif arrival_ms < self._arrival_min_ms:
            self._arrival_min_ms = arrival_ms
        elif arrival_ms > self._arrival_max_ms:
            self._arrival_max_ms = arrival_ms
        self._last = position

    def _feed(self) -> None:
        if self._pending:
            self._pending.append(b"")
            self._compressed.append(self._compressor.compress(b"\n".join(self._pending)))
            self._pending.clear()
            self._pending_bytes = 0


def inflate(chunks: Iterable[bytes], *, max_line_bytes: int = MAX_LINE_BYTES) -> Iterator[bytes]:
    """Yield the lines of a gzip body that arrives in chunks; memory is bounded by the longest line.

    Checks the CRC and length of the gzip trailer. Other writers' bodies of several gzip members are read too.

    Raises:
        FormatError: damaged, cut short, followed by something that is no gzip member, or a line without end.
    """
    partial: list[bytes] = []
    partial_bytes = 0
    for block in _blocks(chunks):
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


def _blocks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the decompressed bytes in blocks of at most `_READ_BYTES`, however well they were compressed."""
    decoder = isal_zlib.decompressobj(wbits=_GZIP_WBITS)
    for compressed in chunks:
        rest = compressed
        while rest:
            if decoder.eof:
                decoder = isal_zlib.decompressobj(wbits=_GZIP_WBITS)
            try:
                block = decoder.decompress(rest, _READ_BYTES)
            except (isal_zlib.error, zlib.error) as exc:  # type: ignore[misc]  # isal's stubs call it an instance
                raise FormatError(f"damaged gzip stream: {exc}") from exc
            rest = decoder.unused_data if decoder.eof else decoder.unconsumed_tail
            yield block
    if not decoder.eof:
        raise FormatError("the gzip stream is cut short")


def read_records(body: bytes, shard_id: str) -> Iterator[tuple[Position, Record]]:
    """Yield the records of a body in their order, with positions.

    Raises:
        FormatError: damage, a line of another shard, or positions that do not ascend.
    """
    previous: Position | None = None
    for number, line in enumerate(inflate([body]), start=1):
        line_shard, record = decode_line(line)
        position = record.position
        if line_shard != shard_id:
            raise FormatError(f"line {number} belongs to shard {line_shard!r}, not {shard_id!r}")
        if previous is not None and position <= previous:
            raise FormatError(f"line {number}: position {position} does not lie after {previous}")
        previous = position
        yield position, record
