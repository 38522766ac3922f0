"""Values into a column, whatever they are: what fits becomes an array, and each value that does not gets its reason.

The judge is `arrays.build` alone, over whole columns. Where it refuses one, it is asked again without the values of a
wrong type, and then for parts of it; in these the values that look wrong are judged one by one, and if it still
refuses, halves of a part until each that does not fit is found. Four thousand good values therefore cost one call.
"""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

import pyarrow as pa

from compaction.typed.arrays import PLAIN_DECIMAL, allowed, build
from compaction.typed.likely import likely
from compaction.typed.misfits import Ambiguous, Misfit, NotANumber, shown
from compaction.typed.types import ColumnType

_REFUSALS: Final = (ValueError, ArithmeticError)
_TOGETHER: Final = 256
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
    parts: list[pa.Array] = []
    for begin in range(0, len(kept), _TOGETHER):
        end = min(begin + _TOGETHER, len(kept))
        try:
            parts.append(build(kind, kept[begin:end]))
        except _REFUSALS:
            _search(kind, kept, misfits, (begin, end))
            parts.append(build(kind, kept[begin:end]))
    return Fitted(pa.concat_arrays(parts), misfits)


def _of_wrong_types(kind: ColumnType, kept: list[Any]) -> dict[int, Misfit]:
    """Replace the values whose Python type is wrong by None, and say why."""
    right = allowed(kind) | {type(None)}
    misfits = {}
    for number in [number for number, found in enumerate(map(type, kept)) if found not in right]:
        if (why := _by_type(kind, kept[number])) is not None:
            misfits[number], kept[number] = why, None
    return misfits


def _search(kind: ColumnType, kept: list[Any], misfits: dict[int, Misfit], part: tuple[int, int]) -> None:
    """Judge the values in a part [begin, end) that look wrong, one by one, and then what is left of it together."""
    for number in range(*part):
        value = kept[number]
        if value is None or likely(kind, value):
            continue
        if (why := _by_type(kind, value)) is None:
            _judge(kind, kept, misfits, (number, number + 1))
        else:
            misfits[number], kept[number] = why, None
    _judge(kind, kept, misfits, part)


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
        is_lossy = isinstance(value, int) and abs(float(value)) != float("inf")
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
