"""What a day's columns change in a table's schema. Pure, but for pyiceberg's types.

    the table has            the day has              the schema
    no such column           any type                 gets the column; rows of other days are null in it
    int32                    int64                    gets wider: Iceberg reads older files as the wider type
    decimal(10,2)            decimal(12,2)            the same
    int64                    int32                    stays: the day's files are read as the wider type
    a column                 none of the name         stays; the day's rows are null in it
    no such column any more  the name                 it depends on what files have under it: `iceberg.names`
    any other pair           (also decimal(10,4))     conflict: the day does not go into the table

Structs and lists are compared inside. A column whose name differs in case alone is a conflict, too: engines cannot
tell the two apart. The columns of every day, typed or not, must be there as they were made: one that somebody
dropped, renamed, retyped or declared required is a conflict.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from compaction.columns.columns import UNFIT
from compaction.columns.types import ColumnType, parse_type
from compaction.publish.conflicts import Conflict
from compaction.tables.names import FormerNames, Path, is_wider
from compaction.tables.shape import TABLE_SCHEMA

_SIMPLE: Final[dict[str, IcebergType]] = {
    "string": StringType(),
    "json": StringType(),
    "bool": BooleanType(),
    "int32": IntegerType(),
    "int64": LongType(),
    "float64": DoubleType(),
    "date": DateType(),
    "timestamp": TimestamptzType(),
    "local_timestamp": TimestampType(),
}
_ELEMENT: Final = "element"


class Step(NamedTuple):
    """One change of a schema: a column that comes, or one that gets a wider type."""

    path: Path
    type: IcebergType
    is_new: bool


class Evolution(NamedTuple):
    """What must change before a day's files fit a table, and what speaks against it, column by column."""

    steps: tuple[Step, ...] = ()
    conflicts: tuple[Conflict, ...] = ()


def plan_evolution(schema: Schema, columns: Mapping[str, str] | None, names: FormerNames | None = None) -> Evolution:
    """Compare a table's schema with the columns of a manifest (name -> type); None: the envelope is all.

    `names` are those that files have had; None: no others than the schema has.
    """
    if columns is None:
        return Evolution()
    wanted = {name: parse_type(text) for name, text in columns.items()} | {UNFIT: ColumnType("string")}
    found = list(_fields((), schema.as_struct(), wanted, names or FormerNames(None, schema, ())))
    return Evolution(
        tuple(step for step in found if isinstance(step, Step)),
        tuple(conflict for conflict in found if isinstance(conflict, Conflict)),
    )


def envelope_conflicts(schema: Schema, known: Collection[str] = ()) -> tuple[Conflict, ...]:
    """Return the columns of every day that a table has not as it was made with, but for those that are `known`."""
    has = {field.name: field for field in schema.fields}
    found = []
    for field in TABLE_SCHEMA.fields:
        there = has.get(field.name)
        if field.name not in known and (there is None or there.field_type != field.field_type):
            said = "no such column" if there is None else str(there.field_type)
            found.append(Conflict(field.name, said, str(field.field_type)))
    required = (field for field in schema.fields if field.required)
    return (*found, *(Conflict(field.name, "it as required", "rows that may lack it") for field in required))


def _fields(
    path: Path, struct: StructType, wanted: Mapping[str, ColumnType], names: FormerNames
) -> Iterator[Step | Conflict]:
    known = {field.name: field.field_type for field in struct.fields}
    lower = {name.lower(): name for name in known}
    for name, kind in wanted.items():
        if name in known:
            yield from _compare((*path, name), known[name], kind, names)
        elif name.lower() in lower:
            yield Conflict(_text((*path, name)), f"a column {lower[name.lower()]}", kind.text)
        elif taken := names.taken((*path, name), _type(kind)):
            yield Conflict(_text((*path, name)), taken, kind.text)
        else:
            yield Step((*path, name), _type(kind), is_new=True)


def _compare(path: Path, has: IcebergType, wanted: ColumnType, names: FormerNames) -> Iterator[Step | Conflict]:
    if wanted.name == "struct" and isinstance(has, StructType):
        yield from _fields(path, has, {field.name: field.type for field in wanted.fields}, names)
    elif wanted.name == "list" and isinstance(has, ListType):
        yield from _compare((*path, _ELEMENT), has.element_type, wanted.fields[0].type, names)
    else:
        comes = _type(wanted)
        if is_wider(comes, has):
            yield Step(path, comes, is_new=False)
        elif comes != has and not is_wider(has, comes):
            yield Conflict(_text(path), str(has), wanted.text)


def _type(kind: ColumnType) -> IcebergType:
    """Return Iceberg's type. Ids within it are given anew by the schema that it comes into."""
    if kind.name == "decimal":
        return DecimalType(kind.precision, kind.scale)
    if kind.name == "list":
        return ListType(element_id=1, element=_type(kind.fields[0].type), element_required=False)
    if kind.name == "struct":
        fields = enumerate(kind.fields, start=1)
        return StructType(*(NestedField(number, field.name, _type(field.type)) for number, field in fields))
    return _SIMPLE[kind.name]


def _text(path: Path) -> str:
    return ".".join(path)
