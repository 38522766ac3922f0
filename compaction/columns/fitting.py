"""Values into a column, whatever they are: what fits becomes an array, and each value that does not gets its reason.

The judge is `arrays.build` alone, over whole columns. Where it refuses one, it is asked again without the values of a
wrong type, and then for parts of it: in these the values that look wrong (`quick_check`) are judged one by one, and
what is left by halves until each that does not fit is known. Four thousand good values therefore cost one call.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import cache
from typing import Any, Final, NamedTuple

import pyarrow as pa

from compaction.columns.arrays import PLAIN_DECIMAL, allowed, build, is_rounded
from compaction.columns.misfits import Ambiguous, Misfit, NotANumber, shown
from compaction.columns.types import ColumnType

_TOGETHER: Final = 256
_REFUSALS: Final = (ValueError, ArithmeticError)
_INTEGERS: Final = frozenset({"int32", "int64"})


class Fitted(NamedTuple):
    """An array, null where a value does not fit, and why, by its number."""

    array: pa.Array
    misfits: dict[int, Misfit]


def fit(kind: ColumnType, values: Sequence[Any]) -> Fitted:
    """Return values (None: null) as a column of a type. Never raises for a value of JSON."""
    try:
        return Fitted(build(kind, values), {})
    except _REFUSALS:
        kept = list(values)
    misfits = _of_wrong_types(kind, kept)
    if misfits:
        try:
            return Fitted(build(kind, kept), misfits)
        except _REFUSALS:
            pass  # others are of a right type, and do not fit
    for begin in range(0, len(kept), _TOGETHER):
        part = range(begin, min(begin + _TOGETHER, len(kept)))
        if not _fits(kind, kept[part.start : part.stop]):
            for number in part:
                if kept[number] is not None and not quick_check(kind, kept[number]):
                    _judge(kind, kept, misfits, (number, number + 1))
            _judge(kind, kept, misfits, (part.start, part.stop))
    return Fitted(build(kind, kept), misfits)


def _of_wrong_types(kind: ColumnType, kept: list[Any]) -> dict[int, Misfit]:
    """Replace the values whose Python type is wrong by None, and say why."""
    right = allowed(kind) | {type(None)}
    misfits = {}
    for number in [number for number, found in enumerate(map(type, kept)) if found not in right]:
        if (why := _by_type(kind, kept[number])) is not None:
            misfits[number], kept[number] = why, None
    return misfits


def quick_check(kind: ColumnType, value: Any) -> bool:  # noqa: ANN401 - any JSON value
    """Guess whether a value of a right Python type fits. It only decides which values are judged one by one.

    A wrong yes costs a search by halves, two dozen calls of Arrow; a wrong no costs one call.
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


def _judge(kind: ColumnType, kept: list[Any], misfits: dict[int, Misfit], part: tuple[int, int]) -> None:
    """Replace the values in the part [begin, end) that `build` refuses by None, and say why."""
    begin, end = part
    try:
        build(kind, kept[begin:end])
    except _REFUSALS:
        if end - begin == 1:
            misfits[begin] = _explain(kind, kept[begin])
            kept[begin] = None
            return
        middle = (begin + end) // 2
        _judge(kind, kept, misfits, (begin, middle))
        _judge(kind, kept, misfits, (middle, end))


def _by_type(kind: ColumnType, value: object) -> Misfit | None:
    """Judge a value by its Python type; None: it may fit."""
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
    """Say why one value of a right Python type was refused."""
    if kind.name in _EXPLAINED and (misfit := _EXPLAINED[kind.name](kind, value)) is not None:
        return misfit
    if isinstance(value, int):
        return Misfit("out_of_range", f"{shown(value)} is out of the range of {kind.text}")
    if isinstance(value, str) and not _is_unicode(value):
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
    """Find the first element that does not fit by halves: a list may be as long as a payload."""
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
    """Say why one value within another does not fit; None: it does."""
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
    """Tell a number with too many digits from a text that is no number."""
    if isinstance(value, str) and PLAIN_DECIMAL.fullmatch(value) is None:
        return Misfit("invalid", f"{shown(value)} is not {kind.text}")
    number = Decimal(value)
    digits, exponent = number.as_tuple().digits, number.as_tuple().exponent
    zeros = len(digits) - len("".join(map(str, digits)).rstrip("0"))
    behind = -(int(exponent) + zeros)
    if number.adjusted() < kind.precision - kind.scale and behind > kind.scale:
        return Misfit("lossy", f"{shown(value)} has more than {kind.scale} digits behind the point")
    return Misfit("out_of_range", f"{shown(value)} is out of the range of {kind.text}")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


_EXPLAINED: Final[dict[str, Callable[[ColumnType, Any], Misfit | None]]] = {
    "struct": _in_struct,
    "list": _in_list,
    "json": _not_json,
    "decimal": _not_a_decimal,
    "float64": _not_a_double,
}
