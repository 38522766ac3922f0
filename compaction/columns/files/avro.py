"""An Avro schema as columns: one for each field of its record. The payloads are JSON all the same.

boolean, int, long, string, enum, fixed, bytes   bool, int32, int64, string
float, double                                    float64
decimal(p, s), date, timestamp-millis and -micros, local-timestamp-*      as they say
record, array, map                               struct, list, json
["null", X]                                      X, which may be null; any other union: json
"""

from collections.abc import Mapping
from typing import Any, Final

from compaction.columns.columns import Column, quoted
from compaction.columns.types import MAX_PRECISION, ColumnType, Field
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
    ("long", "local-timestamp-millis"): ColumnType("local_timestamp", how="ms"),
    ("long", "local-timestamp-micros"): ColumnType("local_timestamp", how="us"),
}
_JSON: Final = ColumnType("json")
_MAX_DEPTH: Final = 20

Named = dict[str, Mapping[str, Any]]


def columns_of_record(document: Mapping[str, Any]) -> list[Column]:
    """Return the columns of a record's fields.

    Raises:
        SettingsError: it is no Avro schema, or nests too deeply.
    """
    return [Column(each.name, quoted(each.name), each.type, each.required) for each in _fields(document, {}, 0)]


def _fields(record: Mapping[str, Any], named: Named, depth: int) -> list[Field]:
    name, said = record.get("name"), record.get("fields")
    if not isinstance(said, list) or not all(isinstance(each, dict) and "name" in each for each in said):
        raise SettingsError(f"the Avro record {name!r} has no fields with names")
    if isinstance(name, str):
        named[name] = record
    found = []
    for each in said:
        kind, nullable = _type(each.get("type"), named, depth + 1)
        found.append(Field(str(each["name"]), kind, not nullable and "default" not in each))
    return found


def _type(said: object, named: Named, depth: int) -> tuple[ColumnType, bool]:
    """Return a type, and whether it takes null."""
    if depth > _MAX_DEPTH:
        raise SettingsError(f"the Avro schema nests deeper than {_MAX_DEPTH}", next_step="write it flatter")
    if isinstance(said, list):
        others = [each for each in said if each != "null"]
        if len(others) != 1:
            return _JSON, "null" in said
        return _type(others[0], named, depth + 1)[0], "null" in said
    if isinstance(said, str):
        if said not in _SIMPLE and said in named:
            return _type(named[said], named, depth + 1)
        if said not in _SIMPLE:
            raise SettingsError(f"{said!r} is not a type of Avro, nor named before", next_step="correct the schema")
        return _SIMPLE[said], False
    if not isinstance(said, dict):
        raise SettingsError("a field of the Avro schema has no type", next_step="correct the schema")
    return _complex(said, named, depth), False


def _complex(said: Mapping[str, Any], named: Named, depth: int) -> ColumnType:
    kind, logical = said.get("type"), said.get("logicalType")
    if isinstance(said.get("name"), str):
        named[said["name"]] = said
    if kind in {"bytes", "fixed"} and logical == "decimal":
        precision, scale = said.get("precision"), said.get("scale", 0)
        if isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision <= MAX_PRECISION:
            return ColumnType("decimal", precision, scale)
        raise SettingsError(f"a decimal of {precision} digits, {scale} behind the point", next_step="at most 38")
    if isinstance(kind, str) and (kind, logical) in _LOGICAL:
        return _LOGICAL[kind, str(logical)]
    if kind == "record":
        return ColumnType("struct", fields=tuple(_fields(said, named, depth)))
    if kind == "array":
        element, nullable = _type(said.get("items"), named, depth + 1)
        return ColumnType("list", fields=(Field("element", element, not nullable),))
    if kind == "map":
        return _JSON
    return _type(kind, named, depth + 1)[0]
