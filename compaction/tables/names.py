"""Names that files of days before have, and the table's columns have not: a new column of the name would take theirs.

Files have no field ids: the table's name mapping says which column a name in a file is, and keeps names that somebody
renamed or dropped. A new column of such a name takes it over, in the files of all days.

    renamed                                                       refused: its values would move to the new column
    dropped, and the new type is the same, or a wider one         none: the values of days before come back
    dropped, of another type, or of one that nobody remembers     refused: no reader could open those files any more
"""

from collections.abc import Sequence

from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import MappedField, NameMapping
from pyiceberg.types import DecimalType, IcebergType, IntegerType, ListType, LongType, StructType

Path = tuple[str, ...]


class FormerNames:
    """What names meant before. `schemas` are those that the table remembers, the newest last."""

    def __init__(self, mapping: NameMapping | None, schema: Schema, schemas: Sequence[Schema]) -> None:
        self._fields: Sequence[MappedField] = () if mapping is None else mapping.root
        self._schema = schema
        self._schemas = schemas

    def taken(self, path: Path, comes: IcebergType) -> str:
        """Say why a new column of a type must not have a name; empty when it may."""
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
    """Return the id of the column that a path means in files; None: no column has had it."""
    found = next((field for field in fields if path[0] in field.names), None)
    if found is None:
        return None
    return found.field_id if len(path) == 1 else _number(found.fields, path[1:])


def holds(comes: IcebergType, was: IcebergType) -> bool:
    """Tell whether a column of a type reads what files have of another: the same, or narrower."""
    if isinstance(comes, StructType) and isinstance(was, StructType):
        former = {field.name: field.field_type for field in was.fields}
        return all(field.name not in former or holds(field.field_type, former[field.name]) for field in comes.fields)
    if isinstance(comes, ListType) and isinstance(was, ListType):
        return holds(comes.element_type, was.element_type)
    return comes == was or is_wider(comes, was)


def is_wider(wide: IcebergType, narrow: IcebergType) -> bool:
    """Tell whether Iceberg reads files of the narrower type as the wider one."""
    if isinstance(wide, DecimalType) and isinstance(narrow, DecimalType):
        return wide.scale == narrow.scale and wide.precision > narrow.precision
    return isinstance(wide, LongType) and isinstance(narrow, IntegerType)
