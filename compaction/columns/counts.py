"""Counts of typed payloads: small values that a task returns to the driver."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from compaction.columns.event_time import Days, total_days
from compaction.columns.misfits import LIST, Kind, Misfit
from compaction.columns.types import ColumnType
from compaction.columns.unknown_keys import SampledKeys, total_keys
from minutebook.format.position import Position

SAMPLES = 20


class ColumnCount(NamedTuple):
    """The rows of a column by outcome: `filled`, `empty` (no value in the payload) and `unfit`."""

    name: str
    filled: int
    empty: int
    unfit: int


class LeafCount(NamedTuple):
    """The values of a leaf within a struct or list by outcome: `items[].price`.

    `values` counts rows, or the elements that the lists of the payloads hold.
    """

    name: str
    values: int
    filled: int
    empty: int
    unfit: int

    def plus(self, other: "LeafCount") -> "LeafCount":
        """Return the sum, under this name."""
        return LeafCount(self.name, *(a + b for a, b in zip(self[1:], other[1:], strict=True)))


class First(NamedTuple):
    """The place of a column's first value, ordered by arrival (epoch ms), shard and position."""

    arrival_ms: int
    shard: str
    position: Position


class Sample(NamedTuple):
    """Misfits of one kind in one leaf, such as `items[].price`: rows, values, and the first positions.

    A row has several values where the leaf lies in a list.
    """

    column: str
    kind: Kind
    rows: int
    positions: tuple[tuple[str, Position], ...]
    values: int


class TypedCounts(NamedTuple):
    """Rows and unfit rows of a file, and of each column.

    `firsts` holds each column's first value (None: no value); `events` counts rows by event day, with `--event-time`.
    `leaves` are those within structs and lists, `keys` what a sample shows that no column reads. `records` counts the
    rows that are the first of their record; None: each row is a record.
    """

    rows: int
    unfit: int
    columns: tuple[ColumnCount, ...]
    samples: tuple[Sample, ...] = ()
    firsts: tuple[First | None, ...] = ()
    events: Days = ()
    leaves: tuple[LeafCount, ...] = ()
    keys: SampledKeys = SampledKeys()
    records: int | None = None


class StatedCounts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`TypedCounts` in JSON: sequence numbers are text, because they exceed JSON readers' integers.

    `values` are those of the samples; empty: as many as their rows. Versions before know neither it nor what follows.
    """

    rows: int
    unfit: int
    columns: tuple[ColumnCount, ...]
    samples: tuple[tuple[str, Kind, int, tuple[tuple[str, str], ...]], ...]
    firsts: tuple[tuple[int, str, str] | None, ...] = ()
    events: Days = ()
    values: tuple[int, ...] = ()
    leaves: tuple[LeafCount, ...] = ()
    keys: SampledKeys = SampledKeys()
    records: int | None = None

    @classmethod
    def of(cls, counts: TypedCounts) -> "StatedCounts":
        """Return the JSON form of counts."""
        samples = tuple(
            (sample.column, sample.kind, sample.rows, tuple((shard, str(at)) for shard, at in sample.positions))
            for sample in counts.samples
        )
        firsts = tuple(None if at is None else (*at[:2], str(at.position)) for at in counts.firsts)
        values = tuple(sample.values for sample in counts.samples)
        if values == tuple(sample.rows for sample in counts.samples):
            values = ()
        rest = (counts.events, values, counts.leaves, counts.keys, counts.records)
        return cls(counts.rows, counts.unfit, counts.columns, samples, firsts, *rest)

    def counts(self) -> TypedCounts:
        """Return the counts; raise FormatError for an invalid position."""
        numbers = self.values or [rows for _, _, rows, _ in self.samples]
        samples = tuple(
            Sample(column, kind, rows, tuple((shard, Position.parse(at)) for shard, at in positions), values)
            for (column, kind, rows, positions), values in zip(self.samples, numbers, strict=True)
        )
        firsts = tuple(None if at is None else First(*at[:2], Position.parse(at[2])) for at in self.firsts)
        rest = (self.events, self.leaves, self.keys, self.records)
        return TypedCounts(self.rows, self.unfit, self.columns, samples, firsts, *rest)


class Samples:
    """Collects misfits by leaf and kind."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, Kind], int] = {}
        self._values: dict[tuple[str, Kind], int] = {}
        self._positions: dict[tuple[str, Kind], list[tuple[str, Position]]] = {}

    def add(self, misfits: Iterable[tuple[str, Misfit]], lines: pa.Table, row: int) -> None:
        """Count the misfits of one row of lines."""
        seen: set[tuple[str, Kind]] = set()
        for column, misfit in misfits:
            key = (column + misfit.path, misfit.kind)
            self._values[key] = self._values.get(key, 0) + misfit.values
            if key in seen:
                continue
            seen.add(key)
            self._rows[key] = count = self._rows.get(key, 0) + 1
            if count <= SAMPLES:
                self._positions.setdefault(key, []).append(place(lines, row))

    def samples(self) -> tuple[Sample, ...]:
        """Return the samples, sorted by leaf and kind."""
        return tuple(
            Sample(*key, self._rows[key], tuple(self._positions[key]), self._values[key])
            for key in sorted(self._rows)
        )


