"""The plan: which task reads which segments. Pure and deterministic: the same inventory gives the same plan.

Segments of one shard lie in position order in consecutive tasks, so the payload is never sorted or shuffled: each
task writes one sorted file. Tasks are cut by compressed bytes.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from archive.format.position import Position

TASK_BYTES: Final = 64 << 20
"""Compressed bytes per task: about 256 MB of lines, and a Parquet file of a comfortable size for Athena and Spark."""
TASK_SEGMENTS: Final = 4_000
"""Segments per task: bounds the requests of a task on a stream of tiny segments."""


class Piece(NamedTuple):
    """One object to read."""

    key: str
    etag: str
    size: int
    shard_id: str
    minute: int
    first: Position


class Back(NamedTuple):
    """Lines that come back from an object of `_duplicates`, by their positions."""

    key: str
    positions: tuple[Position, ...]


class Unit(NamedTuple):
    """Pieces that are written together. `merge`: their lines are sorted and each position is kept once.

    `back` are lines that are sorted in between them; they stand in none of the pieces.
    """

    pieces: tuple[Piece, ...]
    merge: bool = False
    back: tuple[Back, ...] = ()

    @property
    def size(self) -> int:
        """Compressed bytes."""
        return sum(piece.size for piece in self.pieces)


class Task(NamedTuple):
    """What one Spark task reads and writes, in this order."""

    number: int
    units: tuple[Unit, ...]

    @property
    def pieces(self) -> list[Piece]:
        """All objects of the task."""
        return [piece for unit in self.units for piece in unit.pieces]

    @property
    def size(self) -> int:
        """Compressed bytes."""
        return sum(unit.size for unit in self.units)


def plan_tasks(units: Iterable[Unit], *, task_bytes: int = TASK_BYTES, first_number: int = 0) -> list[Task]:
    """Cut units into tasks, in the order of shard and position. A unit is never divided."""
    tasks: list[Task] = []
    batch: list[Unit] = []
    size = count = 0
    for unit in sorted(units, key=lambda unit: _order(unit.pieces[0])):
        if batch and (size + unit.size > task_bytes or count + len(unit.pieces) > TASK_SEGMENTS):
            tasks.append(Task(first_number + len(tasks), tuple(batch)))
            batch, size, count = [], 0, 0
        batch.append(unit)
        size += unit.size
        count += len(unit.pieces)
    if batch:
        tasks.append(Task(first_number + len(tasks), tuple(batch)))
    return tasks


def single_units(pieces: Iterable[Piece]) -> list[Unit]:
    """Return a unit for each piece."""
    return [Unit((piece,)) for piece in pieces]


class Span(NamedTuple):
    """What the lines of a piece really cover; `is_sorted` False: also its own lines must be sorted."""

    piece: Piece
    low: Position
    high: Position
    is_sorted: bool


def group_overlaps(spans: Sequence[Span]) -> list[Unit]:
    """Join pieces of a shard whose spans touch each other into units to merge; the others stay single.

    The groups are the connected parts: sorted by `low`, a piece that begins at or before the greatest `high` so far
    belongs to the group.
    """
    by_shard: dict[str, list[Span]] = defaultdict(list)
    for span in spans:
        by_shard[span.piece.shard_id].append(span)
    units: list[Unit] = []
    for _, shard in sorted(by_shard.items()):
        group: list[Span] = []
        for span in sorted(shard, key=lambda span: (span.low, span.high, span.piece.key)):
            if group and span.low > max(one.high for one in group):
                units.append(_unit(group))
                group = []
            group.append(span)
        units.append(_unit(group))
    return units


def with_back(units: Iterable[Unit], pieces: Iterable[Piece], back: Mapping[str, Back]) -> list[Unit]:
    """Return units into which lines come back; `back` holds them by the key of the piece whose span they lie in.

    A piece whose lines were all dropped stands in no unit: it gets one.
    """
    found = []
    placed: set[str] = set()
    for unit in units:
        lines = tuple(back[piece.key] for piece in unit.pieces if piece.key in back)
        placed |= {piece.key for piece in unit.pieces}
        found.append(unit._replace(merge=True, back=lines) if lines else unit)
    empty = [piece for piece in pieces if piece.key in back and piece.key not in placed]
    return [*found, *(Unit((piece,), merge=True, back=(back[piece.key],)) for piece in empty)]


def _unit(group: Sequence[Span]) -> Unit:
    merge = len(group) > 1 or not group[0].is_sorted
    return Unit(tuple(sorted((span.piece for span in group), key=_order)), merge)


def _order(piece: Piece) -> tuple[str, Position, int, str]:
    return piece.shard_id, piece.first, piece.minute, piece.key
