"""Build a column from any JSON values: null and a reason for each value that does not fit.

Only `arrays.build` decides, on whole columns: four thousand good values cost one call. If it rejects a column, values
of a wrong Python type are removed first. Then, in parts of 256 rows, values that look wrong (`quick_check`) are tried
one by one, and the rest by bisection.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import cache
from typing import Any, Final, NamedTuple

import pyarrow as pa

from compaction.columns.arrays import PLAIN_DECIMAL, allowed, build, is_rounded
from compaction.columns.misfits import Ambiguous, Misfit, NotANumber, is_unicode, shown
from compaction.columns.types import ColumnType

_TOGETHER: Final = 256
_REFUSALS: Final = (ValueError, ArithmeticError)
_INTEGERS: Final = frozenset({"int32", "int64"})


class Fitted(NamedTuple):
    """An array, null where a value does not fit, and the reasons by row."""

    array: pa.Array
    misfits: dict[int, Misfit]


def fit(kind: ColumnType, values: Sequence[Any]) -> Fitted:
    """Return values (None: null) as a column; never raises for JSON values."""
    try:
        return Fitted(build(kind, values), {})
    except _REFUSALS:
        remaining = list(values)
    misfits = _of_wrong_types(kind, remaining)
    if misfits:
        try:
            return Fitted(build(kind, remaining), misfits)
        except _REFUSALS:
            pass  # other values have a right type and still do not fit
    for begin in range(0, len(remaining), _TOGETHER):
        part = range(begin, min(begin + _TOGETHER, len(remaining)))
        if not _fits(kind, remaining[part.start : part.stop]):
            for number in part:
                if remaining[number] is not None and not quick_check(kind, remaining[number]):
                    _judge(kind, remaining, misfits, (number, number + 1))
            _judge(kind, remaining, misfits, (part.start, part.stop))
    return Fitted(build(kind, remaining), misfits)


def _of_wrong_types(kind: ColumnType, remaining: list[Any]) -> dict[int, Misfit]:
    """Replace values of a wrong Python type with None; return the reasons by row."""
    right = allowed(kind) | {type(None)}
    misfits = {}
    for number in [number for number, of in enumerate(map(type, remaining)) if of not in right]:
        if (why := _by_type(kind, remaining[number])) is not None:
            misfits[number], remaining[number] = why, None
    return misfits


def quick_check(kind: ColumnType, value: Any) -> bool:  # noqa: ANN401 - any JSON value
    """Guess whether a value of a right Python type fits, to choose the values that are tried one by one.

    A wrong yes costs a bisection (two dozen Arrow calls), a wrong no one call.
    """
    pattern = _decimal_pattern(kind) if kind.name == "decimal" else _PATTERNS.get(kind.text)
    if pattern is not None:
        return pattern.fullmatch(str(value)) is not None
    limit = _LIMITS.get(kind.name)
    return limit is None or type(value) is not int or -limit <= value < limit


_DATE: Final = r"(?!0000)[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])"
_TIME: Final = r"[T ]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?"
_PATTERNS: Final = {
    "date": re.compile(_DATE),
    "timestamp": re.compile(_DATE + _TIME + r"(Z|[+-]([01][0-9]|2[0-3]):?[0-5][0-9])"),
    "local_timestamp": re.compile(_DATE + _TIME),
}
_LIMITS: Final = {"int32": 1 << 31, "int64": 1 << 63, "float64": 1 << 53}


@cache
def _decimal_pattern(kind: ColumnType) -> re.Pattern[str]:
    whole = max(1, kind.precision - kind.scale)
    return re.compile(rf"-?[0-9]{{1,{whole}}}" + (rf"(\.[0-9]{{1,{kind.scale}}})?" if kind.scale else ""))


def _judge(kind: ColumnType, remaining: list[Any], misfits: dict[int, Misfit], part: tuple[int, int]) -> None:
    """Replace the values in [begin, end) that `build` rejects with None, and record the reasons."""
    begin, end = part
    try:
        build(kind, remaining[begin:end])
    except _REFUSALS:
        if end - begin == 1:
            misfits[begin] = _explain(kind, remaining[begin])
            remaining[begin] = None
            return
        middle = (begin + end) // 2
        _judge(kind, remaining, misfits, (begin, middle))
        _judge(kind, remaining, misfits, (middle, end))


def _by_type(kind: ColumnType, value: object) -> Misfit | None:
    """Return why a value's Python type does not fit; None: it may fit."""
    if type(value) in allowed(kind):
        return None
    if isinstance(value, Ambiguous):
        return Misfit("duplicate_key", "the key is there several times")
    if isinstance(value, NotANumber):
        return Misfit("not_a_number", f"{value.text[:20]} is not a JSON number")
    if kind.name in _INTEGERS and isinstance(value, Decimal) and value.as_tuple().exponent == 0:
        return Misfit("out_of_range", f"{shown(value)} is out of the range of {kind.name}")
    return Misfit("wrong_type", f"{shown(value)} is not {kind.text}")


