"""A guess, made quickly, whether one value fits: it only decides which values are judged one by one.

A wrong yes costs a search by halves, a wrong no one call more; the judge is `arrays.build` in either case. Without it
a misfit in a column of a block costs two dozen calls of Arrow.
"""

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from compaction.typed.arrays import allowed
from compaction.typed.types import ColumnType

_DATE: Final = r"(?!0000)[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])"
_TIME: Final = r"[T ]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?"
_ISO: Final = {
    "date": re.compile(_DATE),
    "timestamp": re.compile(_DATE + _TIME + r"(Z|[+-]([01][0-9]|2[0-3]):?[0-5][0-9])"),
    "local_timestamp": re.compile(_DATE + _TIME),
}
_LIMITS: Final = {"int32": 1 << 31, "int64": 1 << 63, "float64": 1 << 53}


def likely(kind: ColumnType, value: Any) -> bool:  # noqa: ANN401 - any JSON value
    """Guess whether a value, which is not None, fits."""
    return type(value) in allowed(kind) and _GUESSES.get(kind.name, _yes)(kind, value)


def _yes(_: ColumnType, value: object) -> bool:
    del value
    return True


def _text(_: ColumnType, value: str) -> bool:
    return value.isascii()


def _number(kind: ColumnType, value: float) -> bool:
    limit = _LIMITS[kind.name]
    return type(value) is float or (type(value) is int and -limit <= value < limit)


def _decimal(kind: ColumnType, value: object) -> bool:
    return _digits(kind.precision - kind.scale, kind.scale).fullmatch(str(value)) is not None


@functools.cache
def _digits(before: int, behind: int) -> re.Pattern[str]:
    fraction = rf"(\.[0-9]{{1,{behind}}})?" if behind else ""
    return re.compile(rf"-?[0-9]{{1,{max(1, before)}}}{fraction}")


def _when(kind: ColumnType, value: object) -> bool:
    return bool(kind.how) or (isinstance(value, str) and _ISO[kind.name].fullmatch(value) is not None)


def _struct(kind: ColumnType, value: Mapping[str, Any]) -> bool:
    return all(
        not field.required if (inner := value.get(field.name)) is None else likely(field.type, inner)
        for field in kind.fields
    )


def _list(kind: ColumnType, value: Sequence[Any]) -> bool:
    element = kind.fields[0]
    return all(not element.required if inner is None else likely(element.type, inner) for inner in value)


_GUESSES: Final[dict[str, Callable[[ColumnType, Any], bool]]] = {
    "string": _text,
    "int32": _number,
    "int64": _number,
    "float64": _number,
    "decimal": _decimal,
    **dict.fromkeys(_ISO, _when),
    "struct": _struct,
    "list": _list,
}
