"""Find the records that repeat an event (producer duplicates). Pure.

The rows of a partition are sorted, and equal digests compared. More rows than a few MiB are partitioned once more,
into unnamed temporary files. An event has at most two rows in an object, so copies are reported by event and object.
"""

import tempfile
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import IO, Final, NamedTuple

from compaction.event_ids.rows import COUNTED, DIGEST_BYTES, ROW, ROW_BYTES, sorted_rows, stretches

HELD_BYTES: Final = 32 << 20
"""Bytes of rows that are compared at once; sorting takes about four times as much."""
SAMPLES: Final = 20
_PAIR: Final = 2
_FILES: Final = 16


class LineRef(NamedTuple):
    """A record: the number of its raw object, and its line in it, counted from 0."""

    number: int
    line: int


class Layout(NamedTuple):
    """The meaning of object numbers, which follow the order of day, shard and position.

    Numbers below `first_of_day` are of the previous day. `shards`: first number of each shard, ascending. Objects in
    `excluded` are ignored: their lines are in doubt. `runs`: first numbers of consecutive objects of one task,
    ascending, and `tasks`: the group of that task; both empty: no line is dropped.
    """

    first_of_day: int
    shards: tuple[int, ...]
    excluded: frozenset[int] = frozenset()
    runs: tuple[int, ...] = ()
    tasks: tuple[int, ...] = ()

    def writer(self, number: int) -> int | None:
        """Return the group of the task that drops copies from an object; None: there is none."""
        return self.tasks[bisect_right(self.runs, number) - 1] if self.runs else None


class EventCopies(NamedTuple):
    """The copies of one event in one object, ordered by `first`, the first copy.

    `total`: lines of the object with the event. `kept`: the line that stays; None if the original is in another
    object. `second`: the second line of the event in the object; None if there is only one.
    """

    first: LineRef
    digest: bytes
    total: int
    kept: int | None
    second: int | None
    original: LineRef

    @property
    def copies(self) -> int:
        """Number of lines that are copies."""
        return self.total - (self.kept is not None)

    @property
    def lines(self) -> tuple[int, ...] | None:
        """The lines of the copies; None if there are more than two lines, whose numbers are not known."""
        if self.total > _PAIR:
            return None
        if self.second is None or self.first.line == self.second:
            return (self.first.line,)
        return (self.first.line, self.second)


class ShardTally(NamedTuple):
    """The copies in one shard: their number, the first few, and the first `SAMPLES` + 1 objects with copies."""

    records: int = 0
    samples: tuple[EventCopies, ...] = ()
    numbers: tuple[int, ...] = ()

    def plus(self, other: "ShardTally") -> "ShardTally":
        """Return the sum of two tallies."""
        return ShardTally(
            self.records + other.records,
            tuple(sorted([*self.samples, *other.samples])[:SAMPLES]),
            tuple(sorted({*self.numbers, *other.numbers})[: SAMPLES + 1]),
        )


class Tallies:
    """Counts copies by shard (index in `Layout.shards`), and keeps the first few."""

    def __init__(self, layout: Layout) -> None:
        self._starts = layout.shards
        self._records: dict[int, int] = {}
        self._waiting: dict[int, list[EventCopies]] = {}
        self._shards: dict[int, ShardTally] = {}

    def add(self, copies: EventCopies) -> None:
        """Count the copies of an event in an object."""
        shard = bisect_right(self._starts, copies.first.number) - 1
        self._records[shard] = self._records.get(shard, 0) + copies.copies
        waiting = self._waiting.setdefault(shard, [])
        waiting.append(copies)
        if len(waiting) > 100 * SAMPLES:
            self._settle(shard)

    def shards(self) -> Iterator[tuple[int, ShardTally]]:
        """Yield the tally of each shard with copies."""
        for shard in self._records:
            self._settle(shard)
            yield shard, self._shards[shard]._replace(records=self._records[shard])

    def _settle(self, shard: int) -> None:
        waiting = self._waiting.pop(shard, [])
        new = ShardTally(0, tuple(waiting), tuple({copies.first.number for copies in waiting}))
        self._shards[shard] = self._shards.get(shard, ShardTally()).plus(new)


