"""Hive's types of days that evolved: the one that holds both, or none."""

import pytest

from compaction.glue.widening import wider


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ("int", "bigint", "bigint"),
        ("decimal(5,2)", "decimal(12,2)", "decimal(12,2)"),
        ("decimal(5,2)", "decimal(12,4)", None),
        ("bigint", "double", None),
        ("string", "binary", None),
        ("array<int>", "array<bigint>", "array<bigint>"),
        ("array<int>", "int", None),
        ("array<int>", "struct<a:int>", None),
        (
            "struct<a:int,c:decimal(5,2)>",
            "struct<b:array<struct<x:string>>,a:bigint,c:decimal(5,2)>",
            "struct<a:bigint,c:decimal(5,2),b:array<struct<x:string>>>",
        ),
        ("struct<a:int>", "struct<a:string>", None),
        ("struct<a:int>", "struct<A:string>", None),
    ],
)
def test_a_wider_type_holds_both(one: str, other: str, both: str | None) -> None:
    """Whichever of them comes first."""
    assert wider(one, other) == both
    back = wider(other, one)
    assert (back is None) == (both is None)
    assert both is None or wider(both, back or "") == both


def test_names_of_fields_that_differ_in_case_alone_are_one() -> None:
    """Hive refuses a struct with both."""
    assert wider("struct<a:int,b:int>", "struct<A:bigint,c:int>") == "struct<a:bigint,b:int,c:int>"
