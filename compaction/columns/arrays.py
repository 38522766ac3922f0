"""Build an Arrow array from a column of JSON scalars; raise if any of them does not fit.

`fitting` joins the arrays of objects' fields and lists' elements, and finds what does not fit.

No value is rounded or guessed: an integer that a double cannot hold, a decimal with more digits than its type and a
date that does not exist are rejected. Times of up to nine digits are cut to the microsecond in which they lie.
"""

import math
import re
from array import array
from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from functools import partial
from itertools import accumulate
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from compaction.columns.arrow_columns import bytes_column, flag_column, text_column, with_gaps
from compaction.columns.misfits import is_unicode
from compaction.columns.types import MAX_PRECISION, ColumnType
from compaction.columns.zones import in_utc, not_there

Values = Sequence[Any]


class Unit(NamedTuple):
    """A unit of numbers since 1970: the range that SQL engines accept, and its microseconds (`us` / `parts`)."""

    low: int
    high: int
    us: int
    parts: int = 1


_NONE: Final = type(None)
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31, in days since 1970: the dates that SQL engines accept."""
_DAY_US: Final = 86_400_000_000
EPOCH_UNITS: Final = {
    name: Unit(FIRST_DAY * _DAY_US // us, (LAST_DAY + 1) * _DAY_US // us - 1, us)
    for name, us in (("s", 1_000_000), ("ms", 1_000), ("us", 1))
} | {"ns": Unit(FIRST_DAY * _DAY_US * 1_000, (LAST_DAY + 1) * _DAY_US * 1_000 - 1, 1, 1_000)}
RANGES: Final = {
    "int32": (-(1 << 31), (1 << 31) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
    "days": (FIRST_DAY, LAST_DAY),
    **{name: unit[:2] for name, unit in EPOCH_UNITS.items()},
}
"""The least and the greatest integer of types and units."""
_LOCAL: Final = pa.timestamp("us")
_EXACT_DOUBLE: Final = 1 << 53
MOST_INTEGER_BYTES: Final = 80
"""Longer integers of payloads are Decimals: Python's own limit is near."""
PLAIN_DECIMAL: Final = re.compile(r"-?[0-9]{1,76}(\.[0-9]{1,76})?")
PLAIN_INTEGER: Final = re.compile(r"-?[0-9]{1,76}")
_JSON_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?")
_FINER: Final = r"(\.[0-9]{6})[0-9]{1,3}(Z|[+-][0-9:]+)?$"
"""The digits of a time behind its microseconds."""
_FURTHEST: Final = 80
"""Larger exponents fit no decimal. They never reach Arrow's parser, which crashes on 1e-999999999."""


REFUSALS: Final = (ValueError, ArithmeticError)
"""What `build` raises: `DoesNotFitError`, and what Arrow and Python raise for values that they cannot take."""


class DoesNotFitError(ValueError):
    """A value does not fit the type of its column."""


def build(kind: ColumnType, values: Values) -> pa.Array:
    """Return values (None: null) as an array; raise ValueError or ArithmeticError if any of them does not fit."""
    types = set(map(type, values))
    if types <= {_NONE}:
        return pa.nulls(len(values), kind.arrow)
    if not types <= allowed(kind) | {_NONE}:
        raise DoesNotFitError
    if kind.is_from_text and str in types:
        return _from_text(kind, values)
    return _BUILDERS[kind.name](kind, values, types)


def fits(kind: ColumnType, values: Values) -> bool:
    """Return whether `build` takes the values."""
    try:
        build(kind, values)
    except REFUSALS:
        return False
    return True


def allowed(kind: ColumnType) -> frozenset[type]:
    """Return the Python types of JSON values that a column type accepts."""
    if kind.how in EPOCH_UNITS:
        return _ALLOWED["decimal"]
    if kind.name in _TIMES:
        return frozenset({int}) if kind.how in RANGES else frozenset({str})
    return _ALLOWED[kind.name] | {str} if kind.is_from_text else _ALLOWED[kind.name]


def _gaps(column: pa.Array, values: Values, types: set[type]) -> pa.Array:
    return with_gaps(column, [value is not None for value in values]) if _NONE in types else column


def _texts(_: ColumnType, values: Values, types: set[type]) -> pa.StringArray:
    if _NONE not in types:
        return text_column(values)
    return with_gaps(text_column([value or "" for value in values]), [value is not None for value in values])


def _numbers(code: str, arrow: pa.DataType, _: ColumnType, values: Values, types: set[type]) -> pa.Array:
    numbers = array(code, [0 if value is None else value for value in values] if _NONE in types else values)
    column = pa.Array.from_buffers(arrow, len(numbers), [None, pa.py_buffer(numbers)])
    return _gaps(column, values, types)


def _bool(kind: ColumnType, values: Values, types: set[type]) -> pa.Array:
    return _numbers("B", pa.uint8(), kind, values, types).cast(pa.bool_())


