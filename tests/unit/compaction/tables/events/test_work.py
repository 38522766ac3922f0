"""A day cut by its events: each row in one file, of its event's day, in order, however small memory and files are."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compaction.tables.events.work import EventSizes, SplitOrder, cut_by_event_day, gather, gather_orders
from minutebook.errors import FormatError, SafetyRefusal
from minutebook.published.schema import SCHEMA
from minutebook.store.storage import Address

DAY: Final = 20_777
_DAY_US: Final = 86_400_000_000
EVENTS: Final = pa.schema([*SCHEMA, ("event_time", pa.timestamp("us", "UTC")), ("_unfit", pa.string())])
Time = int | None


def write(folder: Path, name: str, times: Sequence[Time], schema: pa.Schema = EVENTS) -> str:
    """Write a published file: rows of one shard, whose sequence numbers grow from 9 to 10 digits."""
    count = len(times)
    columns = {
        "shard_id": [name] * count,
        "sequence_number": [str(999_999_998 + number) for number in range(count)],
        "sub_sequence_number": [0] * count,
        "partition_key": ["p"] * count,
        "arrival_time": [DAY * _DAY_US] * count,
        "data": ["{}"] * count,
        "data_bytes": [None] * count,
        "segment": ["s"] * count,
        "event_time": list(times),
        "_unfit": [None] * count,
    }
    pq.write_table(pa.table({field.name: columns[field.name] for field in schema}, schema=schema), folder / name)
    return name


Row = tuple[str, int, Time]


def cut(folder: Path, keys: Sequence[str], sizes: EventSizes, tasks: int, window: int = 30) -> list[list[Row]]:
    """Cut files in so many tasks; returns the rows of each file, and checks that a file is of one day."""
    out = Address(None, str(folder))
    groups = [tuple(keys[number::tasks]) for number in range(tasks)]
    results = [
        cut_by_event_day(SplitOrder(out, "cut/", group, DAY, window, is_alone=tasks == 1, sizes=sizes))
        for group in groups
    ]
    scraps = [scrap for result in results for scrap in result.scraps]
    files = [file for result in results for file in result.files]
    files += [file for order in gather_orders(out, "cut/", scraps, sizes) for file in gather(order)]
    found = []
    for file in files:
        table = pq.read_table(folder / file.key).select(["shard_id", "sequence_number", "event_time"])
        times = table["event_time"].cast(pa.int64()).to_pylist()
        assert {None if time is None else time // _DAY_US for time in times} == {file.day}
        numbers = map(int, table["sequence_number"].to_pylist())
        found.append(list(zip(table["shard_id"].to_pylist(), numbers, times, strict=True)))
        assert len(found[-1]) == file.rows
    return found


_TIMES: Final = st.one_of(
    st.none(),
    st.builds(lambda day, us: (DAY + day) * _DAY_US + us, st.integers(-30, 1), st.sampled_from((0, 1, _DAY_US - 1))),
)


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.lists(_TIMES, max_size=12), min_size=1, max_size=4),
    st.sampled_from((1, 2)),
    st.sampled_from((EventSizes(), EventSizes(held=1), EventSizes(held=2000, small=1, file=1), EventSizes(file=1))),
)
def test_each_row_is_in_one_file(
    tmp_path_factory: pytest.TempPathFactory, published: list[list[Time]], tasks: int, sizes: EventSizes
) -> None:
    """Sorted by event, shard and number: nothing is lost, doubled or put with another day."""
    folder = tmp_path_factory.mktemp("cut")
    keys = [write(folder, f"shard-{number}.parquet", times) for number, times in enumerate(published)]
    found = cut(folder, keys, sizes, tasks)
    every = [
        (key, 999_999_998 + at, time)
        for key, times in zip(keys, published, strict=True)
        for at, time in enumerate(times)
    ]
    assert sorted((row for rows in found for row in rows), key=repr) == sorted(every, key=repr)
    for rows in found:
        assert rows == sorted(rows, key=lambda row: (row[2] or 0, row[0], row[1]))


def test_scraps_of_all_tasks_make_one_file_a_day(tmp_path: Path) -> None:
    """Not one for each task and day of events: three tasks, each with the same ten days."""
    times = [(DAY - day) * _DAY_US for day in range(10)]
    keys = [write(tmp_path, f"{number}.parquet", times) for number in range(3)]
    assert len(cut(tmp_path, keys, EventSizes(), tasks=3)) == 10
    assert len(cut(tmp_path, keys, EventSizes(small=1), tasks=3)) == 30


def test_files_say_how_they_are_sorted(tmp_path: Path) -> None:
    """By event, then shard; bounds of the event's time are in the footer, and none of the payload."""
    write(tmp_path, "a.parquet", [DAY * _DAY_US, None])
    order = SplitOrder(Address(None, str(tmp_path)), "cut/", ("a.parquet",), DAY, 1, is_alone=True)
    [file] = [file for file in cut_by_event_day(order).files if file.day is not None]
    footer = pq.read_metadata(tmp_path / file.key)
    names = footer.schema.names
    assert [names[column.column_index] for column in footer.row_group(0).sorting_columns] == [
        "event_time",
        "shard_id",
    ]
    assert footer.row_group(0).column(names.index("data")).statistics is None
    assert footer.row_group(0).column(names.index("event_time")).statistics.has_min_max


def test_an_event_outside_of_the_window_is_refused(tmp_path: Path) -> None:
    """A day may have been published with a wider one: nobody makes partitions that were not asked for."""
    key = write(tmp_path, "a.parquet", [(DAY - 3) * _DAY_US])
    with pytest.raises(SafetyRefusal, match="holds events of another day"):
        cut(tmp_path, [key], EventSizes(), 1, window=2)
    assert len(cut(tmp_path, [key], EventSizes(), 1, window=3)) == 1


def test_a_file_without_the_time_of_events_is_refused(tmp_path: Path) -> None:
    """It is not what was published."""
    key = write(tmp_path, "a.parquet", [None], SCHEMA)
    with pytest.raises(FormatError, match="has no column event_time"):
        cut(tmp_path, [key], EventSizes(), 1)
