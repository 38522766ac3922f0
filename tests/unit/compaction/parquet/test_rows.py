"""The Parquet files: what every reader takes into vectors, and nothing that is not so, in memory and as stored."""

import random
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from compaction.event_ids.rows import ROW_BYTES, IdOrder
from compaction.parquet.line_tables import LINE_SCHEMA
from compaction.parquet.plan import MergeGroup, RawObject, Task
from compaction.parquet.rows import ROW_GROUP_BYTES, NotSorted, ParquetPart
from compaction.tasks.finished import Part, check_footer
from compaction.tasks.task import Order, run_collecting
from minutebook.errors import FormatError
from minutebook.format.record import Record
from minutebook.format.segment import SegmentWriter
from minutebook.retry import Backoff
from minutebook.store.directory_storage import DirectoryStorage
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import Address, Sink
from tests.fakes.clock import ManualClock
from tests.fakes.typed_lines import lines_of, mapping

Row = tuple[str, str]
PADDING = b"x" * 900_000
RECORDS = ROW_GROUP_BYTES // len(PADDING) + 1
IN_ORDER: Sequence[Row] = [("a", "10"), ("a", "11"), ("a", "11"), ("b", "05")]


def lines(rows: Sequence[Row], payload: str = "x") -> pa.Table:
    """Return lines of these shards and sequence numbers."""
    return pa.Table.from_pylist(
        [
            {
                "shard_id": shard,
                "sequence_number": number,
                "sub_sequence_number": 0,
                "partition_key": f"key-{at}",
                "arrival_ms": at,
                "data": payload,
            }
            for at, (shard, number) in enumerate(rows)
        ],
        schema=LINE_SCHEMA,
    )


def columns_of(group: pq.RowGroupMetaData) -> list[pq.ColumnChunkMetaData]:
    """Return the columns of a row group."""
    return [group.column(number) for number in range(group.num_columns)]


def new_file(folder: Path) -> Sink:
    """Begin the file `p`."""
    return DirectoryStorage(folder).open_write(
        "p", "x", lambda: Backoff(ManualClock(), random.Random(1), budget_seconds=0)
    )


def written(folder: Path, groups: Sequence[pa.Table], *, is_sorted: bool = True) -> Path:
    """Write a file, a table a row group."""
    part = ParquetPart(new_file(folder), is_sorted=is_sorted, row_group_bytes=1)
    for table in groups:
        part.add(table, "segment")
    part.close()
    return folder / "p"


def test_pages_are_plain_or_dictionaries(tmp_path: Path) -> None:
    """Delta encodings are what vectorised readers refuse, or fall back from."""
    group = pq.read_metadata(written(tmp_path, [lines(IN_ORDER)])).row_group(0)
    columns = columns_of(group)
    assert {encoding for column in columns for encoding in column.encodings} <= {"PLAIN", "RLE", "RLE_DICTIONARY"}
    assert {column.compression for column in columns} == {"ZSTD"}
    assert all(column.has_offset_index and column.has_column_index for column in columns if column.is_stats_set)


