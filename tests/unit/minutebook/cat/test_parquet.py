"""`cat --format parquet`: the file is whole, or not there."""

import gc
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from minutebook.cat.output import open_output
from minutebook.cat.request import CatRequest
from tests.unit.minutebook.cat.reading import NOON, S0, Screen, Site, records


@pytest.fixture
def plain(tmp_path: Path) -> Site:
    """Return an empty archive."""
    return Site(tmp_path / "archive")


def test_parquet_that_is_given_up_is_gone_without_a_word(tmp_path: Path) -> None:
    """The store failed, or Ctrl-C: what is shown is that, and no traceback of a file that nobody wants."""
    request = CatRequest(0, 1, form="parquet", out=tmp_path / "some.parquet")
    output = open_output(request, Screen())
    output.abort()
    del output
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_parquet_has_the_columns_of_published_days(plain: Site, tmp_path: Path) -> None:
    """And the file is whole, or not there."""
    plain.scene.segment(S0, NOON, records(NOON, 1, ["a", b"\xff"]))
    out = tmp_path / "some.parquet"
    plain.cat(form="parquet", out=out)
    rows = pq.read_table(out).to_pylist()

    assert [(row["data"], row["data_bytes"], row["sequence_number"]) for row in rows] == [
        ("a", None, "1"),
        (None, b"\xff", "2"),
    ]
    assert rows[0]["arrival_time"].timestamp() == NOON * 60
    plain.cat((NOON + 5, NOON + 6), form="parquet", out=tmp_path / "none.parquet")
    assert pq.read_table(tmp_path / "none.parquet").num_rows == 0
