"""Mutants that are made from the syntax tree: each changes one comparison, condition, constant or statement.

What only words a message stays as it is: log lines, the arguments of exceptions, formatted strings. So do
annotations, decorators and types.
"""

import ast
from collections.abc import Iterator
from copy import copy
from typing import Final, NamedTuple

from tests.mutations.editing import replace_nodes

_COMPARISONS: Final[dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_SUMS: Final[dict[type[ast.operator], ast.operator]] = {ast.Add: ast.Sub(), ast.Sub: ast.Add()}
_OPPOSITES: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}
_LOG_LEVELS: Final = frozenset({"debug", "info", "warning", "error", "exception"})
_UNTOUCHED_FIELDS: Final = frozenset({"annotation", "returns", "decorator_list"})
_UNTOUCHED: Final = (ast.JoinedStr, ast.Import, ast.ImportFrom, ast.Raise)


class Mutant(NamedTuple):
    """The text of a file with one change, and where and what that is."""

    line: int
    change: str
    text: str


def mutants_of(source: str) -> list[Mutant]:
    """Return all mutants of a file, in the order of its lines."""
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    # Whoever forgets to set an attribute there ends with an AttributeError: that proves nothing.
    begun = {id(step) for each in functions if each.name == "__init__" for step in each.body}
    made = []
    for node in _nodes(tree):
        if isinstance(node, ast.Assign) and id(node) in begun:
            continue
        for new in _replacements(node):
            text = replace_nodes(source, [node], new)
            old = ast.unparse(node).partition("\n")[0]
            made.append(Mutant(getattr(node, "lineno", 0), f"{old}  ->  {new}", text))
    return made


def _nodes(node: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """Yield what may be changed, outer nodes first."""
    if isinstance(node, ast.expr | ast.stmt):
        yield node
    if isinstance(node, _UNTOUCHED) or _is_wording(node):
        return
    for field, value in ast.iter_fields(node):
        if field in _UNTOUCHED_FIELDS or (isinstance(node, ast.AnnAssign) and _is_type(node) and field == "value"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _nodes(child)


def _is_wording(node: ast.AST) -> bool:
    if not isinstance(node, ast.Expr):
        return False
    function = node.value.func if isinstance(node.value, ast.Call) else None
    is_log_line = isinstance(function, ast.Attribute) and function.attr in _LOG_LEVELS
    return is_log_line or isinstance(node.value, ast.Constant)


def _is_type(node: ast.AnnAssign) -> bool:
    return isinstance(node.annotation, ast.Name) and node.annotation.id == "TypeAlias"


def _replacements(node: ast.expr | ast.stmt) -> Iterator[str]:
    yield from _other_conditions(node)
    yield from _other_values(node)
    yield from _deletions(node)


def _other_conditions(node: ast.expr | ast.stmt) -> Iterator[str]:
    match node:
        case ast.Compare(ops=[operator]):
            for other in _COMPARISONS[type(operator)]:
                yield _changed(node, ops=[other()])
        case ast.BoolOp(op=operator, values=values):
            yield _changed(node, op=ast.Or() if isinstance(operator, ast.And) else ast.And())
            for value in values:
                yield _changed(node, values=[other for other in values if other is not value])
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield ast.unparse(operand)


def _other_values(node: ast.expr | ast.stmt) -> Iterator[str]:
    match node:
        case ast.BinOp(op=ast.Add() | ast.Sub() as operator):
            yield _changed(node, op=_SUMS[type(operator)])
        case ast.Call(func=ast.Name(id=name)) if name in _OPPOSITES:
            yield _changed(node, func=ast.Name(_OPPOSITES[name]))
        case ast.IfExp(body=body, orelse=other):
            yield ast.unparse(body)
            yield ast.unparse(other)
        case ast.Constant(value=bool(value)):
            yield str(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield str(1 - value if value in {0, 1} else value + 1)


def _deletions(node: ast.expr | ast.stmt) -> Iterator[str]:
    match node:
        case ast.Expr(value=ast.Call()) if not _is_wording(node):
            yield "pass"
        case ast.AugAssign() | ast.Assign(targets=[ast.Attribute()]) | ast.Raise() | ast.Continue() | ast.Break():
            yield "pass"
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield "return None"


def _changed(node: ast.AST, **fields: object) -> str:
    other = copy(node)
    for name, value in fields.items():
        setattr(other, name, value)
    return ast.unparse(other)
