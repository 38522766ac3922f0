"""Sort the lines of an object in the memory of a few blocks.

Lines are sorted in runs of a few MiB. If there are several, each is written to an unnamed temporary file, and the
files are merged, a few hundred KiB of each in memory.
"""

import heapq
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import IO, Final, NamedTuple

import pyarrow as pa

from minutebook.format.position import Position

RUN_BYTES: Final = 8 << 20
"""Bytes of lines that are sorted at once; Python's positions of short lines take the same again."""
BATCH_BYTES: Final = 256 << 10
"""Bytes of each run in memory while runs are merged."""
_ROWS: Final = 4_096


class SortedLine(NamedTuple):
    """A line: its position, table and row."""

    position: Position
    table: pa.Table
    row: int


class RowBuffer:
    """Rows of several tables, gathered in order into one table."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._tables: dict[int, tuple[pa.Table, int, float]] = {}
        self._table_rows = 0
        self._rows: list[int] = []
        self._bytes = 0.0

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def is_full(self) -> bool:
        """Whether the rows should be taken now."""
        return len(self._rows) >= _ROWS or self._bytes >= RUN_BYTES

    def add(self, table: pa.Table, row: int) -> None:
        """Append a row."""
        known = self._tables.get(id(table))
        if known is None:
            known = self._tables[id(table)] = table, self._table_rows, table.nbytes / table.num_rows
            self._table_rows += table.num_rows
        _, begin, row_bytes = known
        self._rows.append(begin + row)
        self._bytes += row_bytes

    def take(self) -> pa.Table:
        """Return one or more rows as one table, and start over."""
        whole = pa.concat_tables([table for table, _, _ in self._tables.values()]).combine_chunks()
        rows = pa.array(self._rows, pa.int64())
        self._clear()
        return whole.take(rows)


def positions_of(table: pa.Table) -> Iterator[Position]:
    """Yield the positions of a table's rows."""
    numbers = table["sequence_number"].to_pylist()
    for sequence, sub in zip(numbers, table["sub_sequence_number"].to_pylist(), strict=True):
        yield Position(int(sequence), sub)


def sorted_tables(tables: Iterator[pa.Table], run_bytes: int = RUN_BYTES) -> Iterator[pa.Table]:
    """Yield lines in the order of positions; the sort is stable."""
    with ExitStack() as files:
        spilled: list[IO[bytes]] = []
        for run, is_only in _runs(tables, run_bytes):
            if is_only:
                yield run
                return
            spilled.append(files.enter_context(tempfile.TemporaryFile()))
            _spill(run, spilled[-1])
        yield from _merged(spilled)


def _runs(tables: Iterator[pa.Table], run_bytes: int) -> Iterator[tuple[pa.Table, bool]]:
    """Yield sorted runs, each with whether it is the only one."""
    run: list[pa.Table] = []
    size = count = 0
    for table in tables:
        if run and size + table.nbytes > run_bytes:
            yield _sorted(run), False
            run, size, count = [], 0, count + 1
        run.append(table)
        size += table.nbytes
    if run:
        yield _sorted(run), count == 0


def _sorted(tables: Sequence[pa.Table]) -> pa.Table:
    whole = pa.concat_tables(tables).combine_chunks()
    positions = list(positions_of(whole))
    return whole.take(pa.array(sorted(range(len(positions)), key=positions.__getitem__), pa.int64()))


def _spill(run: pa.Table, file: IO[bytes]) -> None:
    rows = max(1, run.num_rows * BATCH_BYTES // max(1, run.nbytes))
    with pa.ipc.new_stream(file, run.schema) as writer:
        writer.write_table(run, max_chunksize=rows)
    file.seek(0)


def _merged(files: Sequence[IO[bytes]]) -> Iterator[pa.Table]:
    buffer = RowBuffer()
    # Runs are in the order of the lines, and of equal positions `merge` takes that of the earlier run first.
    for row in heapq.merge(*map(_rows, files), key=lambda row: row.position):
        buffer.add(row.table, row.row)
        if buffer.is_full:
            yield buffer.take()
    if len(buffer):
        yield buffer.take()


def _rows(file: IO[bytes]) -> Iterator[SortedLine]:
    for batch in pa.ipc.open_stream(file):
        table = pa.Table.from_batches([batch])
        for number, position in enumerate(positions_of(table)):
            yield SortedLine(position, table, number)
