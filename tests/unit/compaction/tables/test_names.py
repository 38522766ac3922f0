"""Names that files of days before have: a new column must not take them over where values would move, or get lost."""

import pytest
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import MappedField, NameMapping
from pyiceberg.types import (
    DecimalType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
)

from compaction.tables.evolution import FormerNames, Step, holds, plan_evolution
from compaction.tables.plan import Conflict

REASONS = NestedField(99, "_unfit", StringType())


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
