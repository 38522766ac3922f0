"""A Parquet file is what its footer says, once it is stored."""

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from compaction.parquet.rows import ParquetPart
from compaction.tasks.finished import Part, check_footer
from minutebook.errors import FormatError
from minutebook.retry import Backoff
from minutebook.store.directory_storage import DirectoryStorage
from minutebook.store.retrying import RetryingStorage
from tests.fakes.clock import ManualClock
from tests.fakes.typed_lines import lines_of, mapping

ROWS = 5


@pytest.fixture
def out(tmp_path: Path) -> RetryingStorage:
    """Return a folder."""
    clock = ManualClock()
    return RetryingStorage(DirectoryStorage(tmp_path), lambda: Backoff(clock, random.Random(1), budget_seconds=10))


def written(out: RetryingStorage, columns: int = 1) -> Part:
    """Write a file as a task does; a footer grows with its columns."""
    sink = out.open_write("part.parquet", "x")
    table = pa.table({f"column-{number:05}": list(range(ROWS)) for number in range(columns)})
    pq.write_table(table, pa.PythonFile(sink, mode="w"))
    sink.close()
    return Part("part.parquet", ROWS, sink.size, 1)


@pytest.mark.parametrize("columns", [1, 2000], ids=["a short footer", "a footer beyond one read"])
def test_a_file_as_it_was_written_passes(out: RetryingStorage, columns: int) -> None:
    """Its size and its rows."""
    check_footer(out, written(out, columns))


@pytest.mark.parametrize("rows", [ROWS - 1, ROWS + 1, 0])
def test_other_rows_are_an_error(out: RetryingStorage, rows: int) -> None:
    """What is stored counts, not what was meant."""
    with pytest.raises(FormatError, match=f"holds {ROWS} rows, {rows} were written"):
        check_footer(out, written(out)._replace(rows=rows))


@pytest.mark.parametrize("off", [-1, 1])
def test_another_size_is_an_error(out: RetryingStorage, off: int) -> None:
    """Though the footer is whole."""
    part = written(out)
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
