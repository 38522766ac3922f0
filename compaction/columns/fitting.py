"""Build a column from any JSON values: null and a reason for each value that does not fit.

    a scalar                            null
    a field of a struct                 the field is null; the struct keeps the others
    an element of a list                the element is null; the list keeps its length
    the value of a map's key            the value is null; the map keeps the key
    a struct, list or map of another    null as a whole, as a map with a key that is not valid Unicode

`arrays.build` decides, on whole columns: four thousand good values cost one call. If it refuses a column, values of a
wrong Python type are removed, then those that a check of their kind refuses. What still does not fit, such as an
offset of 25 hours, is found by bisection.
"""

import calendar
import math
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import chain, repeat
from typing import Any, Final, NamedTuple

import pyarrow as pa

from compaction.columns.arrays import (
    EPOCH_UNITS,
    PLAIN_DECIMAL,
    RANGES,
    REFUSALS,
    allowed,
    build,
    fits,
    is_integer,
    is_rounded,
    list_array,
    map_array,
    misformatted,
    outside_zone,
    struct_array,
)
from compaction.columns.counts import LeafCount
from compaction.columns.misfits import LIST, Ambiguous, Misfit, NotANumber, cut, is_unicode, shown
from compaction.columns.types import ColumnType

_INTEGERS: Final = frozenset({"int32", "int64"})
_LONGEST_TYPE: Final = 200
"""Characters of a type in a reason: a struct may have hundreds of fields."""
Misfits = dict[int, list[Misfit]]
"""The misfits of each row."""


class Fitted(NamedTuple):
    """An array, null where a value does not fit, the reasons by row, and a count of each leaf."""

    array: pa.Array
    misfits: Misfits
    leaves: list[LeafCount]


def fit(kind: ColumnType, values: Sequence[Any], lost: int = 0) -> Fitted:
    """Return values (None: null) as a column; never raises for JSON values.

    `lost`: how many values are None because what holds them does not fit; their leaves are unfit, not empty.
    """
    if kind.name == "struct":
        return _fit_struct(kind, values, lost)
    if kind.name in {"list", "map"}:
        return _fit_elements(kind, values)
    fitted, misfits = _fit_scalars(kind, values)
    filled = len(fitted) - fitted.null_count
    count = LeafCount("", len(values), filled, values.count(None) - lost, lost + len(misfits))
    return Fitted(fitted, {row: [misfit] for row, misfit in misfits.items()}, [count])


def _fit_struct(kind: ColumnType, values: Sequence[Any], lost: int) -> Fitted:
    values, wrong = _of_right_types(kind, values)
    lost += len(wrong)
    misfits = defaultdict(list, {row: [misfit] for row, misfit in wrong.items()})
    arrays, leaves = [], []
    for field in kind.fields:
        step = f".{field.name}"
        inner = [None if value is None else value.get(field.name) for value in values]
        missing = _missing(inner, values) if field.required else ()
        fitted = fit(field.type, inner, lost + len(missing))
        absent = Misfit("missing", "missing or null, and required", step)  # one for all: of `{}` there may be many
        for row in missing:
            misfits[row].append(absent)
        for row, found in fitted.misfits.items():
            misfits[row] += [misfit.below(step) for misfit in found]
        arrays.append(fitted.array)
        leaves += [leaf._replace(name=step + leaf.name) for leaf in fitted.leaves]
    return Fitted(struct_array(kind, arrays, values), misfits, leaves)


def _fit_elements(kind: ColumnType, values: Sequence[Any]) -> Fitted:
    """Fit the elements of lists, or the values of maps' keys in the order of the payload."""
    values, wrong = _of_right_types(kind, values)
    is_map, element = kind.name == "map", kind.fields[0]
    if is_map:
        for row, value in enumerate(values):
            if value is not None and not is_unicode("".join(value)):
                values[row], wrong[row] = None, Misfit("invalid", "a key is not valid Unicode")
    misfits = defaultdict(list, {row: [misfit] for row, misfit in wrong.items()})
    flat = [each for value in values if value is not None for each in (value.values() if is_map else value)]
    missing = [number for number, each in enumerate(flat) if each is None] if element.required else ()
    fitted = fit(element.type, flat, len(missing))
    places = _places(values) if missing or fitted.misfits else ()
    absent = [Misfit("missing", "null, and required")]
    counted: dict[int, dict[tuple[str, str], _Alike]] = defaultdict(dict)
    for number, found in chain(zip(missing, repeat(absent)), fitted.misfits.items()):
        row, index = places[number]
        of_row = counted[row]
        for misfit in found:
            before = of_row.get((misfit.path, misfit.kind))
            if before is None:
                before = of_row[misfit.path, misfit.kind] = _Alike(misfit.within(index))
            before.values += misfit.values
    for row, of_row in counted.items():
        misfits[row] += [each.first._replace(values=each.values) for each in of_row.values()]
    leaves = [leaf._replace(name=LIST + leaf.name) for leaf in fitted.leaves]
    join = map_array if is_map else list_array
    return Fitted(join(kind, fitted.array, values), misfits, leaves)