def _float64(kind: ColumnType, values: Values, types: set[type]) -> pa.Array:
    numbers = _numbers("d", pa.float64(), kind, values, types)
    if not pc.all(pc.is_finite(numbers)).as_py():
        raise DoesNotFitError
    if pc.max(pc.abs(numbers)).as_py() >= _EXACT_DOUBLE and any(map(is_rounded, values)):
        raise DoesNotFitError
    return numbers


def is_rounded(value: Any) -> bool:  # noqa: ANN401 - any JSON value
    """Return whether a value is an integer (a long one may be a Decimal) that a double cannot hold exactly."""
    if type(value) is Decimal:
        return is_integer(value) and Decimal(float(value)) != value
    return type(value) is int and float(value) != value


def is_integer(number: Decimal) -> bool:
    """Return whether a Decimal was written as an integer: 1.2345678901234567E16, as Java writes doubles, was not."""
    text = str(number)  # its tuple takes ninety times as much memory
    return len(text) >= MOST_INTEGER_BYTES and text.removeprefix("-").isdigit()


def _from_text(kind: ColumnType, values: Values) -> pa.Array:
    numbers = [_number(kind, value) if type(value) is str else value for value in values]
    return _BUILDERS[kind.name](kind, numbers, set(map(type, numbers)))


def _number(kind: ColumnType, text: str) -> int | float:
    """Read the text of a number; raise DoesNotFitError if it is none."""
    if PLAIN_INTEGER.fullmatch(text) is not None:
        return int(text)
    if kind.name != "float64" or _JSON_NUMBER.fullmatch(text) is None:
        raise DoesNotFitError
    return float(text)


def _decimal(kind: ColumnType, values: Values, types: set[type]) -> pa.Array:
    texts = values if types <= {str, _NONE} else [None if value is None else _plain(value) for value in values]
    column = _texts(kind, texts, types)
    # Arrow's cast overflows without an error: 35 as decimal(38,38) is 0.97.
    digits = rf"-?0*[0-9]{{0,{kind.precision - kind.scale}}}(\.[0-9]{{0,{kind.scale}}}0*)?"
    for pattern in (PLAIN_DECIMAL.pattern, digits):
        if not pc.all(pc.match_substring_regex(column, f"^({pattern})$")).as_py():
            raise DoesNotFitError
    return _without_zeros(kind, column).cast(kind.arrow)


def _without_zeros(kind: ColumnType, numbers: pa.StringArray) -> pa.StringArray:
    """Cut the zeros behind the scale: Arrow's cast reads 1.5 with 61 digits as 0.00, without an error."""
    if pc.max(pc.binary_length(numbers)).as_py() <= MAX_PRECISION:
        return numbers
    digits = rf"(\.[0-9]{{{kind.scale}}})" if kind.scale else r"()\."
    return pc.replace_substring_regex(numbers, pattern=f"{digits}0*$", replacement=r"\1")


def _plain(value: str | float | Decimal) -> str:
    """Return a number as digits without an exponent."""
    text = str(value)
    if type(value) is str or "e" not in text.lower():
        return text
    number = Decimal(text)
    if abs(number.adjusted()) > _FURTHEST or len(text) > _FURTHEST:
        raise DoesNotFitError
    return format(number, "f")


def _date(kind: ColumnType, values: Values, types: set[type]) -> pa.Array:
    if kind.how == "days":
        column = _numbers("i", pa.date32(), kind, values, types)
    else:
        column = (_formatted if kind.how else _texts)(kind, values, types).cast(pa.date32())
    _check_range(column.cast(pa.int32()), FIRST_DAY, LAST_DAY)
    return column


def _timestamp(kind: ColumnType, values: Values, types: set[type]) -> pa.Array:
    if kind.how in EPOCH_UNITS:
        unit = EPOCH_UNITS[kind.how]
        if types <= {int, _NONE} and unit.parts == 1:
            numbers = _numbers("q", pa.int64(), kind, values, types)
            _check_range(numbers, unit.low, unit.high)
            return pc.multiply(numbers, unit.us).cast(kind.arrow)
        times = [None if value is None else microseconds(unit, value) for value in values]
        column = _numbers("q", pa.int64(), kind, times, types).cast(kind.arrow)
    elif kind.how:
        local = _formatted(kind, values, types).cast(_LOCAL)
        column = in_utc(kind.zone, kind.fold, local) if kind.zone else local.cast(pa.int64()).cast(kind.arrow)
    elif kind.zone:
        column = in_utc(kind.zone, kind.fold, _iso(_texts(kind, values, types), _LOCAL))
    else:
        column = _iso(_texts(kind, values, types), kind.arrow)
    _check_range(column.cast(pa.int64()), EPOCH_UNITS["us"].low, EPOCH_UNITS["us"].high)
    return column


def microseconds(unit: Unit, value: str | float | Decimal) -> int:
    """Return the microsecond in which a number since 1970 lies; raise DoesNotFitError unless it is a plain number."""
    if type(value) is int:
        return value * unit.us // unit.parts
    text = _plain(value)
    if PLAIN_DECIMAL.fullmatch(text) is None:
        raise DoesNotFitError
    number = Decimal(text)
    with localcontext(prec=2 * _FURTHEST + 8):
        return math.floor(number * unit.us / unit.parts)