class FirstValues:
    """Keeps the first row with a value of each column. Lines of equal arrival count in their order."""

    def __init__(self, columns: int) -> None:
        self.firsts: list[First | None] = [None] * columns

    def add(self, lines: pa.Table, begin: int, arrays: Sequence[pa.Array]) -> None:
        """Read the columns of the lines from `begin` on."""
        if not arrays or not len(arrays[0]):
            return
        arrivals = _arrivals(lines, begin, len(arrays[0]))
        low = pc.min(arrivals).as_py()
        for index, array in enumerate(arrays):
            known = self.firsts[index]
            if array.null_count == len(array) or (known is not None and known.arrival_ms < low):
                continue
            valid = arrivals if not array.null_count else pc.if_else(pc.is_valid(array), arrivals, None)
            first_ms = pc.min(valid).as_py()
            first = First(first_ms, *place(lines, begin + pc.index(valid, first_ms).as_py()))
            if known is None or first < known:
                self.firsts[index] = first


def total(parts: Sequence[TypedCounts]) -> TypedCounts:
    """Return the sum of one or more counts."""
    columns = tuple(
        ColumnCount(
            counts[0].name,
            sum(count.filled for count in counts),
            sum(count.empty for count in counts),
            sum(count.unfit for count in counts),
        )
        for counts in zip(*(part.columns for part in parts), strict=True)
    )
    samples: dict[tuple[str, Kind], Sample] = {}
    for sample in (sample for part in parts for sample in part.samples):
        known = samples.get((sample.column, sample.kind), sample._replace(rows=0, positions=(), values=0))
        # Sorted by shard and position: parts that were written again come last.
        places = tuple(sorted({*known.positions, *sample.positions})[:SAMPLES])
        samples[sample.column, sample.kind] = Sample(
            *known[:2], known.rows + sample.rows, places, known.values + sample.values
        )
    return TypedCounts(
        sum(part.rows for part in parts),
        sum(part.unfit for part in parts),
        columns,
        tuple(samples[key] for key in sorted(samples)),
        tuple(
            min(filter(None, firsts), default=None) for firsts in zip(*(part.firsts for part in parts), strict=True)
        ),
        total_days(part.events for part in parts),
        total_leaves(parts),
        total_keys(part.keys for part in parts),
        None if None in (records := [part.records for part in parts]) else sum(filter(None, records)),
    )


def total_leaves(parts: Sequence[TypedCounts]) -> tuple[LeafCount, ...]:
    """Return the sum of each leaf, in the order of the columns."""
    leaves: dict[str, LeafCount] = {}
    for leaf in (leaf for part in parts for leaf in part.leaves):
        leaves[leaf.name] = leaves[leaf.name].plus(leaf) if leaf.name in leaves else leaf
    return tuple(leaves.values())


def leaves_of(kind: ColumnType, array: pa.Array, left: int = 0) -> list[LeafCount]:
    """Count the leaves of an array in which nothing is unfit, but for so many rows that are null and left out."""
    if kind.name == "struct":
        parts = [
            (f".{each.name}", leaves_of(each.type, array.field(at), left)) for at, each in enumerate(kind.fields)
        ]
    elif kind.name == "list":
        parts = [(LIST, leaves_of(kind.fields[0].type, array.flatten()))]
    elif kind.name == "map":  # an empty array: the native codec reads no maps
        parts = [(LIST, leaves_of(kind.fields[0].type, array.items))]
    else:
        return [LeafCount("", len(array) - left, len(array) - array.null_count, array.null_count - left, 0)]
    return [leaf._replace(name=step + leaf.name) for step, leaves in parts for leaf in leaves]


def place(lines: pa.Table, row: int) -> tuple[str, Position]:
    """Return shard and position of a line."""
    sequence, sub = int(lines["sequence_number"][row].as_py()), lines["sub_sequence_number"][row].as_py()
    return lines["shard_id"][row].as_py(), Position(sequence, sub)


def _arrivals(lines: pa.Table, begin: int, count: int) -> pa.Array:
    """Return arrivals in ms, of lines (`arrival_ms`) or of rows of a Parquet file (`arrival_time`)."""
    is_row = "arrival_time" in lines.schema.names
    part = lines["arrival_time" if is_row else "arrival_ms"].slice(begin, count).combine_chunks()
    return pc.divide(part.cast(pa.int64()), 1000) if is_row else part
