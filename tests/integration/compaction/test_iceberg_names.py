"""Tables in which somebody renamed or dropped a typed column whose name a later night brings again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.types import StringType

from tests.integration.compaction.test_iceberg_columns import Nights
from tests.integration.lake import DAY, NEXT, Lake


@pytest.fixture
def nights(lake: Lake, tmp_path: Path) -> Nights:
    """Return two days that are not published."""
    return Nights(lake, tmp_path / "nights")


def drop(table: Any) -> None:  # noqa: ANN401 - pyiceberg's
    """Take the column out."""
    table.update_schema().delete_column("n").commit()


def rename(table: Any) -> None:  # noqa: ANN401 - pyiceberg's
    """Give it another name."""
    table.update_schema().rename_column("n", "number").commit()


def drop_within(table: Any) -> None:  # noqa: ANN401 - pyiceberg's
    """Put another field in the place of one in a struct."""
    table.update_schema().add_column(("who", "z"), StringType()).delete_column(("who", "a")).commit()


@pytest.mark.parametrize(
    ("act", "comes", "conflict"),
    [
        (drop, {"n": "string"}, "column n: the table has files of other days with int in it, the day string"),
        (rename, {"n": "string"}, "column n: the table has it renamed to number, the day string"),
        (rename, {"n": "int32"}, "column n: the table has it renamed to number, the day int32"),
        (
            drop_within,
            {"who": "struct<a: string>"},
            "column who.a: the table has files of other days with long in it, the day string",
        ),
    ],
)
def test_a_name_that_files_of_other_days_have_is_not_given_to_another_column(
    nights: Nights, lake: Lake, act: Callable[[Any], None], comes: dict[str, str], conflict: str
) -> None:
    """Their values would move to it, or no reader could open them any more: the day is held, the table is whole."""
    nights.compact(DAY, {"n": "int32", "who": "struct<a: int64>"})
    lake.table(act)
    before = lake.rows()
    done = nights.compact(NEXT, comes)
    assert done.table is not None
    assert (done.state, done.table.state, [*map(str, done.table.conflicts)]) == ("published", "held", [conflict])
    assert lake.rows() == before


def test_a_dropped_column_comes_back_with_its_values(nights: Nights, lake: Lake) -> None:
    """As wide as it was, or wider: the files of days before have them still."""
    nights.compact(DAY, {"n": "int32"})
    lake.table(drop)
    assert nights.state(NEXT, {"n": "int64"}) == "committed"
    assert [row["n"] for row in nights.rows("n")] == [number if number % 6 else None for number in range(36)] * 2
