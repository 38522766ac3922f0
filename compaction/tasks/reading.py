"""Reading a segment: gzip to Arrow tables, every line checked on the way.

The quick way decodes blocks of lines with the archive's own codec and checks whole columns; a block that it does not
take is read again line by line, which says what is wrong with which line. Nothing is ever skipped.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from archive.errors import FormatError
from archive.format.minute import MINUTE_MS
from archive.format.position import Position
from archive.format.record import Line, decode_block, decode_line
from archive.format.segment import MAX_LINE_BYTES, inflate_blocks
from compaction.tasks.columns import bytes_column, constant_column, long_column, text_column, with_gaps
from compaction.tasks.facts import Disorder, SegmentFacts
from compaction.tasks.plan import Piece

BLOCK_BYTES: Final = 1 << 20
"""Bytes of lines that are parsed at once: what the processor's cache holds."""
_SAMPLES: Final = 20

LINE_SCHEMA: Final = pa.schema(
    [
        ("shard_id", pa.string()),
        ("sequence_number", pa.string()),
        ("sub_sequence_number", pa.int64()),
        ("partition_key", pa.string()),
        ("arrival_ms", pa.int64()),
        ("data", pa.string()),
        ("data_bytes", pa.binary()),
    ]
)
"""`data` holds the payloads that are valid UTF-8, `data_bytes` the others: one of them is null in each row."""
_LONGEST_NUMBER: Final = 129
_LATEST_MS: Final = ((1 << 63) - 1) // 1000
"""The Parquet files count microseconds in 64 bits."""


class SegmentReader:
    """Yields a segment's lines as tables of `LINE_SCHEMA` and collects what they show.

    A problem ends the reading: the tables that were given out before it must then be thrown away.
    """

    def __init__(self, piece: Piece, block_bytes: int = BLOCK_BYTES) -> None:
        self._piece = piece
        self._block_bytes = block_bytes
        self._opens = piece.minute * MINUTE_MS
        self._lines = self._raw_bytes = self._payload_bytes = 0
        self._first: Position | None = None
        self._last: Position | None = None
        self._low: Position | None = None
        self._high: Position | None = None
        self._arrivals: tuple[int, int] | None = None
        self._stepped_back = self._repeated = self._wrong_minute = self._wrong_shard = 0
        self._samples: list[str] = []
        self._problem = ""

    def tables(self, chunks: Iterable[bytes]) -> Iterator[pa.Table]:
        """Yield the lines of a gzip body that arrives in chunks."""
        try:
            for block in _whole_lines(inflate_blocks(chunks, self._block_bytes), self._block_bytes):
                table = _parse(block, self._lines)
                self._look_at(table, block.size)
                yield table
        except FormatError as exc:
            self._problem = str(exc)

    def facts(self, metadata: dict[str, str]) -> SegmentFacts:
        """Return what was seen so far."""
        low, high = self._arrivals or (0, 0)
        return SegmentFacts(
            self._piece.key,
            metadata,
            self._lines,
            self._raw_bytes,
            self._payload_bytes,
            self._first,
            self._last,
            self._low,
            self._high,
            low,
            high,
            Disorder(self._stepped_back, self._repeated, tuple(self._samples)),
            self._wrong_minute,
            self._wrong_shard,
            self._problem,
        )

    def _look_at(self, table: pa.Table, raw_bytes: int) -> None:
        sequences = table["sequence_number"].combine_chunks()
        subs = table["sub_sequence_number"].combine_chunks()
        first, last = position_at(sequences, subs, 0), position_at(sequences, subs, len(sequences) - 1)
        self._order(sequences, subs, first, last)
        self._first = self._first if self._first is not None else first
        self._last = last
        self._lines += table.num_rows
        self._raw_bytes += raw_bytes
        self._payload_bytes += payload_bytes(table)
        self._arrival(table["arrival_ms"])
        if pc.unique(table["shard_id"]).to_pylist() != [self._piece.shard_id]:
            self._wrong_shard += table.num_rows - pc.sum(pc.equal(table["shard_id"], self._piece.shard_id)).as_py()

    def _order(self, sequences: pa.StringArray, subs: pa.Int64Array, first: Position, last: Position) -> None:
        if self._last is not None and first <= self._last:
            self._note(first, self._last)
        if is_ascending(sequences, subs):
            low, high = first, last
        else:
            positions = [
                Position(int(number), sub)
                for number, sub in zip(sequences.to_pylist(), subs.to_pylist(), strict=True)
            ]
            for before, position in itertools.pairwise(positions):
                if position <= before:
                    self._note(position, before)
            low, high = min(positions), max(positions)
        self._low = low if self._low is None else min(self._low, low)
        self._high = high if self._high is None else max(self._high, high)

    def _note(self, position: Position, before: Position) -> None:
        if position == before:
            self._repeated += 1
        else:
            self._stepped_back += 1
        if len(self._samples) < _SAMPLES:
            self._samples.append(str(position))

    def _arrival(self, arrivals: pa.ChunkedArray) -> None:
        found = pc.min_max(arrivals).as_py()
        low, high = found["min"], found["max"]
        if low < self._opens or high >= self._opens + MINUTE_MS:
            inside = pc.and_(pc.greater_equal(arrivals, self._opens), pc.less(arrivals, self._opens + MINUTE_MS))
            self._wrong_minute += len(arrivals) - pc.sum(inside).as_py()
        known = self._arrivals
        self._arrivals = (low, high) if known is None else (min(low, known[0]), max(high, known[1]))


