"""Make columns from a JSON Schema, one for each property of its object.

    string                       string; format date: date; format date-time: timestamp (with a zone)
    integer, number, boolean     int64, float64, bool
    array with items             list; object with properties: struct
    anything else                json: several types, maps, oneOf, no type

`required` and null are respected; other constraints (patterns, enumerations, ranges) are not checked.
"""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from compaction.columns.columns import Column, quoted
from compaction.columns.types import ColumnType, Field, may_be_fields
from minutebook.errors import SettingsError

_JSON: Final = ColumnType("json")
_SIMPLE: Final = {
    "string": ColumnType("string"),
    "integer": ColumnType("int64"),
    "number": ColumnType("float64"),
    "boolean": ColumnType("bool"),
}
_FORMATS: Final = {"date": ColumnType("date"), "date-time": ColumnType("timestamp")}
_MAX_DEPTH: Final = 20
_MAX_TYPES: Final = 100_000
"""Of a schema, with what its references stand for: each may stand for several that refer again."""

Schema = Mapping[str, Any]


class _Source(NamedTuple):
    """The whole schema; `made` counts the types that were made of it."""

    document: Schema
    made: Iterator[int]


def columns_of_schema(document: Schema) -> list[Column]:
    """Return the columns of a schema's properties; raise SettingsError without properties or for a bad reference."""
    source = _Source(document, itertools.count(1))
    top = _resolved(document, document, 0)
    properties = top.get("properties")
    if not isinstance(properties, dict):
        raise SettingsError("the JSON Schema describes no object: it has no properties")
    required = _required(top)
    columns = []
    for name, schema in properties.items():
        kind, nullable = _type(source, schema, 1)
        columns.append(Column(name, quoted(name), kind, name in required and not nullable))
    return columns


def count_type(made: Iterator[int], schema: str) -> None:
    """Count a type that a schema makes; raise SettingsError if these are too many."""
    if next(made) > _MAX_TYPES:
        raise SettingsError(
            f"the {schema} makes more than {_MAX_TYPES:,} types", next_step="refer to fewer, or write it flatter"
        )


def _type(source: _Source, schema: object, depth: int) -> tuple[ColumnType, bool]:
    """Return the type of a schema, and whether it is nullable."""
    count_type(source.made, "JSON Schema")
    schema = _resolved(source.document, schema, depth)
    choices = schema.get("anyOf", schema.get("oneOf"))
    if isinstance(choices, list):
        others = [choice for choice in choices if not (isinstance(choice, dict) and choice.get("type") == "null")]
        is_one = len(others) == 1 and len(others) < len(choices)
        return (_type(source, others[0], depth + 1)[0] if is_one else _JSON), True
    nullable, names = _names(schema)
    if len(names) != 1:
        return _JSON, nullable or not names
    return _type_of_one(source, schema, names[0], depth), nullable


def _type_of_one(source: _Source, schema: Schema, name: str, depth: int) -> ColumnType:
    text = schema.get("format")
    if name == "string" and isinstance(text, str) and text in _FORMATS:
        return _FORMATS[text]
    if name == "array" and isinstance(schema.get("items"), dict):
        element, may_be_null = _type(source, schema["items"], depth + 1)
        return ColumnType("list", fields=(Field("element", element, not may_be_null),))
    if name == "object" and isinstance(schema.get("properties"), dict):
        return _struct(source, schema, depth)
    return _SIMPLE.get(name, _JSON)


def _struct(source: _Source, schema: Schema, depth: int) -> ColumnType:
    properties, required = schema["properties"], _required(schema)
    if not may_be_fields(properties):
        return _JSON
    fields = []
    for name, inner in properties.items():
        kind, nullable = _type(source, inner, depth + 1)
        fields.append(Field(name, kind, name in required and not nullable))
    return ColumnType("struct", fields=tuple(fields))


def _names(schema: Schema) -> tuple[bool, list[str]]:
    types = schema.get("type", [])
    choices = types if isinstance(types, list) else [types]
    names = [name for name in choices if isinstance(name, str)]
    return "null" in names, [name for name in names if name != "null"]


def _required(schema: Schema) -> frozenset[str]:
    names = schema.get("required")
    return frozenset(name for name in names if isinstance(name, str)) if isinstance(names, list) else frozenset()


def _resolved(document: Schema, schema: object, depth: int) -> Schema:
    """Follow references within the file; reject others."""
    for _ in range(_MAX_DEPTH):
        if depth > _MAX_DEPTH:
            break
        if not isinstance(schema, dict):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        if not reference.startswith("#/"):
            raise SettingsError(f"$ref {reference[:80]!r} is not within the file", next_step="put it under $defs")
        schema = document
        for step in reference[2:].split("/"):
            schema = schema.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(schema, dict) else None
        if schema is None:
            raise SettingsError(f"$ref {reference[:80]!r} names nothing", next_step="correct it")
    raise SettingsError(f"the JSON Schema refers or nests more than {_MAX_DEPTH} deep", next_step="write it flatter")
