"""A table in memory that keeps its snapshots, refuses outdated commits, and is changed by others."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from compaction.tables.commit import (
    DAY_PROPERTY,
    GENERATION_PROPERTY,
    MANIFEST_PROPERTY,
    ROWS_PROPERTY,
    TOLD_OF_PROPERTY,
)
from compaction.tables.history import BY_PROPERTY, FOLLOW
from compaction.tables.plan import Conflict, LiveFile, Recorded, Replacement
from minutebook.clock import Clock
from minutebook.errors import OutcomeUnknown
from minutebook.format.day import Day
from tests.lives.memory import read_address

Row = tuple[str, int, int]
"""Shard, sequence number, sub-sequence number."""
Send = Callable[[Callable[[], Any]], Any]
_NUMBERS: Final = itertools.count(1)


class Snapshot(NamedTuple):
    """One state: rows by file address, and what the commit says of it."""

    number: int
    parent: "int | None"
    files: Mapping[str, tuple[str, tuple[Row, ...]]]
    summary: Mapping[str, str]
    time_ms: int


class MemoryTable:
    """The table; `committed` is called with each new snapshot."""

    name = "cat.events.raw"

    def __init__(self, clock: Clock, committed: Callable[[Snapshot, Snapshot], None]) -> None:
        self.clock = clock
        self.properties: dict[str, str] = {}
        self.snapshots: dict[int, Snapshot] = {0: Snapshot(0, None, {}, {}, 0)}
        self.current = 0
        self.lose_answer = False
        self.is_conditional = True
        self._committed = committed
        self._known: dict[str, tuple[Row, ...]] = {}

    @property
    def now(self) -> Snapshot:
        """The current snapshot."""
        return self.snapshots[self.current]

    def client(self, send: Send) -> "MemoryClient":
        """Return a client whose requests go through `send`."""
        return MemoryClient(self, send)

    def rows(self, day: Day) -> list[Row]:
        """Return the rows of a day, each as often as it is there."""
        return [row for of_day, rows in self.now.files.values() if of_day == str(day) for row in rows]

    def rewrite(self, day: Day) -> None:
        """Let another engine pack a day's files into one, as OPTIMIZE does: its summary says nothing of ours."""
        rows = tuple(self.rows(day))
        if rows:
            files = {uri: file for uri, file in self.now.files.items() if file[0] != str(day)}
            self._push({**files, f"mem://optimized-{next(_NUMBERS)}": (str(day), rows)}, {})

    def roll_back(self, back: int) -> None:
        """Make an ancestor the current snapshot."""
        for _ in range(back):
            parent = self.now.parent
            self.current = self.current if parent is None else parent

    def _push(self, files: Mapping[str, tuple[str, tuple[Row, ...]]], summary: Mapping[str, str]) -> None:
        before = self.now
        made = Snapshot(max(self.snapshots) + 1, self.current, files, summary, self.clock.now_ms())
        self.snapshots[made.number], self.current = made, made.number
        self._committed(before, made)

    def replace(
        self, base: int, day: Day, change: Replacement, sizes: Mapping[str, int], summary: Mapping[str, str]
    ) -> bool:
        """Commit on condition that `base` is the current snapshot."""
        if self.is_conditional and base != self.current:
            return False
        added = {uri: (str(day), self._read(uri)) for uri in change.add}
        assert {uri: len(rows) for uri, (_, rows) in added.items()} == dict(sizes)
        kept = {uri: file for uri, file in self.now.files.items() if uri not in change.remove}
        self._push({**kept, **added}, summary)
        if self.lose_answer:
            self.lose_answer = False
            raise OutcomeUnknown("the answer was lost")
        return True

    def _read(self, uri: str) -> tuple[Row, ...]:
        if uri not in self._known:
            body = read_address(uri.removeprefix("file://"))
            table = pq.ParquetFile(pa.BufferReader(body), pre_buffer=False).read(
                columns=["shard_id", "sequence_number", "sub_sequence_number"], use_threads=False
            )
            columns = (column.to_pylist() for column in table.columns)
            self._known[uri] = tuple((shard, int(number), sub) for shard, number, sub in zip(*columns, strict=True))
        return self._known[uri]

    def recorded(self, day: Day) -> Recorded | None:
        """Return what was recorded last of a day."""
        at: int | None = self.current
        while at is not None:
            snapshot = self.snapshots[at]
            if snapshot.summary.get(DAY_PROPERTY) == str(day):
                summary = snapshot.summary
                rows = int(summary[ROWS_PROPERTY])
                return Recorded(summary[GENERATION_PROPERTY], rows, snapshot.time_ms, summary[MANIFEST_PROPERTY])
            at = snapshot.parent
        return None


class MemoryClient:
    """Implements `FollowedTable`."""

    def __init__(self, table: MemoryTable, send: Send) -> None:
        self.name = table.name
        self._table = table
        self._send = send

    def look(self, day: Day) -> "MemoryView":
        """Load the current snapshot."""
        view: MemoryView = self._send(lambda: MemoryView(self._table, day, self._send))
        return view

    def conflicts(self, columns: Mapping[str, str] | None) -> Sequence[Conflict]:
        """Return none."""
        return self.look(Day(0)).conflicts(columns)

    def properties(self) -> Mapping[str, str]:
        """Return them."""
        properties: dict[str, str] = self._send(lambda: {**self._table.properties})
        return properties

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Set them."""
        self._send(lambda: self._table.properties.update(properties))

    def expire(self, now_ms: int, overdue_ms: int = 0) -> int:
        """Expire none: `history` has tests of its own."""
        del now_ms, overdue_ms
        return 0


class MemoryView:
    """Implements `PublishedView`."""

    def __init__(self, table: MemoryTable, day: Day, send: Send) -> None:
        self._table, self._day, self._send, self._base = table, day, send, table.current
        mine = {uri: rows for uri, (of_day, rows) in table.now.files.items() if of_day == str(day)}
        self.files = tuple(LiveFile(uri, len(rows)) for uri, rows in mine.items())
        self.recorded = table.recorded(day)
        self.table_uuid = "uuid"
        self.place = str(table.current)

    def goes_on_from(self, place: str) -> bool:
        """Return whether a snapshot is the current one, or one that it was made from."""
        at: int | None = self._base
        while at is not None and str(at) != place:
            at = self._table.snapshots[at].parent
        return at is not None

    def conflicts(self, columns: Mapping[str, str] | None) -> Sequence[Conflict]:
        """Return none."""
        del columns
        return ()

    def replace(
        self,
        change: Replacement,
        sizes: Mapping[str, int],
        properties: Mapping[str, str],
        columns: Mapping[str, str] | None = None,
        table_properties: Mapping[str, str] | None = None,
    ) -> bool:
        """Commit."""
        del columns

        def apply() -> bool:
            is_done = self._table.replace(self._base, self._day, change, sizes, properties)
            if is_done:
                self._table.properties |= dict(table_properties or {})
                if table_properties:
                    self._table.properties[TOLD_OF_PROPERTY] = str(self._table.current)
            return is_done

        done: bool = self._send(apply)
        return done


def by_follow(snapshot: Snapshot) -> bool:
    """Return whether follow made a snapshot."""
    return snapshot.summary.get(BY_PROPERTY) == FOLLOW