def find_copies(chunks: Iterable[bytes], layout: Layout, held_bytes: int = HELD_BYTES) -> Iterator[EventCopies]:
    """Yield the copies among the rows of one partition."""
    for rows in _repartitioned(chunks, held_bytes):
        ordered = sorted_rows(rows)
        view = memoryview(ordered)
        for begin, end in stretches(ordered):
            yield from _copies(_Event(view, begin, end, layout))


def _repartitioned(chunks: Iterable[bytes], held_bytes: int) -> Iterator[bytearray | bytes]:
    """Yield sets of rows, each with all rows of its digests: all at once, or one file after the other."""
    rows = bytearray()
    with ExitStack() as stack:
        files: list[IO[bytes]] = []
        for chunk in chunks:
            rows += chunk
            if len(rows) > held_bytes:
                files = files or [stack.enter_context(tempfile.TemporaryFile()) for _ in range(_FILES)]
                _spill(rows, files)
                rows.clear()
        if not files:
            yield rows
            return
        _spill(rows, files)
        rows.clear()
        for file in files:
            file.seek(0)
            yield file.read()


def _spill(rows: bytearray, files: Sequence[IO[bytes]]) -> None:
    """Write each row to a file by its digest's last byte; partitions are cut by the first bytes."""
    parts = [bytearray() for _ in files]
    for at in range(0, len(rows), ROW_BYTES):
        parts[rows[at + DIGEST_BYTES - 1] % _FILES] += rows[at : at + ROW_BYTES]
    for part, file in zip(parts, files, strict=True):
        file.write(part)


class _Occurrence(NamedTuple):
    """The lines of an event in one object."""

    first: LineRef
    arrival_ms: int
    total: int
    second: int | None


class _Event:
    """The occurrences of an event in objects that are not excluded, by number; iterable several times."""

    def __init__(self, view: memoryview, begin: int, end: int, layout: Layout) -> None:
        self._view = view
        self._begin = begin
        self._end = end
        self.layout = layout
        self.digest = bytes(view[ROW_BYTES * begin : ROW_BYTES * begin + DIGEST_BYTES])

    def __iter__(self) -> Iterator[_Occurrence]:
        return (lines for lines in self._all() if lines.first.number not in self.layout.excluded)

    def _all(self) -> Iterator[_Occurrence]:
        lines: _Occurrence | None = None
        for index in range(self._begin, self._end):
            _, number, line, last = ROW.unpack_from(self._view, ROW_BYTES * index)
            if lines is not None and last & COUNTED:
                lines = lines._replace(total=last ^ COUNTED, second=line)
                continue
            if lines is not None:
                yield lines
            lines = _Occurrence(LineRef(number, line), last, 1, None)
        if lines is not None:
            yield lines

    def original(self) -> LineRef | None:
        """Return the record that stays; None if all objects are excluded.

        It is any record of the previous day; else, of the records at the lowest position of each shard, the one that
        arrived first (of equal times, that of the first shard). Positions of different shards cannot be compared, and
        within a shard arrival times may step back.
        """
        best: _Occurrence | None = None
        shard = -1
        for lines in self:
            if lines.first.number < self.layout.first_of_day:
                return lines.first
            previous, shard = shard, bisect_right(self.layout.shards, lines.first.number)
            if shard != previous and (best is None or lines.arrival_ms < best.arrival_ms):
                best = lines
        return None if best is None else best.first


def _copies(event: _Event) -> Iterator[EventCopies]:
    original = event.original()
    if original is None:
        return
    for lines in event:
        if lines.first.number < event.layout.first_of_day:
            continue
        if lines.first != original:
            yield EventCopies(lines.first, event.digest, lines.total, None, lines.second, original)
        elif lines.second is not None:
            first = LineRef(lines.first.number, lines.second)
            yield EventCopies(first, event.digest, lines.total, lines.first.line, lines.second, original)