def test_row_groups_hold_64_mib_of_lines(tmp_path: Path) -> None:
    """The last one holds what is left."""
    part = ParquetPart(new_file(tmp_path))
    table = lines([("a", "1")] * 100, "x" * 10_000)
    for _ in range(2 * (ROW_GROUP_BYTES // table.nbytes + 1) + 1):
        part.add(table, "segment")
    part.close()
    found = pq.read_metadata(tmp_path / "p")
    sizes = [found.row_group(number).total_byte_size for number in range(found.num_row_groups)]
    assert [round(size / ROW_GROUP_BYTES) for size in sizes] == [1, 1, 0]


@pytest.mark.parametrize(
    "rows",
    [
        [("a", "11"), ("a", "10")],
        [("b", "10"), ("a", "11")],
        [("a", "9"), ("a", "10")],
    ],
    ids=["numbers", "shards", "numbers of two lengths"],
)
def test_an_order_is_said_where_it_is(tmp_path: Path, rows: Sequence[Row]) -> None:
    """Readers skip and merge by it: as text, which is what the column holds."""
    sorted_by = pq.read_metadata(written(tmp_path, [lines(IN_ORDER)])).row_group(0).sorting_columns
    assert [(one.column_index, one.descending) for one in sorted_by] == [(0, False), (1, False), (2, False)]
    (tmp_path / "p").unlink()
    assert not pq.read_metadata(written(tmp_path, [lines(rows)])).row_group(0).sorting_columns


def test_an_order_that_ends_later_is_an_error(tmp_path: Path) -> None:
    """The file has said it by then: it is made anew without."""
    groups = [lines([("a", "10"), ("a", "12")]), lines([("a", "11")])]
    with pytest.raises(NotSorted):
        written(tmp_path, groups)
    assert not pq.read_metadata(written(tmp_path, groups, is_sorted=False)).row_group(1).sorting_columns


def test_partition_keys_have_a_bloom_filter(tmp_path: Path) -> None:
    """A reader that looks for one key passes over the row groups that do not hold it."""
    found = pq.read_metadata(written(tmp_path, [lines(IN_ORDER), lines([("c", "1")])]))
    for number in range(found.num_row_groups):
        offsets = {
            column.path_in_schema: column.bloom_filter_offset for column in columns_of(found.row_group(number))
        }
        assert [name for name, offset in offsets.items() if offset is not None] == ["partition_key"]


def test_a_task_whose_rows_turn_out_unsorted_makes_its_file_anew(tmp_path: Path) -> None:
    """With every row and every id once, and without a word about an order."""
    store = DirectoryStorage(tmp_path)
    groups = [MergeGroup((archived(store, shard),)) for shard in ("shardId-000000000002", "shardId-000000000001")]
    where = Address(None, str(tmp_path))
    result, ids = run_collecting(Order(Task(0, tuple(groups)), where, where, "out/", IdOrder("id", 0, 1)))
    assert ids is not None
    assert sum(len(rows) for _, rows in ids.rows()) == 2 * RECORDS * ROW_BYTES
    [path] = (tmp_path / "out").iterdir()
    found = pq.read_metadata(path)
    assert (found.num_rows, found.num_row_groups) == (2 * RECORDS, 2)
    assert not found.row_group(0).sorting_columns
    assert result.part is not None
    assert result.part.rows == 2 * RECORDS


def archived(store: DirectoryStorage, shard: str) -> RawObject:
    """Write a segment of more than a row group."""
    records = [
        Record(str(10 + number), 0, "p", 0, b'{"id":%d,"x":"%s"}' % (number, PADDING)) for number in range(RECORDS)
    ]
    writer = SegmentWriter(shard, 0)
    writer.extend(records)
    key = f"{shard}.jsonl.gz"
    store.put_if_absent(key, writer.body(), {}, "x")
    head = store.head(key)
    assert head is not None
    return RawObject(key, head.etag, head.size, shard, 0, records[0].position)


ROWS = 5


@pytest.fixture
def out(tmp_path: Path) -> RetryingStorage:
    """Return a folder."""
    clock = ManualClock()
    return RetryingStorage(DirectoryStorage(tmp_path), lambda: Backoff(clock, random.Random(1), budget_seconds=10))


def stored_part(out: RetryingStorage, columns: int = 1) -> Part:
    """Write a file as a task does; a footer grows with its columns."""
    sink = out.open_write("part.parquet", "x")
    table = pa.table({f"column-{number:05}": list(range(ROWS)) for number in range(columns)})
    pq.write_table(table, pa.PythonFile(sink, mode="w"))
    sink.close()
    return Part("part.parquet", ROWS, sink.size, 1)


@pytest.mark.parametrize("columns", [1, 2000], ids=["a short footer", "a footer beyond one read"])
def test_a_file_as_it_was_written_passes(out: RetryingStorage, columns: int) -> None:
    """Its size and its rows."""
    check_footer(out, stored_part(out, columns))


@pytest.mark.parametrize("rows", [ROWS - 1, ROWS + 1, 0])
def test_other_rows_are_an_error(out: RetryingStorage, rows: int) -> None:
    """What is stored counts, not what was meant."""
    with pytest.raises(FormatError, match=f"holds {ROWS} rows, {rows} were written"):
        check_footer(out, stored_part(out)._replace(rows=rows))


@pytest.mark.parametrize("off", [-1, 1])
def test_another_size_is_an_error(out: RetryingStorage, off: int) -> None:
    """Though the footer is whole."""
    part = stored_part(out)
    with pytest.raises(FormatError, match="bytes"):
        check_footer(out, part._replace(size=part.size + off))


def test_another_number_of_reasons_is_an_error(out: RetryingStorage) -> None:
    """Rows that do not fit are counted again in what is stored."""
    lines = lines_of([b'{"x":1}', b"no", b'{"x":""}'])
    sink = out.open_write("typed.parquet", "x")
    part = ParquetPart(sink, mapping({"x": "int64"}))
    part.add(lines, "segment")
    part.close()
    assert part.typed is not None
    stored = Part("typed.parquet", part.rows, part.size, 1, part.typed)
    check_footer(out, stored)
    with pytest.raises(FormatError, match="holds 2 rows that do not fit, 1 were written"):
        check_footer(out, stored._replace(typed=part.typed._replace(unfit=1)))
