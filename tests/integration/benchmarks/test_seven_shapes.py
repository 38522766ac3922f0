"""The benchmark of seven shapes of payloads in one table: with readers that need nothing, and few records."""

import pytest

from benchmarks import seven_shapes
from benchmarks.seven_shapes import TABLE, compare

RECORDS = "5"
"""Of each segment: a day of 90 has each special payload of its shape."""


@pytest.mark.usefixtures("credentials")
def test_readers_see_what_was_sent(capsys: pytest.CaptureFixture[str]) -> None:
    """Value by value, in ten days of columns of their own; `make readers` asks Spark and DuckDB's own extension."""
    assert seven_shapes.main(["--records", RECORDS]) == 0
    out = capsys.readouterr().out
    assert "right: pyiceberg's scan" in out
    assert "right: DuckDB, of pyiceberg's scan" in out
    assert f"of {len(seven_shapes.DAYS)} days, {len(TABLE)} columns each" in out


def test_a_value_that_differs_is_told() -> None:
    """As is a row too few."""
    rows: list[dict[str, object]] = [{"n": 1, "data": "a", "data_bytes": None}] * 2
    assert compare(rows, rows) == []
    assert compare([rows[0], rows[0] | {"n": 2}], rows) == ["n: 1 rows, the first has 2, not 1, of 'a'"]
    assert compare(rows[:1], rows) == ["1 rows, not 2"]
