"""How a table takes a day's typed columns: wider or not at all, and under no name whose values would move."""

import pytest
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import MappedField, NameMapping
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
)

from compaction.tables.evolution import Evolution, FormerNames, Step, holds, plan_evolution
from compaction.tables.plan import Conflict

REASONS = NestedField(99, "_unfit", StringType())


MAP = MapType(2, StringType(), 3, IntegerType())


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
    [
        (MAP, "map<string, int32>"),
        (LongType(), "int32"),
        (DecimalType(10, 2), "decimal(5,2)"),
        (StringType(), "json"),
        (DoubleType(), "float64"),
    ],
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
        (MAP, "map<string, bool>", "column x.value: the table has int, the day bool"),
        (MAP, "list<int32>", "column x: the table has map<string, int>, the day list<int32>"),
        (
            MapType(2, LongType(), 3, IntegerType()),
            "map<string, int32>",
            "column x: the table has map<long, int>, the day map<string, int32>",
        ),
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
    assert evolved(MAP, "map<string, int64>").steps == (Step(("x", "value"), LongType(), is_new=False),)
    by_key = MapType(2, StringType(), 3, StructType(NestedField(4, "a", IntegerType())))
    assert evolved(by_key, "map<string, struct<a: int32, b: string>>").steps == (
        Step(("x", "value", "b"), StringType(), is_new=True),
    )


def test_names_that_differ_in_case_alone_are_a_conflict() -> None:
    """Spark and Hive would find two columns of one name."""
    found = plan_evolution(Schema(NestedField(1, "Price", LongType()), REASONS), {"price": "int64"})
    assert [*map(str, found.conflicts)] == ["column price: the table has a column Price, the day int64"]


def dropped(was: IcebergType | None) -> FormerNames:
    """Return the names of a table that had a column `x`; None: nobody remembers its type."""
    schema = Schema(REASONS)
    before = [] if was is None else [Schema(NestedField(1, "x", was), REASONS)]
    return FormerNames(NameMapping([MappedField(field_id=1, names=["x"])]), schema, [*before, schema])


def test_a_name_that_no_file_has_is_free() -> None:
    """Also in a table whose files have field ids, and that has no mapping therefore."""
    assert FormerNames(None, Schema(REASONS), ()).taken(("x",), LongType()) == ""
    assert dropped(LongType()).taken(("y",), LongType()) == ""


@pytest.mark.parametrize(
    ("was", "comes", "taken"),
    [
        (LongType(), "int64", ""),
        (IntegerType(), "int64", ""),
        (LongType(), "int32", "files of other days with long in it"),
        (IntegerType(), "string", "files of other days with int in it"),
        (None, "string", "files of other days with an unknown type in it"),
    ],
)
def test_a_dropped_name_comes_back_with_a_type_that_reads_its_files(
    was: IcebergType | None, comes: str, taken: str
) -> None:
    """Any other type would make them unreadable, and with them the table."""
    found = plan_evolution(Schema(REASONS), {"x": comes}, dropped(was))
    assert found.conflicts == ((Conflict("x", taken, comes),) if taken else ())
    assert len(found.steps) == (0 if taken else 1)


def test_a_renamed_name_stays_with_its_column() -> None:
    """A new column of the name would take the values of all days before."""
    schema = Schema(NestedField(1, "y", LongType()), REASONS)
    names = FormerNames(NameMapping([MappedField(field_id=1, names=["x", "y"])]), schema, [schema])
    assert plan_evolution(schema, {"x": "int64"}, names).conflicts == (Conflict("x", "it renamed to y", "int64"),)
    assert plan_evolution(schema, {"y": "int64"}, names).conflicts == ()


def test_names_within_structs_are_told_apart() -> None:
    """What `x.a` was says nothing of `a`, or of `x.b`."""
    before = Schema(NestedField(1, "x", StructType(NestedField(2, "a", LongType()))), REASONS)
    schema = Schema(NestedField(1, "x", StructType()), REASONS)
    mapping = NameMapping([MappedField(field_id=1, names=["x"], fields=[MappedField(field_id=2, names=["a"])])])
    names = FormerNames(mapping, schema, [before, schema])
    taken = "files of other days with long in it"
    found = plan_evolution(schema, {"x": "struct<a: string, b: string>", "a": "string"}, names)
    assert found.conflicts == (Conflict("x.a", taken, "string"),)
    assert found.steps == (Step(("x", "b"), StringType(), is_new=True), Step(("a",), StringType(), is_new=True))


def test_what_is_nested_is_held_by_what_is_as_wide() -> None:
    """Field by field; one that the new type has not is not read."""
    was = StructType(NestedField(1, "a", IntegerType()), NestedField(2, "b", ListType(3, DecimalType(5, 2))))
    wide = ListType(9, DecimalType(7, 2))
    assert holds(StructType(NestedField(7, "a", LongType()), NestedField(8, "b", wide)), was)
    assert holds(StructType(NestedField(7, "c", LongType())), was)
    assert not holds(StructType(NestedField(8, "b", ListType(9, DecimalType(7, 4)))), was)
    assert not holds(StringType(), was)
    assert holds(MapType(7, StringType(), 8, LongType()), MAP)
    assert not holds(MapType(7, StringType(), 8, StringType()), MAP)