def position_at(sequences: pa.StringArray, subs: pa.Int64Array, index: int) -> Position:
    """Return the position of one row."""
    return Position(int(sequences[index].as_py()), subs[index].as_py())


def is_ascending(sequences: pa.StringArray, subs: pa.Int64Array) -> bool:
    """Tell whether positions strictly ascend. Numbers of one length compare as text; else they are compared as such.

    All of a shard's numbers have the same length in practice; nothing promises it.
    """
    if len(sequences) < 2:  # noqa: PLR2004 - a pair
        return True
    lengths = pc.min_max(pc.binary_length(sequences)).as_py()
    if lengths["min"] != lengths["max"]:
        numbers = list(zip(map(int, sequences.to_pylist()), subs.to_pylist(), strict=True))
        return all(before < after for before, after in itertools.pairwise(numbers))
    before, after = sequences[:-1], sequences[1:]
    greater = pc.greater(after, before)
    if pc.all(greater).as_py():
        return True
    same = pc.and_(pc.equal(after, before), pc.greater(subs[1:], subs[:-1]))
    return bool(pc.all(pc.or_(greater, same)).as_py())


def payload_bytes(table: pa.Table) -> int:
    """Return the sum of the payload lengths."""
    return sum(pc.sum(pc.binary_length(table[name])).as_py() or 0 for name in ("data", "data_bytes"))


class _Block(NamedTuple):
    """Whole lines: the first `size` bytes of a buffer."""

    buffer: bytearray
    size: int


def _whole_lines(pieces: Iterable[bytes], block_bytes: int) -> Iterator[_Block]:
    """Gather pieces and cut them at line breaks: blocks of about `block_bytes`, each valid until the next.

    All of a segment's stand in one buffer, each over the one before: it stays in the processor's cache.
    """
    buffer = bytearray(block_bytes)
    size = begun = 0  # what the buffer holds, and how much of it is the line that has no end yet
    for piece in pieces:
        _overwrite(buffer, size, piece)
        size += len(piece)
        cut = piece.rfind(b"\n") + 1
        begun = len(piece) - cut if cut else begun + len(piece)
        if begun > MAX_LINE_BYTES:
            raise FormatError(f"a line is longer than {MAX_LINE_BYTES} bytes")
        if size >= block_bytes and cut:
            yield _Block(buffer, size - begun)
            _overwrite(buffer, 0, buffer[size - begun : size])
            size = begun
    if size > begun:
        yield _Block(buffer, size - begun)
    if begun:
        raise FormatError("the last line has no line break")


def _overwrite(buffer: bytearray, at: int, data: bytes | bytearray) -> None:
    """Put the data there; the buffer grows if it must."""
    missing = at + len(data) - len(buffer)
    if missing > 0:
        buffer.extend(bytes(missing))
    with memoryview(buffer) as view:  # slices of a bytearray would take a copy of the data
        view[at : at + len(data)] = data


