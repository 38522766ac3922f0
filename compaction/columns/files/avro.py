"""Make columns from an Avro schema, one for each field of its record. Payloads are JSON nevertheless.

boolean, int, long, string, enum, fixed, bytes   bool, int32, int64, string
float, double                                    float64
decimal(p, s), date, timestamp-millis, -micros, -nanos, local-timestamp-*      the same
record, array, map                               struct, list, json; a record that no struct can be: json
["null", X]                                      nullable X; any other union: json
"""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from compaction.columns.columns import Column, quoted
from compaction.columns.files.json_schema import count_type
from compaction.columns.types import MAX_PRECISION, ColumnType, Field, may_be_fields
from minutebook.errors import SettingsError

_SIMPLE: Final = {
    "boolean": ColumnType("bool"),
    "int": ColumnType("int32"),
    "long": ColumnType("int64"),
    "float": ColumnType("float64"),
    "double": ColumnType("float64"),
    "string": ColumnType("string"),
    "bytes": ColumnType("string"),
    "fixed": ColumnType("string"),
    "enum": ColumnType("string"),
}
_LOGICAL: Final = {
    ("int", "date"): ColumnType("date", how="days"),
    ("long", "timestamp-millis"): ColumnType("timestamp", how="ms"),
    ("long", "timestamp-micros"): ColumnType("timestamp", how="us"),
    ("long", "timestamp-nanos"): ColumnType("timestamp", how="ns"),
    ("long", "local-timestamp-millis"): ColumnType("local_timestamp", how="ms"),
    ("long", "local-timestamp-micros"): ColumnType("local_timestamp", how="us"),
    ("long", "local-timestamp-nanos"): ColumnType("local_timestamp", how="ns"),
}
_JSON: Final = ColumnType("json")
_MAX_DEPTH: Final = 20


class _Names(NamedTuple):
    """The named schemas so far, by full name, with the names that hold within each; `space` is the namespace here.

    `made` counts the types that were made.
    """

    known: dict[str, tuple[Mapping[str, Any], "_Names"]]
    made: Iterator[int]
    space: str = ""

    def full(self, name: str) -> str:
        """Return the full name of a name: one with dots is full, any other lies in the namespace around it."""
        return name if "." in name or not self.space else f"{self.space}.{name}"

    def within(self, schema: Mapping[str, Any]) -> "_Names":
        """Learn the name of a schema, if it has one; return the names that hold within it."""
        name, space = schema.get("name"), schema.get("namespace")
        if not isinstance(name, str):
            return self
        full = (self._replace(space=space) if isinstance(space, str) else self).full(name)
        inner = self._replace(space=full.rpartition(".")[0])
        self.known[full] = (schema, inner)
        return inner


def columns_of_record(document: Mapping[str, Any]) -> list[Column]:
    """Return the columns of a record's fields; raise SettingsError for an invalid or too deep schema."""
    fields = _fields(document, _Names({}, itertools.count(1)).within(document), 0)
    return [Column(field.name, quoted(field.name), field.type, field.required) for field in fields]


def _fields(record: Mapping[str, Any], names: _Names, depth: int) -> list[Field]:
    name, schemas = record.get("name"), record.get("fields")
    if not isinstance(schemas, list) or not all(isinstance(field, dict) and "name" in field for field in schemas):
        raise SettingsError(f"the Avro record {name!r} has no fields with names")
    fields = []
    for field in schemas:
        kind, nullable = _type(field.get("type"), names, depth + 1)
        fields.append(Field(str(field["name"]), kind, not nullable and "default" not in field))
    return fields


def _type(schema: object, names: _Names, depth: int) -> tuple[ColumnType, bool]:
    """Return a type, and whether it is nullable."""
    if depth > _MAX_DEPTH:
        raise SettingsError(f"the Avro schema nests deeper than {_MAX_DEPTH}", next_step="write it flatter")
    count_type(names.made, "Avro schema")
    if isinstance(schema, list):
        others = [branch for branch in schema if branch != "null"]
        if len(others) != 1:
            return _JSON, "null" in schema
        return _type(others[0], names, depth + 1)[0], "null" in schema
    if isinstance(schema, str):
        if schema in _SIMPLE:
            return _SIMPLE[schema], False
        named = names.known.get(names.full(schema))
        if named is None:
            raise SettingsError(f"{schema!r} is not a type of Avro, nor named before", next_step="correct the schema")
        return _type(*named, depth + 1)
    if not isinstance(schema, dict):
        raise SettingsError("a field of the Avro schema has no type", next_step="correct the schema")
    if not isinstance(schema.get("type"), str):  # a type within the type
        return _type(schema.get("type"), names.within(schema), depth + 1)
    return _complex(schema, names.within(schema), depth), False


def _complex(schema: Mapping[str, Any], names: _Names, depth: int) -> ColumnType:
    kind, logical = schema["type"], schema.get("logicalType")
    if kind in {"bytes", "fixed"} and logical == "decimal":
        given = schema.get("precision"), schema.get("scale", 0)
        precision, scale = (number if type(number) is int else -1 for number in given)  # true is an int of Python's
        if 1 <= precision <= MAX_PRECISION and 0 <= scale <= precision:
            return ColumnType("decimal", precision, scale)
        raise SettingsError(f"a decimal of {given[0]} digits, {given[1]} behind the point", next_step="1 to 38")
    if isinstance(logical, str) and (kind, logical) in _LOGICAL:
        return _LOGICAL[kind, logical]
    if kind == "record":
        fields = tuple(_fields(schema, names, depth))
        return ColumnType("struct", fields=fields) if may_be_fields([field.name for field in fields]) else _JSON
    if kind == "array":
        element, nullable = _type(schema.get("items"), names, depth + 1)
        return ColumnType("list", fields=(Field("element", element, not nullable),))
    if kind == "map":
        return _JSON
    return _type(kind, names, depth + 1)[0]
