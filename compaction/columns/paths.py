"""Where a column's values are in a payload. What a path finds is JSON, whatever its functions make of it.

jmespath takes Python's numbers for JSON's: `to_number('NaN')` is NaN, `to_number('1_000')` is 1000, a sum of doubles
may be Infinity. And it knows no Decimal, which numbers with a fraction are here, so that none loses a digit on its
way through a path. Its functions on numbers are therefore ours.
"""

import decimal
import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

import jmespath
import msgspec
from jmespath.functions import Functions, signature
from jmespath.visitor import Options, TreeInterpreter

from compaction.columns.documents import Documents, number_of
from compaction.columns.misfits import Ambiguous, Misfit, NotANumber, shown
from minutebook.format.payload import names_of

Names = tuple[str, ...]
_FAULTS: Final = (
    jmespath.exceptions.JMESPathError,
    RecursionError,
    # jmespath compares and counts what it finds without looking.
    ArithmeticError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)


class ValuePath:
    """The path of a column. Paths of names alone are followed by us, a dozen times as fast as by jmespath."""

    def __init__(self, expression: str) -> None:
        parsed = jmespath.compile(expression).parsed
        names = names_of(parsed)
        self._names = None if names is None else tuple(names)
        self._search: Callable[[Any], Any] | None = None if names is not None else _searching(parsed)

    @property
    def names(self) -> Names | None:
        """Return the path's names; None where it is more than names: it then needs numbers that are exact."""
        return self._names

    def values(self, documents: Documents) -> tuple[list[Any], dict[int, Misfit]]:
        """Return a value for each row, None where there is none, and the rows in which the path itself fails."""
        return self._searched(documents) if self._names is None else (_followed(self._names, documents.rows), {})

    def _searched(self, documents: Documents) -> tuple[list[Any], dict[int, Misfit]]:
        assert self._search is not None  # noqa: S101 - for the type checker: it is no path of names
        values, misfits = [], {}
        for row, document in enumerate(documents.rows):
            try:
                values.append(self._search(document))
            except _FAULTS:
                values.append(None)
                misfits[row] = Misfit("bad_path", "the path fails on this payload")
        return values, misfits


def _followed(names: Names, values: list[Any]) -> list[Any]:
    for name in names:
        values = [value.get(name) if type(value) is dict else _end(value) for value in values]
    return values


def _end(value: object) -> Ambiguous | None:
    """Return where a path ends early: below a key that is there several times everything is."""
    return value if isinstance(value, Ambiguous) else None


def _searching(parsed: dict[str, Any]) -> Callable[[Any], Any]:
    """Return jmespath's search with our functions, and with literals that compare with exact numbers."""
    tree, visit = _exact(parsed), TreeInterpreter(Options(custom_functions=_Exact())).visit
    return lambda document: visit(tree, document)


def _exact(node: Any) -> Any:  # noqa: ANN401 - a tree of jmespath's
    """Return a tree with its doubles as decimals: 0.1 is 0.1 in a payload, too."""
    if isinstance(node, dict):
        return {name: _exact(value) for name, value in node.items()}
    if isinstance(node, list):
        return [_exact(value) for value in node]
    if isinstance(node, float):
        return Decimal(repr(node)) if math.isfinite(node) else NotANumber(repr(node))
    return node


_JSON_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_SUMS: Final = decimal.Context(
    prec=200, traps=[decimal.InvalidOperation, decimal.Overflow, decimal.Underflow, decimal.Inexact]
)
"""Sums are exact, or fail. An average may be cut, as any quotient: to what the widest decimal holds."""
_QUOTIENTS: Final = decimal.Context(prec=38)
_FURTHEST: Final = 400
"""Exponents beyond it are not made whole numbers of: 1e999999999 has a billion digits."""


def _refuse(value: object) -> Any:  # noqa: ANN401 - never returns
    raise TypeError(type(value).__name__)


_encode: Final = msgspec.json.Encoder(decimal_format="number", enc_hook=_refuse).encode


class _Exact(Functions):  # type: ignore[misc]  # jmespath has no types
    """jmespath's functions, where a number may be a Decimal."""

    @signature({"types": []})  # type: ignore[untyped-decorator]
    def _func_to_number(self, value: Any) -> Any:  # noqa: ANN401 - any JSON value
        """Read JSON's numbers. What Python takes for one besides fits no column: NaN, 007, 1_000."""
        if isinstance(value, str):
            if _JSON_NUMBER.fullmatch(value) is not None:
                return number_of(value)
            return NotANumber(shown(value)) if _is_pythons(value) else None
        return value if type(value) in {int, Decimal, NotANumber} else None

    @signature({"types": []})  # type: ignore[untyped-decorator]
    def _func_to_string(self, value: Any) -> str:  # noqa: ANN401 - any JSON value
        return value if isinstance(value, str) else _encode(value).decode()

    @signature({"types": []})  # type: ignore[untyped-decorator]
    def _func_type(self, value: Any) -> Any:  # noqa: ANN401 - any JSON value
        return "number" if isinstance(value, Decimal) else super()._func_type(value)

    @signature({"types": ["number"]})  # type: ignore[untyped-decorator]
    def _func_abs(self, value: int | Decimal) -> int | Decimal:
        return value.copy_abs() if isinstance(value, Decimal) else abs(value)

    @signature({"types": ["number"]})  # type: ignore[untyped-decorator]
    def _func_ceil(self, value: int | Decimal) -> int:
        return math.ceil(_near(value))

    @signature({"types": ["number"]})  # type: ignore[untyped-decorator]
    def _func_floor(self, value: int | Decimal) -> int:
        return math.floor(_near(value))

    @signature({"types": ["array-number"]})  # type: ignore[untyped-decorator]
    def _func_sum(self, values: list[int | Decimal]) -> int | Decimal:
        return _sum(values)

    @signature({"types": ["array-number"]})  # type: ignore[untyped-decorator]
    def _func_avg(self, values: list[int | Decimal]) -> Decimal | None:
        return _QUOTIENTS.divide(Decimal(_sum(values)), Decimal(len(values))) if values else None

    def _get_allowed_pytypes(self, types: Any) -> Any:  # noqa: ANN401 - jmespath's
        allowed, within = super()._get_allowed_pytypes(types)
        return _with_decimal(allowed), [_with_decimal(names) for names in within]

    def _convert_to_jmespath_type(self, name: str) -> Any:  # noqa: ANN401 - jmespath's
        return "number" if name == Decimal.__name__ else super()._convert_to_jmespath_type(name)


def _with_decimal(names: Sequence[str]) -> list[str]:
    return [*names, Decimal.__name__] if float.__name__ in names else [*names]


def _sum(values: Sequence[int | Decimal]) -> int | Decimal:
    total: int | Decimal = 0
    for value in values:
        is_whole = isinstance(total, int) and isinstance(value, int)
        total = total + value if is_whole else _SUMS.add(Decimal(total), Decimal(value))
    return total


def _near(value: int | Decimal) -> int | Decimal:
    if isinstance(value, Decimal) and value.adjusted() > _FURTHEST:
        raise OverflowError
    return value


def _is_pythons(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
