"""Build an Arrow array from a column of JSON values; raise if any of them does not fit (see `fitting`).

No value is rounded, truncated or guessed: an integer that a double cannot hold, a decimal with more digits than its
type, a time finer than microseconds and a date that does not exist are rejected.
"""

import re
from array import array
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from itertools import accumulate, chain
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from compaction.columns.arrow_columns import bytes_column, flag_column, text_column, with_gaps
from compaction.columns.types import ColumnType

Values = Sequence[Any]


class Unit(NamedTuple):
    """A unit of numbers since 1970: the range that SQL engines accept, and its microseconds."""

    low: int
    high: int
    us: int


_NONE: Final = type(None)
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31, in days since 1970: the dates that SQL engines accept."""
_DAY_US: Final = 86_400_000_000
EPOCH_UNITS: Final = {
    name: Unit(FIRST_DAY * _DAY_US // us, (LAST_DAY + 1) * _DAY_US // us - 1, us)
    for name, us in (("s", 1_000_000), ("ms", 1_000), ("us", 1))
}
_EXACT_DOUBLE: Final = 1 << 53
PLAIN_DECIMAL: Final = re.compile(r"-?[0-9]{1,76}(\.[0-9]{1,76})?")
_FURTHEST: Final = 80
"""Larger exponents fit no decimal. They never reach Arrow's parser, which crashes on 1e-999999999."""


class DoesNotFitError(ValueError):
    """A value does not fit the type of its column."""


def build(kind: ColumnType, values: Values) -> pa.Array:
    """Return values (None: null) as an array; raise ValueError or ArithmeticError if any of them does not fit."""
    types = set(map(type, values))
    if types <= {_NONE}:
        return pa.nulls(len(values), kind.arrow)
    if not types <= allowed(kind) | {_NONE}:
        raise DoesNotFitError
    return _BUILDERS[kind.name](kind, values, types)


def allowed(kind: ColumnType) -> frozenset[type]:
    """Return the Python types of JSON values that a column type accepts."""
    if kind.name in _TIMES:
        return frozenset({int}) if kind.how in _NUMBERS else frozenset({str})
    return _ALLOWED[kind.name]


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
        return value.as_tuple().exponent == 0 and Decimal(float(value)) != value
    return type(value) is int and float(value) != value


def _decimal(kind: ColumnType, values: Values, types: set[type]) -> pa.Array:
    texts = values if types <= {str, _NONE} else [None if value is None else _plain(value) for value in values]
    column = _texts(kind, texts, types)
    if not pc.all(pc.match_substring_regex(column, f"^{PLAIN_DECIMAL.pattern}$")).as_py():
        raise DoesNotFitError
    return column.cast(kind.arrow)


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
        numbers = _numbers("q", pa.int64(), kind, values, types)
        _check_range(numbers, unit.low, unit.high)
        return pc.multiply(numbers, unit.us).cast(kind.arrow)
    if kind.how:
        column = _formatted(kind, values, types).cast(pa.timestamp("us")).cast(pa.int64()).cast(kind.arrow)
    else:
        column = _texts(kind, values, types).cast(kind.arrow)
    _check_range(column.cast(pa.int64()), EPOCH_UNITS["us"].low, EPOCH_UNITS["us"].high)
    return column


def _formatted(kind: ColumnType, values: Values, types: set[type]) -> pa.Array:
    """Parse times with strptime and format them back: strptime reads February 31 as March 3."""
    texts = _texts(kind, values, types)
    times = pc.strptime(texts, format=kind.how, unit="s", error_is_null=True)
    formatted = pc.strftime(times, format=kind.how)
    if times.null_count != texts.null_count or not pc.all(pc.equal(formatted, texts)).as_py():
        raise DoesNotFitError
    return times


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


def _struct(kind: ColumnType, values: Values, types: set[type]) -> pa.Array:
    children = []
    for field in kind.fields:
        inner = [None if value is None else value.get(field.name) for value in values]
        if field.required and any(
            part is None and value is not None for part, value in zip(inner, values, strict=True)
        ):
            raise DoesNotFitError
        children.append(build(field.type, inner))
    return pa.StructArray.from_arrays(children, fields=list(kind.arrow), mask=_mask(values, types))


def _list(kind: ColumnType, values: Values, types: set[type]) -> pa.Array:
    element = kind.fields[0]
    lists = [value or () for value in values] if _NONE in types else values
    flat = list(chain.from_iterable(lists))
    if element.required and None in flat:
        raise DoesNotFitError
    offsets = array("i", accumulate(map(len, lists), initial=0))
    starts = pa.Array.from_buffers(pa.int32(), len(offsets), [None, pa.py_buffer(offsets)])
    return pa.ListArray.from_arrays(starts, build(element.type, flat), type=kind.arrow, mask=_mask(values, types))


def _mask(values: Values, types: set[type]) -> pa.Array | None:
    return flag_column([value is None for value in values]) if _NONE in types else None


_NUMBERS: Final = frozenset({"days", *EPOCH_UNITS})
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
    "struct": _struct,
    "list": _list,
}