def _iso(texts: pa.StringArray, kind: pa.DataType) -> pa.Array:
    """Parse ISO 8601. Arrow refuses more than six digits, so that the others are cut from the text."""
    try:
        return texts.cast(kind)
    except pa.ArrowInvalid:
        return pc.replace_substring_regex(texts, pattern=_FINER, replacement=r"\1\2").cast(kind)


def _formatted(kind: ColumnType, values: Values, types: set[type]) -> pa.Array:
    texts = _texts(kind, values, types)
    times, wrong = _parsed(kind, texts)
    if pc.any(wrong).as_py():
        raise DoesNotFitError
    return times


def _parsed(kind: ColumnType, texts: pa.StringArray) -> tuple[pa.Array, pa.BooleanArray]:
    """Parse times with strptime, and say which texts are none.

    Times are formatted back, because strptime reads February 31 as March 3.
    """
    times = pc.strptime(texts, format=kind.how, unit="s", error_is_null=True)
    fits = pc.fill_null(pc.equal(pc.strftime(times, format=kind.how), texts), False)
    return times, pc.and_not(pc.is_valid(texts), fits)


def misformatted(kind: ColumnType, values: Values) -> list[int]:
    """Return the rows of texts that are no time in the format of a type."""
    texts = [value if value is None or is_unicode(value) else "" for value in values]
    _, wrong = _parsed(kind, _texts(kind, texts, set(map(type, texts))))
    return list(pc.indices_nonzero(wrong).to_pylist())


def outside_zone(kind: ColumnType, values: Values) -> list[int]:
    """Return the rows of local times that the zone of a type does not have; none where a text is no time at all."""
    texts = _texts(kind, values, set(map(type, values)))
    try:
        local = _parsed(kind, texts)[0].cast(_LOCAL) if kind.how else _iso(texts, _LOCAL)
        return not_there(kind.zone, kind.fold, local)
    except REFUSALS:
        return []


def _check_range(numbers: pa.Array, low: int, high: int) -> None:
    ends = pc.min_max(numbers).as_py()
    if ends["min"] < low or ends["max"] > high:
        raise DoesNotFitError


def _json(_: ColumnType, values: Values, types: set[type]) -> pa.Array:
    texts = (
        [b"" if value is None else _encode(value) for value in values] if _NONE in types else [*map(_encode, values)]
    )
    column = bytes_column(texts)
    return _gaps(pa.Array.from_buffers(pa.string(), len(column), column.buffers()), values, types)


def _refuse(value: object) -> object:
    raise DoesNotFitError(type(value).__name__)


_encode: Final = msgspec.json.Encoder(decimal_format="number", enc_hook=_refuse).encode


def struct_array(kind: ColumnType, children: Sequence[pa.Array], values: Values) -> pa.StructArray:
    """Join the fields of objects (None: null)."""
    return pa.StructArray.from_arrays(list(children), fields=list(kind.arrow), mask=_mask(values))


def list_array(kind: ColumnType, elements: pa.Array, values: Values) -> pa.ListArray:
    """Divide elements into the lists that they came from (None: null)."""
    offsets = array("i", accumulate((len(value or ()) for value in values), initial=0))
    starts = pa.Array.from_buffers(pa.int32(), len(offsets), [None, pa.py_buffer(offsets)])
    return pa.ListArray.from_arrays(starts, elements, type=kind.arrow, mask=_mask(values))


def map_array(kind: ColumnType, values_of_keys: pa.Array, values: Values) -> pa.MapArray:
    """Join the values of keys to the objects that they came from (None: null)."""
    keys = text_column([key for value in values if value is not None for key in value])
    offsets = array("i", accumulate((len(value or ()) for value in values), initial=0))
    starts = pa.Array.from_buffers(pa.int32(), len(offsets), [None, pa.py_buffer(offsets)])
    return pa.MapArray.from_arrays(starts, keys, values_of_keys, type=kind.arrow, mask=_mask(values))


def _mask(values: Values) -> pa.Array | None:
    return flag_column([value is None for value in values]) if None in values else None


_TIMES: Final = frozenset({"date", "timestamp", "local_timestamp"})
_ALLOWED: Final[dict[str, frozenset[type]]] = {
    "string": frozenset({str}),
    "bool": frozenset({bool}),
    "int32": frozenset({int}),
    "int64": frozenset({int}),
    "float64": frozenset({float, int, Decimal}),
    "decimal": frozenset({int, float, Decimal, str}),
    "json": frozenset({str, bool, int, float, Decimal, list, dict}),
    "struct": frozenset({dict}),
    "map": frozenset({dict}),
    "list": frozenset({list}),
}
_BUILDERS: Final[dict[str, Callable[[ColumnType, Values, set[type]], pa.Array]]] = {
    "string": _texts,
    "bool": _bool,
    "int32": partial(_numbers, "i", pa.int32()),
    "int64": partial(_numbers, "q", pa.int64()),
    "float64": _float64,
    "decimal": _decimal,
    "date": _date,
    "timestamp": _timestamp,
    "local_timestamp": _timestamp,
    "json": _json,
}