def _parse(block: _Block, lines_before: int) -> pa.Table:
    lines = decode_block(*block)
    table = None if lines is None else _table(lines)
    return _parse_slowly(bytes(memoryview(block.buffer)[: block.size]), lines_before) if table is None else table


def _table(lines: Sequence[Line]) -> pa.Table | None:
    """Turn lines into columns; None when a line breaks a rule that `decode_line` knows."""
    sequences = text_column([line.sequence_number for line in lines])
    arrivals = [line.arrival_ms for line in lines]
    payloads = _payloads(lines)
    if payloads is None or not _are_sequence_numbers(sequences) or not _are_arrivals(arrivals):
        return None
    shards = [line.shard_id for line in lines]
    is_one = shards.count(shards[0]) == len(shards)
    return pa.Table.from_arrays(
        [
            constant_column(shards[0], len(shards)) if is_one else text_column(shards),
            sequences,
            long_column([line.sub_sequence_number for line in lines]),
            text_column([line.partition_key for line in lines]),
            long_column(arrivals),
            *payloads,
        ],
        schema=LINE_SCHEMA,
    )


def _payloads(lines: Sequence[Line]) -> tuple[pa.Array, pa.Array] | None:
    """Return the columns of text and of bytes; None unless each line has exactly one payload."""
    texts, blobs = [line.data for line in lines], [line.data_base64 for line in lines]
    if blobs.count(msgspec.UNSET) == len(blobs):
        try:
            return text_column(texts), pa.nulls(len(lines), pa.binary())  # type: ignore[arg-type]  # raises if not
        except TypeError:  # a line without any payload
            return None
    pairs = [[value for value in pair if value is not msgspec.UNSET] for pair in zip(texts, blobs, strict=True)]
    if any(len(pair) != 1 for pair in pairs):
        return None
    return _payload_columns([pair[0] for pair in pairs])


def _payload_columns(payloads: Sequence[str | bytes]) -> tuple[pa.Array, pa.Array]:
    """Return the columns of text and of bytes: what is valid UTF-8 is text, however it was written."""
    read = [_text_if_valid(payload) if isinstance(payload, bytes) else payload for payload in payloads]
    is_text = [isinstance(payload, str) for payload in read]
    texts = text_column([payload if isinstance(payload, str) else "" for payload in read])
    blobs = bytes_column([b"" if isinstance(payload, str) else payload for payload in read])
    return with_gaps(texts, is_text), with_gaps(blobs, [not text for text in is_text])


def _text_if_valid(payload: bytes) -> str | bytes:
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return payload


def _are_arrivals(times_ms: Sequence[int]) -> bool:
    return max(times_ms) <= _LATEST_MS and min(times_ms) >= -_LATEST_MS


def _are_sequence_numbers(texts: pa.StringArray) -> bool:
    """Tell whether all are what `Position` takes; `0` is left to the slow way: Kinesis never gives it."""
    return (
        pc.all(pc.ascii_is_decimal(texts)).as_py()
        and not pc.any(pc.starts_with(texts, "0")).as_py()
        and pc.max(pc.binary_length(texts)).as_py() <= _LONGEST_NUMBER
    )


def _parse_slowly(block: bytes, lines_before: int) -> pa.Table:
    shards, records = [], []
    for number, line in enumerate(block[:-1].split(b"\n"), start=lines_before + 1):
        try:
            shard_id, record = decode_line(line)
        except FormatError as exc:
            raise FormatError(f"line {number}: {exc}") from exc
        if not _are_arrivals([record.arrival_ms]):
            raise FormatError(f"line {number}: not a line of a segment: arrival_ms {record.arrival_ms}")
        shards.append(shard_id)
        records.append(record)
    return pa.Table.from_arrays(
        [
            text_column(shards),
            text_column([record.sequence_number for record in records]),
            long_column([record.sub_sequence_number for record in records]),
            text_column([record.partition_key for record in records]),
            long_column([record.arrival_ms for record in records]),
            *_payload_columns([record.data for record in records]),
        ],
        schema=LINE_SCHEMA,
    )
