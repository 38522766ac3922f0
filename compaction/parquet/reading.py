"""Read a segment: its body as blocks of whole lines, these as Arrow tables, and the facts about its lines."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from compaction.columns.arrow_columns import constant_column
from compaction.inventory.segments import Disorder, SegmentFacts
from compaction.parquet.gathering import GatheredLines
from compaction.parquet.line_tables import Block, table_of_block, table_of_columns
from compaction.parquet.plan import RawObject
from minutebook.codec.columns import ReadRows, new_column_reader, own_buffers
from minutebook.compression import compression_of
from minutebook.errors import FormatError
from minutebook.format.minute import MINUTE_MS
from minutebook.format.position import Position
from minutebook.format.segment import MAX_LINE_BYTES, inflate_blocks

BLOCK_BYTES: Final = 1 << 20
"""Bytes of lines that are parsed at once: they fit into the processor's cache."""
_SAMPLES: Final = 20
_NEVER_MS: Final = -(1 << 63)


class SegmentReader:
    """Yields a segment's lines as tables of `LINE_SCHEMA`, and collects facts about them.

    A problem ends the reading: the caller must then discard the tables before it. `native` False: use Python's codec.
    """

    def __init__(self, raw_object: RawObject, block_bytes: int = BLOCK_BYTES, *, native: bool = True) -> None:
        self._object = raw_object
        self._block_bytes = block_bytes
        self._columns = new_column_reader(raw_object.shard_id) if native else None
        self._opens = raw_object.minute * MINUTE_MS
        self._lines = self._raw_bytes = self._payload_bytes = 0
        self._first: Position | None = None
        self._last: Position | None = None
        self._low: Position | None = None
        self._high: Position | None = None
        self._arrivals: tuple[int, int] | None = None
        self._step_back_ms = 0
        self._stepped_back = self._repeated = self._wrong_minute = self._wrong_shard = 0
        self._samples: list[str] = []
        self._problem = ""

    def tables(self, chunks: Iterable[bytes], gathered: GatheredLines | None = None) -> Iterator[pa.Table]:
        """Yield the lines of a body that is read in chunks; with `gathered`, those that it does not take."""
        for block in self._blocks(chunks):
            into = gathered if gathered is not None and gathered.takes(block) else None
            buffers = own_buffers() if into is None else into.buffers
            latest_ms = _NEVER_MS if self._arrivals is None else self._arrivals[1]
            read = None if self._columns is None else buffers.read(self._columns, *block, latest_ms)
            if read is None:
                try:
                    table = table_of_block(block, self._lines)
                except FormatError as exc:
                    self._problem = str(exc)
                    return
                self._note_table(table, block.size)
                yield table
                continue
            self._note_rows(read, block.size)
            if into is not None:
                into.add(self._object, read.rows)
            else:
                yield table_of_columns(buffers.take(), constant_column(self._object.shard_id, read.rows))

    def _blocks(self, chunks: Iterable[bytes]) -> Iterator[Block]:
        """Yield blocks of whole lines. Whoever takes one may raise FormatError for reasons of its own."""
        try:
            blocks = inflate_blocks(chunks, compression_of(self._object.key), self._block_bytes)
            yield from _whole_lines(blocks, self._block_bytes)
        except FormatError as exc:
            self._problem = str(exc)

    def facts(self, metadata: dict[str, str]) -> SegmentFacts:
        """Return the facts so far."""
        low, high = self._arrivals or (0, 0)
        return SegmentFacts(
            self._object.key,
            metadata,
            lines=self._lines,
            raw_bytes=self._raw_bytes,
            payload_bytes=self._payload_bytes,
            first=self._first,
            last=self._last,
            low=self._low,
            high=self._high,
            arrival_min_ms=low,
            arrival_max_ms=high,
            step_back_ms=self._step_back_ms,
            disorder=Disorder(self._stepped_back, self._repeated, tuple(self._samples)),
            wrong_minute=self._wrong_minute,
            wrong_shard=self._wrong_shard,
            problem=self._problem,
        )

    def _note_table(self, table: pa.Table, raw_bytes: int) -> None:
        sequences, subs = _positions(table)
        first, last = position_at(sequences, subs, 0), position_at(sequences, subs, len(sequences) - 1)
        self._note_positions(
            first, last, None if is_ascending(sequences, subs) else partial(_parsed, sequences, subs)
        )
        self._payload_bytes += payload_bytes(table)
        self._lines += table.num_rows
        self._raw_bytes += raw_bytes
        arrivals_ms = table["arrival_ms"]
        bounds, known = pc.min_max(arrivals_ms).as_py(), self._arrivals
        latest_ms = pc.cumulative_max(arrivals_ms, start=None if known is None else known[1])
        step_back_ms = pc.max(pc.subtract(latest_ms, arrivals_ms)).as_py()
        self._note_arrivals(bounds["min"], bounds["max"], step_back_ms, arrivals_ms.to_pylist)
        if pc.unique(table["shard_id"]).to_pylist() != [self._object.shard_id]:
            self._wrong_shard += table.num_rows - pc.sum(pc.equal(table["shard_id"], self._object.shard_id)).as_py()

    def _note_rows(self, read: ReadRows, raw_bytes: int) -> None:
        """Use the facts of the native codec, which reads lines of this shard only."""
        self._note_positions(read.first, read.last, None if read.ascends else read.positions)
        self._payload_bytes += read.payload_bytes
        self._lines += read.rows
        self._raw_bytes += raw_bytes
        self._note_arrivals(read.arrival_min_ms, read.arrival_max_ms, read.step_back_ms, read.arrivals_ms)

    def _note_positions(
        self, first: Position, last: Position, unordered: Callable[[], list[Position]] | None
    ) -> None:
        """Note the ends of a block; `unordered` returns all its positions if they do not ascend."""
        if self._last is not None and first <= self._last:
            self._note_disorder(first, self._last)
        low, high = (first, last) if unordered is None else self._disorder(unordered())
        self._low = low if self._low is None else min(self._low, low)
        self._high = high if self._high is None else max(self._high, high)
        self._first = self._first if self._first is not None else first
        self._last = last

    def _disorder(self, positions: list[Position]) -> tuple[Position, Position]:
        """Count the steps back; return the lowest and the highest position."""
        for before, position in itertools.pairwise(positions):
            if position <= before:
                self._note_disorder(position, before)
        return min(positions), max(positions)

    def _note_disorder(self, position: Position, before: Position) -> None:
        if position == before:
            self._repeated += 1
        else:
            self._stepped_back += 1
        if len(self._samples) < _SAMPLES:
            self._samples.append(str(position))

    def _note_arrivals(self, low: int, high: int, step_back_ms: int, arrivals_ms: Callable[[], list[int]]) -> None:
        closes = self._opens + MINUTE_MS
        if low < self._opens or high >= closes:
            self._wrong_minute += sum(not self._opens <= arrival_ms < closes for arrival_ms in arrivals_ms())
        self._step_back_ms = max(self._step_back_ms, step_back_ms)
        known = self._arrivals
        self._arrivals = (low, high) if known is None else (min(low, known[0]), max(high, known[1]))


