"""How a table's schema takes a day's typed columns: wider or not at all."""

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
)

from compaction.tables.evolution import Evolution, Step, plan_evolution

REASONS = NestedField(99, "_unfit", StringType())


def evolved(has: IcebergType, wanted: str) -> Evolution:
    """Return what a table with a column `x` must change for a day with another one."""
    return plan_evolution(Schema(NestedField(1, "x", has), REASONS), {"x": wanted})


def test_an_envelope_changes_nothing() -> None:
    """Days without columns go into any table."""
    assert plan_evolution(Schema(REASONS), None) == Evolution()


def test_new_columns_come_with_their_types() -> None:
    """And the column of reasons, once."""
    found = plan_evolution(
        Schema(NestedField(1, "y", LongType())), {"x": "decimal(10,2)", "s": "struct<a: list<date>>"}
    )
    assert [(step.path, str(step.type), step.is_new) for step in found.steps] == [
        (("x",), "decimal(10, 2)", True),
        (("s",), "struct<1: a: optional list<date>>", True),
        (("_unfit",), "string", True),
    ]
    assert not found.conflicts


@pytest.mark.parametrize(
    ("has", "wanted", "wider"),
    [(IntegerType(), "int64", LongType()), (DecimalType(5, 2), "decimal(10,2)", DecimalType(10, 2))],
)
def test_a_wider_type_widens_the_column(has: IcebergType, wanted: str, wider: IcebergType) -> None:
    """Files that are there are read as the wider type."""
    assert evolved(has, wanted) == Evolution((Step(("x",), wider, is_new=False),))


@pytest.mark.parametrize(
    ("has", "wanted"),
    [(LongType(), "int32"), (DecimalType(10, 2), "decimal(5,2)"), (StringType(), "json"), (DoubleType(), "float64")],
)
def test_a_narrower_or_equal_type_changes_nothing(has: IcebergType, wanted: str) -> None:
    """The day's files are read as what the table has."""
    assert evolved(has, wanted) == Evolution()


@pytest.mark.parametrize(
    ("has", "wanted", "said"),
    [
        (StringType(), "int64", "column x: the table has string, the day int64"),
        (LongType(), "string", "column x: the table has long, the day string"),
        (LongType(), "float64", "column x: the table has long, the day float64"),
        (DecimalType(10, 2), "decimal(10,4)", "column x: the table has decimal(10, 2), the day decimal(10,4)"),
        (LongType(), "list<int64>", "column x: the table has long, the day list<int64>"),
        (DecimalType(5, 2), "decimal(10,4)", "column x: the table has decimal(5, 2), the day decimal(10,4)"),
        (ListType(2, StringType()), "list<bool>", "column x.element: the table has string, the day bool"),
        (
            StructType(NestedField(2, "a", StructType(NestedField(3, "b", StringType())))),
            "struct<a: struct<b: date>>",
            "column x.a.b: the table has string, the day date",
        ),
    ],
)
def test_any_other_type_is_a_conflict_that_names_its_column(has: IcebergType, wanted: str, said: str) -> None:
    """Nothing is cast by guess."""
    assert evolved(has, wanted).steps == ()
    assert [*map(str, evolved(has, wanted).conflicts)] == [said]


def test_fields_come_into_structs_and_lists() -> None:
    """At any depth, beside those that are there."""
    has = ListType(2, StructType(NestedField(3, "a", IntegerType())))
    assert evolved(has, "list<struct<a: int64, b: string>>").steps == (
        Step(("x", "element", "a"), LongType(), is_new=False),
        Step(("x", "element", "b"), StringType(), is_new=True),
    )


def test_names_that_differ_in_case_alone_are_a_conflict() -> None:
    """Spark and Hive would find two columns of one name."""
    found = plan_evolution(Schema(NestedField(1, "Price", LongType()), REASONS), {"price": "int64"})
    assert [*map(str, found.conflicts)] == ["column price: the table has a column Price, the day int64"]
