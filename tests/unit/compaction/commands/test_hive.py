"""Hive's types of days that evolved: the one that holds both, or none."""

import pyarrow as pa
import pytest

from compaction.commands.ddl import CatalogColumn, columns_of, unite, wider
from compaction.tables.plan import Conflict
from minutebook.errors import SettingsError


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


def test_names_that_differ_in_case_alone_are_one_column() -> None:
    """Hive and Athena refuse a table with both, and every query on it with that."""
    known = [CatalogColumn("price", "int")]
    assert unite(known, [CatalogColumn("Price", "bigint")]) == ((CatalogColumn("price", "bigint"),), ())
    assert unite(known, [CatalogColumn("PRICE", "string")]) == (tuple(known), (Conflict("PRICE", "int", "string"),))


def test_a_type_without_a_name_in_hive_is_refused() -> None:
    """None of ours is."""
    with pytest.raises(SettingsError, match="has no name in Hive"):
        columns_of(pa.schema([("n", pa.time64("us"))]))
