"""The type that holds two columns of one name."""

import pytest

from compaction.columns.types import parse_type
from compaction.columns.widening import wider


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("int32", "int64", "int64"),
        ("int64", "int32", "int64"),
        ("json", "string", "string"),
        ("timestamp(ms)", "timestamp", "timestamp(ms)"),
        ("decimal(10,2)", "decimal(12,2)", "decimal(12,2)"),
        ("decimal(10,2)", "decimal(10,3)", None),
        ("int64", "float64", None),
        ("struct<a: int32>", "struct<b: bool, a: int64>", "struct<a: int64, b: bool>"),
        ("struct<a: int32>", "struct<A: int32>", None),
        ("struct<a: int32>", "struct<a: bool>", None),
        ("list<int32>", "list<int64>", "list<int64>"),
        ("list<int32>", "list<bool>", None),
        ("map<string, int32>", "map<string, int64>", "map<string, int64>"),
        ("list<int32>", "int32", None),
    ],
)
def test_a_wider_type_holds_the_values_of_both(one: str, other: str, expected: str | None) -> None:
    """As Iceberg widens; None where it does not."""
    found = wider(parse_type(one), parse_type(other))
    assert (None if found is None else found.text) == expected