def _parsed(sequences: pa.StringArray, subs: pa.Int64Array) -> list[Position]:
    """Return the positions of all rows."""
    return [Position(int(number), sub) for number, sub in zip(sequences.to_pylist(), subs.to_pylist(), strict=True)]


def _positions(table: pa.Table) -> tuple[pa.StringArray, pa.Int64Array]:
    """Return the two columns that make a position."""
    return table["sequence_number"].combine_chunks(), table["sub_sequence_number"].combine_chunks()


def position_at(sequences: pa.StringArray, subs: pa.Int64Array, index: int) -> Position:
    """Return the position of one row."""
    return Position(int(sequences[index].as_py()), subs[index].as_py())


def is_ascending(sequences: pa.StringArray, subs: pa.Int64Array) -> bool:
    """Return whether positions strictly ascend. Sequence numbers of equal length (the usual case) compare as text."""
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


def _whole_lines(chunks: Iterable[bytes], block_bytes: int) -> Iterator[Block]:
    """Cut chunks into blocks of whole lines, about `block_bytes` each.

    All blocks share one buffer, which stays in the processor's cache: a block is valid until the next one. It is as
    long as need be: pages of a megabyte for one line take longer than all else.
    """
    buffer = bytearray()
    size = begun = 0  # bytes in the buffer, and bytes of its last, unfinished line
    for chunk in chunks:
        _overwrite(buffer, size, chunk)
        size += len(chunk)
        cut = chunk.rfind(b"\n") + 1
        begun = len(chunk) - cut if cut else begun + len(chunk)
        if begun > MAX_LINE_BYTES:
            raise FormatError(f"a line is longer than {MAX_LINE_BYTES} bytes")
        if size >= block_bytes and cut:
            yield Block(buffer, size - begun)
            _overwrite(buffer, 0, buffer[size - begun : size])
            size = begun
    if size > begun:
        yield Block(buffer, size - begun)
    if begun:
        raise FormatError("the last line has no line break")


def _overwrite(buffer: bytearray, at: int, data: bytes | bytearray) -> None:
    """Write data at an offset; the buffer grows if needed."""
    missing = at + len(data) - len(buffer)
    if missing > 0:
        buffer.extend(bytes(missing))
    with memoryview(buffer) as view:  # assigning to a slice of the bytearray would copy the data first
        view[at : at + len(data)] = data
