"""The merge of segments that touch: every position once, in order, and no more open than must be."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.parquet.line_tables import LINE_SCHEMA
from compaction.parquet.plan import RawObject
from compaction.parquet.sorting import sorted_tables
from compaction.tasks.merging import Merge, MergeSource, Repeat
from minutebook.format.position import Position


def tables(positions: Sequence[int], size: int, tag: str = "") -> Iterator[pa.Table]:
    """Yield lines at these positions, `size` a table."""
    for at in range(0, len(positions), size):
        rows = [
            {
                "shard_id": "s",
                "sequence_number": str(position),
                "sub_sequence_number": 0,
                "partition_key": "p",
                "arrival_ms": 0,
                "data": f"{position}{tag}",
            }
            for position in positions[at : at + size]
        ]
        yield pa.Table.from_pylist(rows, schema=LINE_SCHEMA)


class Watched:
    """Objects that tell how many of them are being read."""

    def __init__(self) -> None:
        self.open = self.most = 0

    def source(self, number: int, positions: Sequence[int], tag: str = "", size: int = 3) -> MergeSource:
        """Return an object; its name comes by its number."""

        def read() -> Iterator[pa.Table]:
            self.open += 1
            self.most = max(self.most, self.open)
            yield from tables(positions, size, tag)
            self.open -= 1

        raw_object = RawObject(f"k{number:04d}", "e", 1, "s", number, Position(min(positions, default=0)))
        return MergeSource(raw_object, raw_object.first, read)


def merged(sources: Sequence[MergeSource]) -> tuple[list[tuple[int, str, str]], tuple[Repeat, ...]]:
    """Return (position, payload, key) of the rows, and what was repeated."""
    merge = Merge(sources)
    rows = [
        (int(row["sequence_number"]), row["data"], key)
        for run in merge.runs()
        for row, key in zip(run.lines.to_pylist(), run.keys.to_pylist(), strict=True)
    ]
    return rows, merge.repeats()


def test_the_line_in_the_lowest_key_stays() -> None:
    """Whichever is read first; what is too many is counted, and whether it says the same."""
    watched = Watched()
    rows, repeats = merged([watched.source(1, [2, 3, 4, 5], "x"), watched.source(0, [1, 2, 4])])
    assert rows == [(1, "1", "k0000"), (2, "2", "k0000"), (3, "3x", "k0001"), (4, "4", "k0000"), (5, "5x", "k0001")]
    assert repeats == (Repeat("s", 0, ("k0000", "k0001"), 2, ("2:0", "4:0"), 2),)


def test_an_object_that_repeats_a_line_keeps_the_first() -> None:
    """Its lines are sorted when it is opened; equal positions stay in the order of the file."""
    raw_object = RawObject("k", "e", 1, "s", 0, Position(1))
    given = [*tables([3, 1], 1, "first"), *tables([1, 2, 1], 2, "again")]
    rows, repeats = merged([MergeSource(raw_object, Position(1), lambda: sorted_tables(iter(given)))])
    assert rows == [(1, "1first", "k"), (2, "2again", "k"), (3, "3first", "k")]
    assert repeats == (Repeat("s", 0, ("k",), 2, ("1:0",), 1),)


def test_only_what_overlaps_is_open() -> None:
    """Two writers whose cuts interleave over a whole day: three objects at once, not the day."""
    watched = Watched()
    one = [watched.source(number, range(20 * number, 20 * number + 20)) for number in range(50)]
    two = [watched.source(1000 + number, range(20 * number + 10, 20 * number + 30)) for number in range(50)]
    rows, repeats = merged([*one, *two])
    assert [position for position, _, _ in rows] == list(range(1010))
    assert sum(repeat.surplus for repeat in repeats) == 990
    assert watched.most <= 3
    assert watched.open == 0


def test_an_object_without_lines_is_passed() -> None:
    """All of its lines may be left out."""
    assert merged([Watched().source(0, [])]) == ([], ())


@given(objects=st.lists(st.lists(st.integers(0, 40), max_size=12), max_size=6), size=st.integers(1, 5))
def test_every_position_comes_once_from_its_lowest_key(objects: list[list[int]], size: int) -> None:
    """As if all lines had been sorted at once."""
    watched = Watched()
    sources = [watched.source(number, sorted(set(given)), size=size) for number, given in enumerate(objects)]
    rows, repeats = merged(sources)
    lowest: dict[int, str] = {}
    for number, held in enumerate(objects):
        for position in held:
            lowest.setdefault(position, f"k{number:04d}")
    assert [(position, key) for position, _, key in rows] == sorted(lowest.items())
    assert sum(repeat.surplus for repeat in repeats) == sum(len(set(given)) for given in objects) - len(lowest)
    assert not any(repeat.differing for repeat in repeats)


def test_lines_that_alternate_are_gathered() -> None:
    """Not a table for each line: a row group would then be a hundred thousand of them."""
    watched = Watched()
    runs = list(Merge([watched.source(0, range(0, 600, 2), size=300), watched.source(1, range(1, 600, 2))]).runs())
    assert [run.lines.num_rows for run in runs] == [600]
    assert set(runs[0].keys.to_pylist()) == {"k0000", "k0001"}


@pytest.mark.parametrize("run_bytes", [1, 300, 1 << 20])
@given(positions=st.lists(st.integers(0, 30)), size=st.integers(1, 9))
def test_sorting_keeps_every_line(positions: list[int], size: int, run_bytes: int) -> None:
    """In one run or in many that lie on disk; lines of one position stay in the order of the file."""
    given_lines = [(position, f"{position}-{number}") for number, position in enumerate(positions)]
    made = [
        table
        for number, _ in enumerate(positions)
        for table in tables(positions[number : number + 1], 1, f"-{number}")
    ]
    given_tables = [pa.concat_tables(made[at : at + size]) for at in range(0, len(made), size)]
    found = pa.concat_tables([LINE_SCHEMA.empty_table(), *sorted_tables(iter(given_tables), run_bytes)])
    rows = [(int(row["sequence_number"]), row["data"]) for row in found.to_pylist()]
    assert rows == sorted(given_lines, key=lambda line: line[0])