class _Alike:
    """The misfits of one leaf and kind of a row."""

    __slots__ = ("first", "values")

    def __init__(self, first: Misfit) -> None:
        self.first = first
        self.values = 0


def _missing(inner: Sequence[Any], values: Sequence[Any]) -> list[int]:
    """Return the rows of structs that lack a required field."""
    return [
        row for row, part in enumerate(zip(inner, values, strict=True)) if part[0] is None and part[1] is not None
    ]


def _places(lists: Sequence[Any]) -> list[tuple[int, int]]:
    """Return the row and index of each element of lists, or of each key of maps."""
    return [(row, index) for row, each in enumerate(lists) if each is not None for index in range(len(each))]


def _fit_scalars(kind: ColumnType, values: Sequence[Any]) -> tuple[pa.Array, dict[int, Misfit]]:
    try:
        return build(kind, values), {}
    except REFUSALS:
        remaining, misfits = _of_right_types(kind, values)
    if misfits and fits(kind, remaining):
        return build(kind, remaining), misfits
    for number in _misshapen(kind, remaining):
        misfits[number], remaining[number] = _explain(kind, remaining[number]), None
    for number, misfit in _out_of_zone(kind, remaining).items():
        misfits[number], remaining[number] = misfit, None
    try:
        return build(kind, remaining), misfits
    except REFUSALS:
        _bisect(kind, remaining, misfits, (0, len(remaining)))
    return build(kind, remaining), misfits


def _of_right_types(kind: ColumnType, values: Sequence[Any]) -> tuple[list[Any], dict[int, Misfit]]:
    """Return a list with None for values of a wrong Python type, and the reasons by row."""
    right = allowed(kind) | {type(None)}
    remaining, misfits = list(values), {}
    if not right.issuperset(map(type, values)):
        text = kind.text
        for number in [number for number, of in enumerate(map(type, values)) if of not in right]:
            misfits[number], remaining[number] = _of_wrong_type(kind, values[number], text), None
    return remaining, misfits


def _bisect(kind: ColumnType, remaining: list[Any], misfits: dict[int, Misfit], part: tuple[int, int]) -> None:
    """Replace the values in [begin, end) that `build` refuses with None, and record the reasons."""
    begin, end = part
    if fits(kind, remaining[begin:end]):
        return
    if end - begin == 1:
        value = remaining[begin]
        misfits[begin] = _out_of_zone(kind, [value]).get(0) or _explain(kind, value)
        remaining[begin] = None
        return
    middle = (begin + end) // 2
    _bisect(kind, remaining, misfits, (begin, middle))
    _bisect(kind, remaining, misfits, (middle, end))


def _out_of_zone(kind: ColumnType, values: Sequence[Any]) -> dict[int, Misfit]:
    """Return why local times are none of a type's zone, by row. On whole columns: an hour a year is there twice."""
    outside = outside_zone(kind, values) if kind.zone else []
    if not outside:
        return {}
    nowhere = {*outside_zone(kind._replace(fold="earlier"), [values[row] for row in outside])}
    twice = f"is there twice in {kind.zone}, and its type does not say `earlier` or `later`"
    return {
        row: Misfit("invalid", f"{shown(values[row])} {f'is not there in {kind.zone}' if at in nowhere else twice}")
        for at, row in enumerate(outside)
    }


def _misshapen(kind: ColumnType, values: Sequence[Any]) -> list[int]:
    """Return the rows of values, all of a right Python type, that are none of their type, whatever its zone.

    Others may not fit, either.
    """
    if "%" in kind.how:
        return misformatted(kind, values)
    if kind.how in EPOCH_UNITS or kind.is_from_text:
        return [number for number, value in enumerate(values) if not fits(kind, [value])]
    may_fit = _is_in_range if kind.how else _FITS[kind.name]
    return [number for number, value in enumerate(values) if value is not None and not may_fit(kind, value)]


def _is_in_range(kind: ColumnType, value: int) -> bool:
    low, high = RANGES[kind.how or kind.name]
    return low <= value <= high


def _is_double(_: ColumnType, value: float | Decimal) -> bool:
    try:
        return math.isfinite(float(value)) and not is_rounded(value)
    except OverflowError:
        return False


def _is_decimal(kind: ColumnType, value: str | float | Decimal) -> bool:
    text = str(value)
    if isinstance(value, str) and PLAIN_DECIMAL.fullmatch(text) is None:
        return False
    before, behind = _digits(text)
    return before <= kind.precision - kind.scale and behind <= kind.scale


def _digits(text: str) -> tuple[int, int]:
    """Return how many digits a number needs before and behind the point. It may be as long as a payload."""
    return _known_digits(text) if len(text) <= _LONGEST_KNOWN else _count_digits(text)


