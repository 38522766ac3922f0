"""Find the values of columns by JMESPath, with exact numbers.

jmespath reads numbers as Python does: `to_number('NaN')` is NaN, `to_number('1_000')` is 1000, a sum of doubles may
be Infinity. It does not know Decimal, which keeps all digits of fractions here. So its functions on numbers are
replaced.
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
    # jmespath compares and counts values without checking their types.
    ArithmeticError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)


class ValuePath:
    """The path of a column.

    A path of `names` alone is followed here, twelve times as fast as by jmespath. Other paths (`names` None) need
    exact numbers.
    """

    def __init__(self, expression: str) -> None:
        parsed = jmespath.compile(expression).parsed
        names = names_of(parsed)
        self.names = None if names is None else tuple(names)
        self._search = _searching(parsed)

    def values(self, documents: Documents) -> tuple[list[Any], dict[int, Misfit]]:
        """Return a value for each row (None: no value), and the rows on which the path itself fails.

        Rows that cannot be decoded have no value.
        """
        if self.names is not None:
            return _followed(self.names, documents.rows), {}
        values: list[Any] = []
        misfits = {}
        for row, document in enumerate(documents.rows):
            if row in documents.unread:
                values.append(None)
                continue
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
    """Return the value of a path that ends early: everything below an ambiguous key is ambiguous."""
    return value if isinstance(value, Ambiguous) else None


def _searching(parsed: dict[str, Any]) -> Callable[[Any], Any]:
    """Return jmespath's search with exact functions and literals."""
    tree, visit = _exact(parsed), _Interpreter(Options(custom_functions=_Exact())).visit
    return lambda document: visit(tree, document)


class _Interpreter(TreeInterpreter):  # type: ignore[misc]  # jmespath has no types
    """jmespath's, but for a key that is there twice and for NaN: nobody knows what they are equal to."""

    def visit_comparator(self, node: Any, value: Any) -> Any:  # noqa: ANN401 - any JSON value
        """Compare; raise TypeError where a side has no value."""
        sides = [self.visit(each, value) for each in node["children"]]
        if any(isinstance(side, Ambiguous | NotANumber) for side in sides):
            raise TypeError
        return super().visit_comparator({**node, "children": [*map(_literal, sides)]}, value)

    def visit_not_expression(self, node: Any, value: Any) -> Any:  # noqa: ANN401 - any JSON value
        """Negate; raise TypeError where there is no value."""
        side = self.visit(node["children"][0], value)
        if isinstance(side, Ambiguous | NotANumber):
            raise TypeError
        return super().visit_not_expression({**node, "children": [_literal(side)]}, value)


def _literal(value: object) -> dict[str, object]:
    """Return the node of a value that is known: to visit its own again would double the time with each level."""
    return {"type": "literal", "value": value, "children": []}


def _exact(node: Any) -> Any:  # noqa: ANN401 - a tree of jmespath's
    """Return a tree with Decimal in place of float, as in payloads."""
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
"""Sums are exact or fail. Averages are rounded to the digits of the widest decimal."""
_QUOTIENTS: Final = decimal.Context(prec=38)
_FURTHEST: Final = 400
"""Largest exponent that ceil and floor accept: 1e999999999 has a billion digits."""


def _refuse(value: object) -> Any:  # noqa: ANN401 - never returns
    raise TypeError(type(value).__name__)


_encode: Final = msgspec.json.Encoder(decimal_format="number", enc_hook=_refuse).encode


class _Exact(Functions):  # type: ignore[misc]  # jmespath has no types
    """jmespath's functions for numbers that may be Decimal."""

    @signature({"types": []})  # type: ignore[untyped-decorator]
    def _func_to_number(self, value: Any) -> Any:  # noqa: ANN401 - any JSON value
        """Read JSON numbers. What only Python accepts (NaN, 007, 1_000) fits no column."""
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