def _explain(kind: ColumnType, value: Any) -> Misfit:  # noqa: ANN401 - any JSON value
    """Return why a value of a right Python type was rejected."""
    if kind.name in _EXPLAINED and (misfit := _EXPLAINED[kind.name](kind, value)) is not None:
        return misfit
    if isinstance(value, int):
        return Misfit("out_of_range", f"{shown(value)} is out of the range of {kind.text}")
    if isinstance(value, str) and not is_unicode(value):
        return Misfit("invalid", f"{shown(value)} is not valid Unicode")
    return Misfit("invalid", f"{shown(value)} is not {kind.text}")


def _in_struct(kind: ColumnType, value: Mapping[str, Any]) -> Misfit | None:
    for field in kind.fields:
        inner = value.get(field.name)
        if inner is None and field.required:
            return Misfit("missing", "missing or null, and required", f".{field.name}")
        if inner is not None and (why := _why(field.type, inner)) is not None:
            return why.below(f".{field.name}")
    return None


def _in_list(kind: ColumnType, value: Sequence[Any]) -> Misfit | None:
    """Find the first element that does not fit by bisection: a list may be as long as a payload."""
    element, low, high = kind.fields[0], 0, len(value)
    if element.required and None in value:
        return Misfit("missing", "null, and required", f"[{value.index(None)}]")
    while high - low > 1:
        middle = (low + high) // 2
        if _fits(element.type, value[low:middle]):
            low = middle
        else:
            high = middle
    why = None if low == len(value) or value[low] is None else _why(element.type, value[low])
    return None if why is None else why.below(f"[{low}]")


def _why(kind: ColumnType, value: object) -> Misfit | None:
    """Return why a value inside another does not fit; None: it fits."""
    if (why := _by_type(kind, value)) is not None or _fits(kind, [value]):
        return why
    return _explain(kind, value)


def _fits(kind: ColumnType, values: Sequence[Any]) -> bool:
    try:
        build(kind, values)
    except _REFUSALS:
        return False
    return True


def _not_json(_: ColumnType, value: object) -> Misfit:
    return Misfit("invalid", f"{shown(value)} cannot be written as JSON")


def _not_a_double(_: ColumnType, value: float | Decimal) -> Misfit:
    try:
        is_lossy = is_rounded(value) and abs(float(value)) != float("inf")
    except OverflowError:
        is_lossy = False
    if is_lossy:
        return Misfit("lossy", f"{shown(value)} would lose digits as float64")
    return Misfit("out_of_range", f"{shown(value)} is out of the range of float64")


def _not_a_decimal(kind: ColumnType, value: str | float | Decimal) -> Misfit:
    """Distinguish too many digits from text that is not a number."""
    if isinstance(value, str) and PLAIN_DECIMAL.fullmatch(value) is None:
        return Misfit("invalid", f"{shown(value)} is not {kind.text}")
    number = Decimal(value)
    digits, exponent = number.as_tuple().digits, number.as_tuple().exponent
    zeros = len(digits) - len("".join(map(str, digits)).rstrip("0"))
    behind = -(int(exponent) + zeros)
    if number.adjusted() < kind.precision - kind.scale and behind > kind.scale:
        return Misfit("lossy", f"{shown(value)} has more than {kind.scale} digits behind the point")
    return Misfit("out_of_range", f"{shown(value)} is out of the range of {kind.text}")


_EXPLAINED: Final[dict[str, Callable[[ColumnType, Any], Misfit | None]]] = {
    "struct": _in_struct,
    "list": _in_list,
    "json": _not_json,
    "decimal": _not_a_decimal,
    "float64": _not_a_double,
}