def _count_digits(text: str) -> tuple[int, int]:
    if PLAIN_DECIMAL.fullmatch(text) is not None:
        before, _, behind = text.partition(".")
        return len(before.lstrip("-0")), len(behind.rstrip("0"))
    mantissa, _, exponent = text.lower().partition("e")
    before, _, behind = mantissa.lstrip("-").partition(".")
    digits, point = before + behind, len(before) + int(exponent or "0")
    significant = digits.lstrip("0")
    if not significant:
        return 0, 0
    return point - (len(digits) - len(significant)), len(digits.rstrip("0")) - point


_known_digits: Final = lru_cache(1 << 12)(_count_digits)
_LONGEST_KNOWN: Final = 80


def _is_json(_: ColumnType, value: object) -> bool:
    return fits(_JSON, [value])


def _is_text(_: ColumnType, value: str) -> bool:
    return is_unicode(value)


def _may_be_time(kind: ColumnType, value: str) -> bool:
    return _ISO["local_timestamp" if kind.zone else kind.name].fullmatch(value) is not None and _is_on_calendar(value)


def _is_on_calendar(text: str) -> bool:
    """Return whether a time in the form of ISO is one: what Arrow refuses by itself costs a search each."""
    year, month, day, hour = int(text[:4]), int(text[5:7]), int(text[8:10]), text[11:13]
    return 1 <= month <= _MONTHS and 1 <= day <= calendar.monthrange(year, month)[1] and hour <= "23"


_MONTHS: Final = 12
_JSON: Final = ColumnType("json")
_DATE: Final = r"(?!0000-(?!12-31))[0-9]{4}-[01][0-9]-[0-3][0-9]"
"""Of the year 0 its last day alone: 0000-12-31T23:30:00-01:00 lies in the year 1."""
_TIME: Final = r"[T ][0-2][0-9](:[0-5][0-9](:[0-5][0-9](\.[0-9]{1,9})?)?)?"
_ISO: Final = {
    "date": re.compile(_DATE),
    "timestamp": re.compile(_DATE + _TIME + r"(Z|[+-]([01][0-9]|2[0-3])(:?[0-5][0-9])?)"),
    "local_timestamp": re.compile(f"{_DATE}({_TIME})?"),
}
"""What Arrow may take for a time. It refuses some of these, too."""
_FITS: Final[dict[str, Callable[[ColumnType, Any], bool]]] = {
    "string": _is_text,
    "int32": _is_in_range,
    "int64": _is_in_range,
    "float64": _is_double,
    "decimal": _is_decimal,
    "json": _is_json,
    "date": _may_be_time,
    "timestamp": _may_be_time,
    "local_timestamp": _may_be_time,
}


def _of_wrong_type(kind: ColumnType, value: object, text: str) -> Misfit:
    if isinstance(value, Ambiguous):
        return Misfit("duplicate_key", "the key is there several times")
    if isinstance(value, NotANumber):
        return Misfit("not_a_number", f"{value.text[:20]} is not a JSON number")
    if kind.name in _INTEGERS and isinstance(value, Decimal) and is_integer(value):
        return Misfit("out_of_range", f"{shown(value)} is out of the range of {kind.name}")
    return Misfit("wrong_type", f"{shown(value)} is not {cut(text, _LONGEST_TYPE)}")


def _explain(kind: ColumnType, value: Any) -> Misfit:  # noqa: ANN401 - any JSON value
    """Return why a value of a right Python type was refused."""
    if kind.name == "decimal" and _is_number(value):
        return _not_a_decimal(kind, value)
    if kind.name == "json":
        return Misfit("invalid", f"{shown(value)} cannot be written as JSON")
    if kind.name == "float64" and not isinstance(value, str):
        return _not_a_double(value)
    if not isinstance(value, str):
        return Misfit("out_of_range", f"{shown(value)} is out of the range of {kind.text}")
    return Misfit("invalid", f"{shown(value)} is not {kind.text if is_unicode(value) else 'valid Unicode'}")


def _is_number(value: object) -> bool:
    return not isinstance(value, str) or PLAIN_DECIMAL.fullmatch(value) is not None


def _not_a_double(value: float | Decimal) -> Misfit:
    try:
        is_lossy = is_rounded(value) and abs(float(value)) != float("inf")
    except OverflowError:
        is_lossy = False
    if is_lossy:
        return Misfit("lossy", f"{shown(value)} would lose digits as float64")
    return Misfit("out_of_range", f"{shown(value)} is out of the range of float64")


def _not_a_decimal(kind: ColumnType, value: str | float | Decimal) -> Misfit:
    """Distinguish too many digits from too large a number."""
    before, behind = _digits(str(value))
    if before <= kind.precision - kind.scale and behind > kind.scale:
        return Misfit("lossy", f"{shown(value)} has more than {kind.scale} digits behind the point")
    return Misfit("out_of_range", f"{shown(value)} is out of the range of {kind.text}")
