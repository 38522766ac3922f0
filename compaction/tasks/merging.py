"""Merging suspicious segments: sort their lines by position, keep each position once, say what was there twice.

Only groups whose spans touch come here, so memory is a few segments, not the day. The survivor is deterministic: the
line in the lowest key, and there the first.
"""

import hashlib
from collections.abc import Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from archive.format.position import Position
from compaction.tasks.plan import RawObject

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


class Merged(NamedTuple):
    """The rows in order, as runs of (lines, key of their segment), and what was repeated."""

    runs: tuple[tuple[pa.Table, str], ...]
    repeats: tuple[Repeat, ...]


class _Line(NamedTuple):
    position: Position
    key: str
    table: int
    row: int


def merge(tables: Sequence[pa.Table], objects: Sequence[RawObject]) -> Merged:
    """Merge the lines of objects of one shard; `tables[i]` holds those of `objects[i]`."""
    lines = sorted(
        _Line(Position(int(number), sub), raw_object.key, table_number, row)
        for table_number, (table, raw_object) in enumerate(zip(tables, objects, strict=True))
        for row, (number, sub) in enumerate(
            zip(table["sequence_number"].to_pylist(), table["sub_sequence_number"].to_pylist(), strict=True)
        )
    )
    kept: list[_Line] = []
    repeats: dict[Position, list[_Line]] = {}
    for line in lines:
        if kept and kept[-1].position == line.position:
            repeats.setdefault(line.position, [kept[-1]]).append(line)
        else:
            kept.append(line)
    return Merged(tuple(_runs(tables, objects, kept)), tuple(_repeats(tables, objects, list(repeats.values()))))


def _runs(
    tables: Sequence[pa.Table], objects: Sequence[RawObject], kept: Sequence[_Line]
) -> list[tuple[pa.Table, str]]:
    runs = []
    start = 0
    for end in range(1, len(kept) + 1):
        if end == len(kept) or kept[end].table != kept[start].table:
            table = kept[start].table
            rows = pa.array([line.row for line in kept[start:end]], pa.int64())
            runs.append((tables[table].take(rows), objects[table].key))
            start = end
    return runs


def _repeats(
    tables: Sequence[pa.Table], objects: Sequence[RawObject], groups: Sequence[Sequence[_Line]]
) -> list[Repeat]:
    by_keys: dict[tuple[str, ...], list[Sequence[_Line]]] = {}
    for group in groups:
        by_keys.setdefault(tuple(dict.fromkeys(line.key for line in group)), []).append(group)
    found = []
    for keys, members in sorted(by_keys.items()):
        raw_object = objects[members[0][0].table]
        count = sum(len(group) - 1 for group in members)
        samples = tuple(str(group[0].position) for group in members[:_SAMPLES])
        differing = sum(len({_digest(tables[line.table], line.row) for line in group}) > 1 for group in members)
        found.append(Repeat(raw_object.shard_id, raw_object.minute, keys, count, samples, differing))
    return found


def _digest(table: pa.Table, row: int) -> bytes:
    content = tuple(table[name][row].as_py() for name in ("partition_key", "arrival_ms", "data", "data_bytes"))
    return hashlib.blake2b(repr(content).encode(), digest_size=16).digest()
