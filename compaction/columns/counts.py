"""What was counted while payloads were read: small values that travel from a task to the driver."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from compaction.columns.event_window import Days, summed
from compaction.columns.misfits import Kind, Misfit
from minutebook.format.position import Position

SAMPLES = 20


class ColumnCount(NamedTuple):
    """What became of a column's values: `filled`, `empty` (no value in the payload) and `unfit` are all rows."""

    name: str
    filled: int
    empty: int
    unfit: int


class First(NamedTuple):
    """Where a column has its first value: compared by arrival (epoch milliseconds), shard and position."""

    arrival_ms: int
    shard: str
    position: Position


class Sample(NamedTuple):
    """Misfits of one kind in one column: how many rows, and where the first ones are."""

    column: str
    kind: Kind
    rows: int
    positions: tuple[tuple[str, Position], ...]


class TypedCounts(NamedTuple):
    """The rows of a file, `unfit` those of them that do not fit, and the same for each column.

    `firsts` are the columns' first values, None where there is none.
    `events` are the rows by the day of their events, where those are asked for.
    """

    rows: int
    unfit: int
    columns: tuple[ColumnCount, ...]
    samples: tuple[Sample, ...] = ()
    firsts: tuple[First | None, ...] = ()
    events: Days = ()


class StatedCounts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`TypedCounts` as a document holds them: sequence numbers are larger than any integer of JSON's readers."""

    rows: int
    unfit: int
    columns: tuple[ColumnCount, ...]
    samples: tuple[tuple[str, Kind, int, tuple[tuple[str, str], ...]], ...]
    firsts: tuple[tuple[int, str, str] | None, ...] = ()
    events: Days = ()

    @classmethod
    def of(cls, counts: TypedCounts) -> "StatedCounts":
        """Return the document of these counts."""
        samples = tuple(
            (sample.column, sample.kind, sample.rows, tuple((shard, str(at)) for shard, at in sample.positions))
            for sample in counts.samples
        )
        firsts = tuple(None if at is None else (*at[:2], str(at.position)) for at in counts.firsts)
        return cls(counts.rows, counts.unfit, counts.columns, samples, firsts, counts.events)

    def counts(self) -> TypedCounts:
        """Return the counts; raises FormatError where a position is none."""
        samples = tuple(
            Sample(column, kind, rows, tuple((shard, Position.parse(at)) for shard, at in positions))
            for column, kind, rows, positions in self.samples
        )
        firsts = tuple(None if at is None else First(*at[:2], Position.parse(at[2])) for at in self.firsts)
        return TypedCounts(self.rows, self.unfit, self.columns, samples, firsts, self.events)


class Samples:
    """Collects misfits by column and kind."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, Kind], tuple[int, list[tuple[str, Position]]]] = {}

    def add(self, misfits: Iterable[tuple[str, Misfit]], lines: pa.Table, row: int) -> None:
        """Count the misfits of one row of lines."""
        for column, misfit in misfits:
            count, positions = self._found.get((column, misfit.kind), (0, []))
            if len(positions) < SAMPLES:
                positions.append(place(lines, row))
            self._found[column, misfit.kind] = (count + 1, positions)

    def found(self) -> tuple[Sample, ...]:
        """Return them, by column and kind."""
        return tuple(
            Sample(column, kind, count, tuple(positions))
            for (column, kind), (count, positions) in sorted(self._found.items())
        )


class FirstValues:
    """Keeps the first row with a value of so many columns. Lines of one arrival are taken in their order."""

    def __init__(self, columns: int) -> None:
        self._firsts: list[First | None] = [None] * columns

    def look(self, lines: pa.Table, begin: int, arrays: Sequence[pa.Array]) -> None:
        """Look at the columns of the lines that come after `begin`."""
        if not arrays or not len(arrays[0]):
            return
        arrivals = _arrivals(lines, begin, len(arrays[0]))
        low = pc.min(arrivals).as_py()
        for index, array in enumerate(arrays):
            known = self._firsts[index]
            if array.null_count == len(array) or (known is not None and known.arrival_ms < low):
                continue
            valid = arrivals if not array.null_count else pc.if_else(pc.is_valid(array), arrivals, None)
            first_ms = pc.min(valid).as_py()
            found = First(first_ms, *place(lines, begin + pc.index(valid, first_ms).as_py()))
            if known is None or found < known:
                self._firsts[index] = found

    def found(self) -> tuple[First | None, ...]:
        """Return them, in the columns' order."""
        return tuple(self._firsts)


def total(parts: Sequence[TypedCounts]) -> TypedCounts:
    """Return the sum; there must be one at least."""
    columns = tuple(
        ColumnCount(
            rows[0].name,
            sum(row.filled for row in rows),
            sum(row.empty for row in rows),
            sum(row.unfit for row in rows),
        )
        for rows in zip(*(part.columns for part in parts), strict=True)
    )
    found: dict[tuple[str, Kind], Sample] = {}
    for sample in (sample for part in parts for sample in part.samples):
        known = found.get((sample.column, sample.kind), sample._replace(rows=0, positions=()))
        # In the order of shard and position, however the parts were cut: hours' come in another order than a day's.
        places = tuple(sorted({*known.positions, *sample.positions})[:SAMPLES])
        found[sample.column, sample.kind] = known._replace(rows=known.rows + sample.rows, positions=places)
    return TypedCounts(
        sum(part.rows for part in parts),
        sum(part.unfit for part in parts),
        columns,
        tuple(found[key] for key in sorted(found)),
        tuple(
            min(filter(None, firsts), default=None) for firsts in zip(*(part.firsts for part in parts), strict=True)
        ),
        summed(part.events for part in parts),
    )


def place(lines: pa.Table, row: int) -> tuple[str, Position]:
    """Return shard and position of a line."""
    sequence, sub = int(lines["sequence_number"][row].as_py()), lines["sub_sequence_number"][row].as_py()
    return lines["shard_id"][row].as_py(), Position(sequence, sub)


def _arrivals(lines: pa.Table, begin: int, count: int) -> pa.Array:
    """Return the arrivals in milliseconds, of lines and of rows as a file has them."""
    is_row = "arrival_time" in lines.schema.names
    part = lines["arrival_time" if is_row else "arrival_ms"].slice(begin, count).combine_chunks()
    return pc.divide(part.cast(pa.int64()), 1000) if is_row else part
