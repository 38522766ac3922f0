"""The type that holds the values of two columns of one name. Pure."""

from typing import Final

from compaction.columns.types import ColumnType

_ALIKE: Final = ("json", "string")


def wider(one: ColumnType, other: ColumnType) -> ColumnType | None:
    """Return a type whose columns hold the values of both; None: there is none.

    Of a struct that is one with the fields of both. How values are read (format, zone) is no part of what is stored.
    """
    if one.name != other.name:
        names = {one.name, other.name}
        if names == {"int32", "int64"}:
            return ColumnType("int64")
        return ColumnType("string") if names == {*_ALIKE} else None
    if one.name == "decimal":
        return max(one, other) if one.scale == other.scale else None
    if one.name == "struct":
        return _wider_struct(one, other)
    if one.fields:  # of a list, or a map
        inner = wider(one.fields[0].type, other.fields[0].type)
        return None if inner is None else one._replace(fields=(one.fields[0]._replace(type=inner),))
    return one


def _wider_struct(one: ColumnType, other: ColumnType) -> ColumnType | None:
    fields = {field.name: field for field in one.fields}
    lower = {name.lower() for name in fields}
    for field in other.fields:
        if (known := fields.get(field.name)) is None:
            if field.name.lower() in lower:
                return None  # engines do not tell A from a
            fields[field.name] = field
            continue
        inner = wider(known.type, field.type)
        if inner is None:
            return None
        fields[field.name] = known._replace(type=inner)
    return one._replace(fields=tuple(fields.values()))
