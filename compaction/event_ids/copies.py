"""Which records repeat an event: the rules of producer duplicates. Pure.

A partition's rows are sorted and equal digests compared. Memory is bounded: more rows than a few MiB are dealt out
once more, into files without a name. Of an event's records only two rows of each object are there, so what is said of
copies is said by event and object.
"""

import tempfile
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import IO, Final, NamedTuple

from compaction.event_ids.rows import COUNTED, DIGEST_BYTES, ROW, ROW_BYTES, sorted_rows, stretches

HELD_BYTES: Final = 32 << 20
"""Bytes of a partition's rows that are compared at once; sorting takes about four times as much."""
SAMPLES: Final = 20
_PAIR: Final = 2
_FILES: Final = 16


class LineRef(NamedTuple):
    """A record: the number of its raw object, and its line there, counted from 0."""

    number: int
    line: int


class Layout(NamedTuple):
    """What the numbers of objects mean.

    Numbers are in the order of day, shard and position. Those below `first_of_day` are of the day before. `shards`
    holds the first number of each shard of the day, ascending. Raw objects in `excluded` take no part: their lines
    are in doubt. `runs` holds the first numbers of what a task has read in one piece, ascending, and `tasks` which
    one it is; none: nothing is left out.
    """

    first_of_day: int
    shards: tuple[int, ...]
    excluded: frozenset[int] = frozenset()
    runs: tuple[int, ...] = ()
    tasks: tuple[int, ...] = ()

    def writer(self, number: int) -> int | None:
        """Return the group of the task that leaves copies out of an object; None: nobody does."""
        return self.tasks[bisect_right(self.runs, number) - 1] if self.runs else None


class EventCopies(NamedTuple):
    """The copies of one event in one object, in the order of `first`, the line of the first copy.

    `total` lines of the object have the event. `kept` is the line that stays, None where the original is another
    object's. `second` is the second line of the event in the object, None where there is only one.
    """

    first: LineRef
    digest: bytes
    total: int
    kept: int | None
    second: int | None
    original: LineRef

    @property
    def copies(self) -> int:
        """How many of the lines are copies."""
        return self.total - (self.kept is not None)

    @property
    def lines(self) -> tuple[int, ...] | None:
        """The lines of the copies; None where they are known by the digest alone: of more than two lines."""
        if self.total > _PAIR:
            return None
        if self.second is None or self.first.line == self.second:
            return (self.first.line,)
        return (self.first.line, self.second)


class ShardTally(NamedTuple):
    """The copies in one shard: how many, the first few by event and object, and the first few objects that hold one.

    `numbers` are at most one more than `SAMPLES`.
    """

    records: int = 0
    samples: tuple[EventCopies, ...] = ()
    numbers: tuple[int, ...] = ()

    def plus(self, other: "ShardTally") -> "ShardTally":
        """Return both together."""
        return ShardTally(
            self.records + other.records,
            tuple(sorted([*self.samples, *other.samples])[:SAMPLES]),
            tuple(sorted({*self.numbers, *other.numbers})[: SAMPLES + 1]),
        )


class Tallies:
    """Counts copies by the number of their shard, as `Layout.shards` has it, and keeps the first few."""

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
        """Yield each shard that holds copies."""
        for shard in self._records:
            self._settle(shard)
            yield shard, self._shards[shard]._replace(records=self._records[shard])

    def _settle(self, shard: int) -> None:
        waiting = self._waiting.pop(shard, [])
        new = ShardTally(0, tuple(waiting), tuple({copies.first.number for copies in waiting}))
        self._shards[shard] = self._shards.get(shard, ShardTally()).plus(new)


def find_copies(chunks: Iterable[bytes], layout: Layout, held_bytes: int = HELD_BYTES) -> Iterator[EventCopies]:
    """Yield the copies among the rows of one partition."""
    for rows in _dealt(chunks, held_bytes):
        ordered = sorted_rows(rows)
        view = memoryview(ordered)
        for begin, end in stretches(ordered):
            yield from _copies(_Event(view, begin, end, layout))


def _dealt(chunks: Iterable[bytes], held_bytes: int) -> Iterator[bytearray | bytes]:
    """Yield the rows so that those of one digest come together: at once, or from one file after the other."""
    held = bytearray()
    with ExitStack() as stack:
        files: list[IO[bytes]] = []
        for chunk in chunks:
            held += chunk
            if len(held) > held_bytes:
                files = files or [stack.enter_context(tempfile.TemporaryFile()) for _ in range(_FILES)]
                _spread(held, files)
                held.clear()
        if not files:
            yield held
            return
        _spread(held, files)
        held.clear()
        for file in files:
            file.seek(0)
            yield file.read()


def _spread(rows: bytearray, files: Sequence[IO[bytes]]) -> None:
    """Write each row to the file of its digest; partitions are cut by the first bytes, these by the last one."""
    parts = [bytearray() for _ in files]
    for at in range(0, len(rows), ROW_BYTES):
        parts[rows[at + DIGEST_BYTES - 1] % _FILES] += rows[at : at + ROW_BYTES]
    for part, file in zip(parts, files, strict=True):
        file.write(part)


class _Held(NamedTuple):
    """The lines of an event in one object."""

    first: LineRef
    arrival_ms: int
    total: int
    second: int | None


class _Event:
    """The objects that hold an event and take part, in the order of their numbers; read as often as one likes."""

    def __init__(self, view: memoryview, begin: int, end: int, layout: Layout) -> None:
        self._view = view
        self._begin = begin
        self._end = end
        self.layout = layout
        self.digest = bytes(view[ROW_BYTES * begin : ROW_BYTES * begin + DIGEST_BYTES])

    def __iter__(self) -> Iterator[_Held]:
        return (held for held in self._all() if held.first.number not in self.layout.excluded)

    def _all(self) -> Iterator[_Held]:
        held: _Held | None = None
        for index in range(self._begin, self._end):
            _, number, line, last = ROW.unpack_from(self._view, ROW_BYTES * index)
            if held is not None and last & COUNTED:
                held = held._replace(total=last ^ COUNTED, second=line)
                continue
            if held is not None:
                yield held
            held = _Held(LineRef(number, line), last, 1, None)
        if held is not None:
            yield held

    def original(self) -> LineRef | None:
        """Return the record that stays; None when none takes part.

        Any record of the day before; else, within each shard, the one at the lowest position, and among the shards
        the one that arrived first (of two at the same time that of the first shard). Positions of different shards
        cannot be compared, and within a shard arrival times may step back.
        """
        best: _Held | None = None
        shard = -1
        for held in self:
            if held.first.number < self.layout.first_of_day:
                return held.first
            its = bisect_right(self.layout.shards, held.first.number)
            if its != shard and (best is None or held.arrival_ms < best.arrival_ms):
                best = held
            shard = its
        return None if best is None else best.first


def _copies(event: _Event) -> Iterator[EventCopies]:
    original = event.original()
    if original is None:
        return
    for held in event:
        if held.first.number < event.layout.first_of_day:
            continue
        if held.first != original:
            yield EventCopies(held.first, event.digest, held.total, None, held.second, original)
        elif held.second is not None:
            first = LineRef(held.first.number, held.second)
            yield EventCopies(first, event.digest, held.total, held.first.line, held.second, original)
