"""Find the records that repeat an event (producer duplicates), and those that only have the id of one. Pure.

    id and payload of an earlier record ....... a copy of it
    its id, and another payload ............... a conflict: another event, which is kept

The rows of a partition are sorted, and equal ids compared. More rows than a few MiB are partitioned once more, into
unnamed temporary files. An event has at most two rows in an object, so copies are reported by event and object.
"""

import tempfile
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import IO, Final, NamedTuple

from compaction.event_ids.rows import (
    COUNTED,
    EVENT_BYTES,
    ID_BYTES,
    ROW_BYTES,
    UNCOMPARED,
    events_of,
    sorted_rows,
    stretches,
    unpack_row,
)

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


class IdConflict(NamedTuple):
    """A record with the id of `original`, an earlier one, and with another payload.

    `total`: lines of the object that it stands for; only `first` is named if there are several.
    """

    first: LineRef
    total: int
    original: LineRef


Repeated = EventCopies | IdConflict


class Tally(NamedTuple):
    """Records of one shard: their number, the first few, and the first `SAMPLES` + 1 objects that hold any."""

    records: int = 0
    samples: tuple[Repeated, ...] = ()
    numbers: tuple[int, ...] = ()

    def plus(self, other: "Tally") -> "Tally":
        """Return the sum of two tallies."""
        return Tally(
            self.records + other.records,
            tuple(sorted([*self.samples, *other.samples], key=_order)[:SAMPLES]),
            tuple(sorted({*self.numbers, *other.numbers})[: SAMPLES + 1]),
        )


class ShardTally(NamedTuple):
    """The copies in one shard, and the records that conflict with another one."""

    copies: Tally = Tally()
    conflicts: Tally = Tally()

    def plus(self, other: "ShardTally") -> "ShardTally":
        """Return the sum of two tallies."""
        return ShardTally(self.copies.plus(other.copies), self.conflicts.plus(other.conflicts))


class Tallies:
    """Counts copies and conflicts by shard (index in `Layout.shards`), and keeps the first few."""

    def __init__(self, layout: Layout) -> None:
        self._starts = layout.shards
        self._copies: dict[int, _Counting] = {}
        self._conflicts: dict[int, _Counting] = {}

    def add(self, repeated: Repeated) -> None:
        """Count the copies of an event in an object, or a conflict."""
        shard = bisect_right(self._starts, repeated.first.number) - 1
        if isinstance(repeated, IdConflict):
            self._conflicts.setdefault(shard, _Counting()).add(repeated, repeated.total)
        else:
            self._copies.setdefault(shard, _Counting()).add(repeated, repeated.copies)

    def shards(self) -> Iterator[tuple[int, ShardTally]]:
        """Yield the tally of each shard with copies or conflicts."""
        for shard in sorted({*self._copies, *self._conflicts}):
            copies, conflicts = (kind.get(shard, _Counting()) for kind in (self._copies, self._conflicts))
            yield shard, ShardTally(copies.tally(), conflicts.tally())


class _Counting:
    """A tally that grows."""

    def __init__(self) -> None:
        self._records = 0
        self._waiting: list[Repeated] = []
        self._few = Tally()

    def add(self, repeated: Repeated, records: int) -> None:
        """Count records."""
        self._records += records
        self._waiting.append(repeated)
        if len(self._waiting) > 100 * SAMPLES:
            self._settle()

    def tally(self) -> Tally:
        """Return the tally."""
        self._settle()
        return self._few._replace(records=self._records)

    def _settle(self) -> None:
        numbers = {repeated.first.number for repeated in self._waiting}
        self._few = self._few.plus(Tally(0, tuple(self._waiting), tuple(numbers)))
        self._waiting.clear()


def _order(repeated: Repeated) -> tuple[LineRef, LineRef]:
    return repeated.first, repeated.original


