"""Merge overlapping segments: their lines in the order of positions, each position once, and the repeats.

Segments are read block by block, and each is opened when the merge reaches the position where it begins. Even if two
writers overlap for a whole day, two or three segments are open at any time, and memory is a few blocks. Of the lines
of a position, the first one of the lowest key is kept.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heappop, heapreplace
from typing import Final, NamedTuple

import pyarrow as pa

from compaction.columns.arrow_columns import text_column
from compaction.parquet.plan import RawObject
from compaction.parquet.sorting import RowBuffer, positions_of
from minutebook.format.position import Position

_SAMPLES: Final = 20


class Repeat(NamedTuple):
    """Positions that several lines of the same objects share.

    `surplus`: number of extra lines; `positions`: at most 20 samples as text; `differing`: number of positions whose
    lines have different content.
    """

    shard_id: str
    minute: int
    keys: tuple[str, ...]
    surplus: int
    positions: tuple[str, ...]
    differing: int


class MergeSource(NamedTuple):
    """Lines of one object, in order. `tables` opens it, when the merge reaches `low`."""

    raw_object: RawObject
    low: Position
    tables: Callable[[], Iterator[pa.Table]]


class MergedRun(NamedTuple):
    """The next lines, with the key of each line's segment."""

    lines: pa.Table
    keys: pa.StringArray


class Merge:
    """The merge of objects of one shard: consume `runs`, then call `repeats`."""

    def __init__(self, sources: Sequence[MergeSource]) -> None:
        self._sources = sources
        self._tallies: dict[tuple[str, ...], _Tally] = {}

    def runs(self) -> Iterator[MergedRun]:
        """Yield the lines that are kept, in the order of positions."""
        buffer, keys = RowBuffer(), list[str]()
        same: _SamePosition | None = None
        for line in _in_order(self._sources):
            if same is not None and same.first.position == line.position:
                same.add(line)
                continue
            self._count(same)
            same = _SamePosition(line)
            if buffer.is_full:
                yield MergedRun(buffer.take(), text_column(keys))
                keys.clear()
            buffer.add(line.table, line.row)
            keys.append(self._sources[line.source].raw_object.key)
        self._count(same)
        if len(buffer):
            yield MergedRun(buffer.take(), text_column(keys))

    def repeats(self) -> tuple[Repeat, ...]:
        """Return the repeats, one for each set of objects that share positions."""
        return tuple(
            Repeat(
                tally.raw_object.shard_id,
                tally.raw_object.minute,
                keys,
                tally.surplus,
                tuple(tally.positions),
                tally.differing,
            )
            for keys, tally in sorted(self._tallies.items())
        )

    def _count(self, same: "_SamePosition | None") -> None:
        if same is None or not same.surplus:
            return
        keys = tuple(dict.fromkeys(self._sources[number].raw_object.key for number in same.sources))
        tally = self._tallies.setdefault(keys, _Tally(self._sources[same.first.source].raw_object))
        tally.surplus += same.surplus
        tally.differing += same.differs
        if len(tally.positions) < _SAMPLES:
            tally.positions.append(str(same.first.position))


class _Line(NamedTuple):
    position: Position
    source: int
    table: pa.Table
    row: int


class _Tally:
    """The positions that a set of objects shares."""

    def __init__(self, raw_object: RawObject) -> None:
        self.raw_object = raw_object
        self.surplus = self.differing = 0
        self.positions: list[str] = []


class _SamePosition:
    """The lines of one position: the first one, which is kept, and a summary of the others."""

    def __init__(self, first: _Line) -> None:
        self.first = first
        self.sources = {first.source: None}
        self.surplus = 0
        self.differs = False

    def add(self, line: _Line) -> None:
        self.sources[line.source] = None
        self.surplus += 1
        self.differs = self.differs or _digest(line) != _digest(self.first)


def _in_order(sources: Sequence[MergeSource]) -> Iterator[_Line]:
    """Yield the lines of all sources by position, then key; a source is opened at its `low`."""
    waiting = [(source.low, source.raw_object.key, number) for number, source in enumerate(sources)]
    heapify(waiting)
    opened: dict[int, tuple[Iterator[_Line], _Line]] = {}
    while waiting:
        _, key, number = waiting[0]
        if number in opened:
            lines, line = opened[number]
            yield line
        else:
            lines = _lines(sources[number], number)
        following = next(lines, None)
        if following is None:
            heappop(waiting)
            opened.pop(number, None)
        else:
            opened[number] = (lines, following)
            heapreplace(waiting, (following.position, key, number))


def _lines(source: MergeSource, number: int) -> Iterator[_Line]:
    for table in source.tables():
        for row, position in enumerate(positions_of(table)):
            yield _Line(position, number, table, row)


def _digest(line: _Line) -> bytes:
    content = tuple(
        line.table[name][line.row].as_py() for name in ("partition_key", "arrival_ms", "data", "data_bytes")
    )
    return hashlib.blake2b(repr(content).encode(), digest_size=16).digest()
