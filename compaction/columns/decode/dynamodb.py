"""The step `dynamodb`: the typed attributes of a change record of a table, as plain JSON.

    {"dynamodb": {"NewImage": {"id": {"S": "1"}, "n": {"N": "1.50"}}, "Keys": ...}, "eventName": "INSERT", ...}
    {"dynamodb": {"NewImage": {"id": "1", "n": 1.50}, "Keys": ...}, "eventName": "INSERT", ...}

    S, BOOL, NULL       a string, a boolean, null
    N                   a number, with its digits as they came
    B                   its base64 text
    L, M                a list, an object
    SS, NS, BS          a list, sorted: a set has no order, and rows must not depend on one

The types are those of boto3 (boto3/dynamodb/types.py), whose own reader takes neither the B nor the BS of JSON.
"""

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple

import msgspec

from compaction.columns.decode.outcome import Outcome, undecoded
from compaction.columns.decode.rewriting import encoded, object_of
from minutebook.wording import printable

_IMAGES: Final = ("Keys", "NewImage", "OldImage")
_SHOWN: Final = 80
"""Characters of a path that an error names."""
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]{0,99})(\.[0-9]{1,200})?([eE][+-]?[0-9]{1,3})?")


class _Path(NamedTuple):
    """Where a value is. It is written out for an error alone: a name may be as long as the record."""

    outer: "_Path | None"
    name: str

    def __str__(self) -> str:
        outer, names = self.outer, [self.name]
        while outer is not None:
            names.append(outer.name)
            outer = outer.outer
        return printable("".join(name[:_SHOWN] for name in reversed(names))[:_SHOWN])  # lone surrogates, too


class _WrongError(Exception):
    """An attribute is none of DynamoDB's. Caught in this module."""


def from_dynamodb(payload: bytes) -> Outcome:
    """Return a change record with plain values in place of typed attributes."""
    document = object_of(payload, "dynamodb")
    if not isinstance(document, dict):
        return document
    change = document.get("dynamodb")
    if not isinstance(change, dict) or not isinstance(change.get("Keys"), dict):
        return undecoded("dynamodb", "not a change record of DynamoDB: it has no dynamodb.Keys")
    try:
        for name in _IMAGES:
            if change.get(name) is not None:
                change[name] = _map(change[name], _Path(None, name))
    except _WrongError as exc:
        return undecoded("dynamodb", str(exc))
    return encoded(document, "dynamodb")


def _value(attribute: object, path: _Path) -> Any:  # noqa: ANN401 - any JSON value
    if not isinstance(attribute, dict) or len(attribute) != 1:
        raise _WrongError(f"{path} is no typed attribute")
    kind, value = next(iter(attribute.items()))
    read = _READERS.get(kind)
    if read is None:
        raise _WrongError(f"{path} is of type {kind[:20]!r}, which DynamoDB does not have")
    return read(value, path)


def _map(value: object, path: _Path) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _WrongError(f"{path} is no object of attributes")
    return {name: _value(each, _Path(path, f".{name}")) for name, each in value.items()}


def _list(value: object, path: _Path) -> list[Any]:
    if not isinstance(value, list):
        raise _WrongError(f"{path} is no list of attributes")
    inner = _Path(path, "[]")
    return [_value(each, inner) for each in value]


def _string(value: object, path: _Path) -> str:
    if not isinstance(value, str):
        raise _WrongError(f"{path} is no string")
    return value


def _flag(value: object, path: _Path) -> bool:
    if not isinstance(value, bool):
        raise _WrongError(f"{path} is no boolean")
    return value


def _null(value: object, path: _Path) -> None:
    if value is not True:
        raise _WrongError(f"{path} is no NULL of DynamoDB")


def _number(value: object, path: _Path) -> msgspec.Raw:
    text = _string(value, path)
    if _NUMBER.fullmatch(text) is None:
        raise _WrongError(f"{path} is no number")
    return msgspec.Raw(text.encode())


def _strings(value: object, path: _Path) -> list[str]:
    if not isinstance(value, list):
        raise _WrongError(f"{path} is no set")
    return sorted(_string(each, path) for each in value)


def _numbers(value: object, path: _Path) -> list[msgspec.Raw]:
    texts = sorted(_strings(value, path))
    numbers = [(_number(text, path), text) for text in texts]
    return [number for number, _ in sorted(numbers, key=lambda each: Decimal(each[1]))]


_READERS: Final[Mapping[str, Callable[[object, _Path], Any]]] = {
    "S": _string,
    "N": _number,
    "B": _string,
    "BOOL": _flag,
    "NULL": _null,
    "L": _list,
    "M": _map,
    "SS": _strings,
    "NS": _numbers,
    "BS": _strings,
}