def find_copies(chunks: Iterable[bytes], layout: Layout, held_bytes: int = HELD_BYTES) -> Iterator[Repeated]:
    """Yield the copies and the conflicts among the rows of one partition."""
    for rows in _repartitioned(chunks, held_bytes):
        ordered = sorted_rows(rows)
        view = memoryview(ordered)
        for begin, end in stretches(ordered, ID_BYTES):
            yield from _of_id(view, begin, end, layout)


def _repartitioned(chunks: Iterable[bytes], held_bytes: int) -> Iterator[bytearray | bytes]:
    """Yield sets of rows, each with all rows of its ids: all at once, or one file after the other."""
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
    """Write each row to a file by its id's last byte; partitions are cut by the first bytes."""
    parts = [bytearray() for _ in files]
    for at in range(0, len(rows), ROW_BYTES):
        parts[rows[at + ID_BYTES - 1] % _FILES] += rows[at : at + ROW_BYTES]
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
        self.digest = bytes(view[ROW_BYTES * begin : ROW_BYTES * begin + EVENT_BYTES])
        self.is_uncompared = self.digest[ID_BYTES:] == UNCOMPARED

    def __iter__(self) -> Iterator[_Occurrence]:
        return (lines for lines in self._all() if lines.first.number not in self.layout.excluded)

    def _all(self) -> Iterator[_Occurrence]:
        lines: _Occurrence | None = None
        for index in range(self._begin, self._end):
            _, number, line, last = unpack_row(self._view, index)
            if self.is_uncompared:
                yield _Occurrence(LineRef(number, line), 0, last ^ COUNTED, None)
                continue
            if lines is not None and last & COUNTED:
                lines = lines._replace(total=last ^ COUNTED, second=line)
                continue
            if lines is not None:
                yield lines
            lines = _Occurrence(LineRef(number, line), last, 1, None)
        if lines is not None:
            yield lines

    def original(self) -> _Occurrence | None:
        """Return the record that stays; None if all objects are excluded.

        It is any record of the previous day; else, of the records at the lowest position of each shard, the one that
        arrived first (of equal times, that of the first shard). Positions of different shards cannot be compared, and
        within a shard arrival times may step back.
        """
        best: _Occurrence | None = None
        shard = -1
        for lines in self:
            if lines.first.number < self.layout.first_of_day:
                return lines
            previous, shard = shard, bisect_right(self.layout.shards, lines.first.number)
            if shard != previous and (best is None or lines.arrival_ms < best.arrival_ms):
                best = lines
        return best


def _of_id(view: memoryview, begin: int, end: int, layout: Layout) -> Iterator[Repeated]:
    """Yield the copies of each event with an id; if there are several events, all but the first are conflicts."""
    first: tuple[bool, int, LineRef] | None = None
    several = False
    for part in events_of(view, begin, end):
        event = _Event(view, *part, layout)
        original = None if event.is_uncompared else event.original()
        if original is not None:
            yield from _copies(event, original.first)
            rank = (original.first.number >= layout.first_of_day, original.arrival_ms, original.first)
            several = several or first is not None
            first = rank if first is None else min(first, rank)
    if first is not None and several:
        for part in events_of(view, begin, end):
            yield from _conflicts(_Event(view, *part, layout), first[-1])


def _conflicts(event: _Event, first: LineRef) -> Iterator[IdConflict]:
    """Yield the record of an event that conflicts with the first one of its id, if it is of the day."""
    original = None if event.is_uncompared else event.original()
    for lines in event if event.is_uncompared else () if original is None else (original,):
        if lines.first != first and lines.first.number >= event.layout.first_of_day:
            yield IdConflict(lines.first, lines.total if event.is_uncompared else 1, first)


def _copies(event: _Event, original: LineRef) -> Iterator[EventCopies]:
    for lines in event:
        if lines.first.number < event.layout.first_of_day:
            continue
        if lines.first != original:
            yield EventCopies(lines.first, event.digest, lines.total, None, lines.second, original)
        elif lines.second is not None:
            first = LineRef(lines.first.number, lines.second)
            yield EventCopies(first, event.digest, lines.total, lines.first.line, lines.second, original)
