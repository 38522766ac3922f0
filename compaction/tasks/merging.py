"""Merging suspicious segments: their lines in the order of positions, each position once, and what was there twice.

The segments are read side by side, block by block, and each is opened when the merge reaches the position where it
begins: two writers whose cuts interleave for a whole day have two or three segments open at any time, and memory is a
few blocks, not the day, also where their lines alternate. The survivor is deterministic: the line in the lowest key,
and there the first.
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
    """Positions that more than one line of the same objects has.

    `surplus` is the number of lines too many, `positions` at most 20 samples as text, `differing` the number of
    positions whose lines do not say the same.
    """

    shard_id: str
    minute: int
    keys: tuple[str, ...]
    surplus: int
    positions: tuple[str, ...]
    differing: int


class MergeSource(NamedTuple):
    """Lines of one object, in order. `tables` opens it; nothing is opened before the merge reaches `low`."""

    raw_object: RawObject
    low: Position
    tables: Callable[[], Iterator[pa.Table]]


class MergedRun(NamedTuple):
    """Lines that come next; `keys` holds the key of each one's segment."""

    lines: pa.Table
    keys: pa.StringArray


class Merge:
    """The merge of some objects of one shard: take all `runs`, then ask for `repeats`."""

    def __init__(self, sources: Sequence[MergeSource]) -> None:
        self._sources = sources
        self._tallies: dict[tuple[str, ...], _Tally] = {}

    def runs(self) -> Iterator[MergedRun]:
        """Yield the rows that stay, in the order of positions."""
        buffer, keys = RowBuffer(), list[str]()
        event: _SamePosition | None = None
        for line in _in_order(self._sources):
            if event is not None and event.kept.position == line.position:
                event.add(line)
                continue
            self._count(event)
            event = _SamePosition(line)
            if buffer.is_full:
                yield MergedRun(buffer.take(), text_column(keys))
                keys.clear()
            buffer.add(line.table, line.row)
            keys.append(self._sources[line.source].raw_object.key)
        self._count(event)
        if len(buffer):
            yield MergedRun(buffer.take(), text_column(keys))

    def repeats(self) -> tuple[Repeat, ...]:
        """Return what was repeated, by the objects that share positions."""
        found = []
        for keys, tally in sorted(self._tallies.items()):
            about = tally.raw_object
            found.append(
                Repeat(about.shard_id, about.minute, keys, tally.surplus, tuple(tally.positions), tally.differing)
            )
        return tuple(found)

    def _count(self, event: "_SamePosition | None") -> None:
        if event is None or not event.surplus:
            return
        keys = tuple(dict.fromkeys(self._sources[number].raw_object.key for number in event.sources))
        raw_object = self._sources[event.kept.source].raw_object
        tally = self._tallies.setdefault(keys, _Tally(raw_object))
        tally.surplus += event.surplus
        tally.differing += event.differs
        if len(tally.positions) < _SAMPLES:
            tally.positions.append(str(event.kept.position))


class _Line(NamedTuple):
    position: Position
    source: int
    table: pa.Table
    row: int


class _Tally:
    """What some objects share."""

    def __init__(self, raw_object: RawObject) -> None:
        self.raw_object = raw_object
        self.surplus = self.differing = 0
        self.positions: list[str] = []


class _SamePosition:
    """The lines of one position: the one that is kept, and what is worth knowing of the others."""

    def __init__(self, kept: _Line) -> None:
        self.kept = kept
        self.sources = {kept.source: None}
        self.surplus = 0
        self.differs = False

    def add(self, line: _Line) -> None:
        self.sources[line.source] = None
        self.surplus += 1
        self.differs = self.differs or _digest(line) != _digest(self.kept)


def _in_order(sources: Sequence[MergeSource]) -> Iterator[_Line]:
    """Yield the lines of all sources by position, then key; a source waits at `low` until it is its turn."""
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
