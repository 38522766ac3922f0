"""The first row that has a value of a column, whatever part of a task it comes with."""

import pyarrow as pa
import pytest

from compaction.columns.counts import First, FirstValues
from compaction.parquet.line_tables import table_of_records
from minutebook.format.position import Position
from minutebook.format.record import Record


def part(*rows: tuple[int, int]) -> pa.Table:
    """Return lines of shard `s`: (sequence number, arrival in milliseconds)."""
    return table_of_records([("s", Record(str(number), 0, "key", arrival_ms, b"{}")) for number, arrival_ms in rows])


@pytest.mark.parametrize(
    ("parts", "first"),
    [
        ([[(1, 10), (2, 5)]], (5, 2)),
        ([[(1, 10)], [(2, 5)]], (5, 2)),
        ([[(1, 5)], [(2, 10)]], (5, 1)),
        ([[(2, 5)], [(1, 5)]], (5, 1)),
        ([[(3, 7), (4, 7)], [(5, 9)], [(6, 6)]], (6, 6)),
    ],
)
def test_the_earliest_arrival_counts(parts: list[list[tuple[int, int]]], first: tuple[int, int]) -> None:
    """Then the lower position; rows without a value do not."""
    firsts = FirstValues(2)
    for rows in parts:
        lines = part(*rows)
        firsts.add(lines, 0, [pa.array(["x"] * len(rows)), pa.nulls(len(rows), pa.string())])
    assert firsts.firsts == [First(first[0], "s", Position(first[1])), None]
