"""Propose columns for a sample of payloads. Pure.

A type is proposed if every value of the sample fits it, by the check that a run uses (`arrays.build`). No column is
proposed as required: a sample cannot show that a field is never missing.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from compaction.columns.arrays import build
from compaction.columns.columns import MAX_COLUMNS, Column, quoted
from compaction.columns.types import ColumnType, Field, is_name

_TEXTS: Final = ("date", "timestamp", "local_timestamp", "string")
_OTHERS: Final = {bool: ("bool",), int: ("int64", "float64"), float: ("float64",), str: _TEXTS}
_JSON: Final = ColumnType("json")
_MOST_FIELDS: Final = 100
_MAX_DEPTH: Final = 5


class Proposal(NamedTuple):
    """Columns for a sample of `rows` objects, and the number of values of each."""

    rows: int
    columns: tuple[Column, ...]
    values: tuple[int, ...]

    def toml(self) -> str:
        """Return the columns as a TOML file."""
        lines = [f"# Proposed from {self.rows:,} payloads. Read it: a sample does not know what comes tomorrow."]
        for column, values in zip(self.columns, self.values, strict=True):
            name = column.name if column.name.isascii() else json.dumps(column.name, ensure_ascii=False)
            lines += ["", f"[columns.{name}]  # in {values:,} of {self.rows:,}"]
            if column.path != quoted(column.name):
                lines.append(f"path = {_text(column.path)}")
            lines.append(f"type = {_text(column.type.text)}")
        return "\n".join(lines) + "\n"


def propose(documents: Sequence[Mapping[str, Any]], envelope: Sequence[str]) -> Proposal:
    """Return columns for the keys of objects; names of the envelope get the prefix `payload_`."""
    taken = {name.lower() for name in (*envelope, "dt", "_unfit")}
    columns, counts = [], []
    for key in list(dict.fromkeys(key for document in documents for key in document))[:MAX_COLUMNS]:
        values = [value for document in documents if (value := document.get(key)) is not None]
        name = next(name for name in _names(key) if name.lower() not in taken)
        taken.add(name.lower())
        columns.append(Column(name, quoted(key), _type(values, 1)))
        counts.append(len(values))
    return Proposal(len(documents), tuple(columns), tuple(counts))


def _names(key: str) -> Iterator[str]:
    plain = re.sub(r"\W", "_", key)[:100]
    name = plain if is_name(plain) else f"c_{plain}"
    yield name
    yield f"payload_{name}"
    for number in range(2, 2 + MAX_COLUMNS):
        yield f"{name}_{number}"


def _type(values: Sequence[Any], depth: int) -> ColumnType:
    types = set(map(type, values))
    if types == {dict} and depth < _MAX_DEPTH:
        return _struct(values, depth)
    if types == {list} and depth < _MAX_DEPTH:
        inner = [element for value in values for element in value if element is not None]
        return ColumnType("list", fields=(Field("element", _type(inner, depth + 1)),))
    names = _OTHERS[types.pop()] if len(types) == 1 and types <= _OTHERS.keys() else ()
    if types == {int, float}:
        names = ("float64",)
    for name in names:
        kind = ColumnType(name)
        try:
            build(kind, values)
        except (ValueError, ArithmeticError):
            continue
        return kind
    return _JSON


def _struct(values: Sequence[Mapping[str, Any]], depth: int) -> ColumnType:
    keys = list(dict.fromkeys(key for value in values for key in value))
    is_plain = 0 < len(keys) <= _MOST_FIELDS and all(map(is_name, keys)) and len({*map(str.lower, keys)}) == len(keys)
    if not is_plain:
        return _JSON
    return ColumnType(
        "struct",
        fields=tuple(
            Field(key, _type([inner for value in values if (inner := value.get(key)) is not None], depth + 1))
            for key in keys
        ),
    )


def _text(value: str) -> str:
    """Return a TOML string, as a literal if that avoids escapes."""
    if '"' in value and "'" not in value and value.isprintable():
        return f"'{value}'"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
