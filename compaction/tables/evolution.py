"""Plan how a table's schema evolves for the columns of a day. Pure, but for pyiceberg's types.

    the table has            the day has              the schema
    no such column           any type                 gets the column; rows of other days are null in it
    int32                    int64                    is widened: Iceberg reads older files as the wider type
    decimal(10,2)            decimal(12,2)            the same
    int64                    int32                    stays: the day's files are read as the wider type
    a column                 no such column           stays; the day's rows are null in it
    a column no longer       such a column            depends on the older files: `FormerNames`
    any other pair           (also decimal(10,4))     conflict: the day is not committed

Structs, lists and maps are compared recursively. A name that differs only in case is a conflict: engines cannot
distinguish the two. So is a column of the envelope that somebody dropped, renamed, retyped or declared required.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import MappedField, NameMapping
from pyiceberg.types import (
    BooleanType,
    DateType,
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
    TimestampType,
    TimestamptzType,
)

from compaction.columns.columns import UNFIT
from compaction.columns.types import ColumnType, parse_type
from compaction.tables.plan import Conflict
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
_VALUE: Final = "value"
Path = tuple[str, ...]


class Step(NamedTuple):
    """One change of a schema: a new column, or a wider type."""

    path: Path
    type: IcebergType
    is_new: bool


class Evolution(NamedTuple):
    """The changes that let a day's files fit a table, and the conflicts."""

    steps: tuple[Step, ...] = ()
    conflicts: tuple[Conflict, ...] = ()


class FormerNames:
    """The columns that names in older files belong to; `schemas`: the table's schemas, the newest last.

    Files have no field ids: the table's name mapping assigns a name in a file to a column, and keeps names of renamed
    and dropped columns. A new column takes over its name in the files of all days:

        renamed                                             refused: its values would move to the new column
        dropped, and the new type is the same or wider      allowed: the values of earlier days come back
        dropped, of another or an unknown type              refused: those files could not be read any more
    """

    def __init__(self, mapping: NameMapping | None, schema: Schema, schemas: Sequence[Schema]) -> None:
        self._fields: Sequence[MappedField] = () if mapping is None else mapping.root
        self._schema = schema
        self._schemas = schemas

    def taken(self, path: Path, comes: IcebergType) -> str:
        """Return why a new column of a type must not have a name; empty: it may."""
        number = _number(self._fields, path)
        if number is None:
            return ""
        if (now := self._schema.find_column_name(number)) is not None:
            return f"it renamed to {now}"
        known = (schema for schema in reversed(self._schemas) if schema.find_column_name(number) is not None)
        was = next((schema.find_type(number) for schema in known), None)
        if was is not None and holds(comes, was):
            return ""
        return f"files of other days with {was or 'an unknown type'} in it"


def _number(fields: Sequence[MappedField], path: Path) -> int | None:
    """Return the id of the column that a path in files belongs to; None: none."""
    mapped = next((field for field in fields if path[0] in field.names), None)
    if mapped is None:
        return None
    return mapped.field_id if len(path) == 1 else _number(mapped.fields, path[1:])


def holds(comes: IcebergType, was: IcebergType) -> bool:
    """Return whether a column of a type can read files with another: the same or a narrower one."""
    if isinstance(comes, StructType) and isinstance(was, StructType):
        former = {field.name: field.field_type for field in was.fields}
        return all(field.name not in former or holds(field.field_type, former[field.name]) for field in comes.fields)
    if isinstance(comes, ListType) and isinstance(was, ListType):
        return holds(comes.element_type, was.element_type)
    if isinstance(comes, MapType) and isinstance(was, MapType):
        return holds(comes.value_type, was.value_type)
    return comes == was or is_wider(comes, was)


def is_wider(wide: IcebergType, narrow: IcebergType) -> bool:
    """Return whether Iceberg reads files of the narrower type as the wider one."""
    if isinstance(wide, DecimalType) and isinstance(narrow, DecimalType):
        return wide.scale == narrow.scale and wide.precision > narrow.precision
    return isinstance(wide, LongType) and isinstance(narrow, IntegerType)


def plan_evolution(schema: Schema, columns: Mapping[str, str] | None, names: FormerNames | None = None) -> Evolution:
    """Compare a table's schema with the columns of a manifest (name -> type); None: only the envelope.

    `names`: the names in older files; None: only those of the schema.
    """
    if columns is None:
        return Evolution()
    types = {name: parse_type(text) for name, text in columns.items()} | {UNFIT: ColumnType("string")}
    outcomes = list(_fields((), schema.as_struct(), types, names or FormerNames(None, schema, ())))
    return Evolution(
        tuple(step for step in outcomes if isinstance(step, Step)),
        tuple(conflict for conflict in outcomes if isinstance(conflict, Conflict)),
    )


def envelope_conflicts(schema: Schema, known: Collection[str] = ()) -> tuple[Conflict, ...]:
    """Return a conflict for each column of the envelope that a table lacks or has changed, except `known` ones."""
    has = {field.name: field for field in schema.fields}
    conflicts = []
    for field in TABLE_SCHEMA.fields:
        actual = has.get(field.name)
        if field.name not in known and (actual is None or actual.field_type != field.field_type):
            text = "no such column" if actual is None else str(actual.field_type)
            conflicts.append(Conflict(field.name, text, str(field.field_type)))
    required = (field for field in schema.fields if field.required)
    return (*conflicts, *(Conflict(field.name, "it as required", "rows that may lack it") for field in required))


def _fields(
    path: Path, struct: StructType, columns: Mapping[str, ColumnType], names: FormerNames
) -> Iterator[Step | Conflict]:
    known = {field.name: field.field_type for field in struct.fields}
    lower = {name.lower(): name for name in known}
    for name, kind in columns.items():
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
    elif wanted.name == "map" and isinstance(has, MapType) and has.key_type == StringType():
        yield from _compare((*path, _VALUE), has.value_type, wanted.fields[0].type, names)
    else:
        comes = _type(wanted)
        if is_wider(comes, has):
            yield Step(path, comes, is_new=False)
        elif comes != has and not is_wider(has, comes):
            yield Conflict(_text(path), str(has), wanted.text)


def _type(kind: ColumnType) -> IcebergType:
    """Return Iceberg's type. The schema that it is added to assigns new ids."""
    if kind.name == "decimal":
        return DecimalType(kind.precision, kind.scale)
    if kind.name == "list":
        return ListType(element_id=1, element=_type(kind.fields[0].type), element_required=False)
    if kind.name == "map":
        value = _type(kind.fields[0].type)
        return MapType(key_id=1, key_type=StringType(), value_id=2, value_type=value, value_required=False)
    if kind.name == "struct":
        fields = enumerate(kind.fields, start=1)
        return StructType(*(NestedField(number, field.name, _type(field.type)) for number, field in fields))
    return _SIMPLE[kind.name]


def _text(path: Path) -> str:
    return ".".join(path)
