"""Code that is replaced where the syntax tree has it: how it is wrapped, quoted or commented does not matter."""

import ast
import re
from collections.abc import Iterator, Sequence
from textwrap import dedent, indent
from typing import Final, TypeAlias, TypeVar

_Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_Node = TypeVar("_Node")
_LISTS: Final = ("body", "orelse", "finalbody")
_OLD: Final = re.compile(r"^( *)OLD$|\bOLD\b", re.MULTILINE)
_NO_ARGUMENT: Final = "**{}"
"""Stands for a keyword argument that is left out, whatever stands around it."""


class PlaceError(LookupError):
    """The definition, or exactly one place of the code within it, is not there."""


def replace(source: str, definition: str, old: str, new: str) -> str:
    """Return the source with `old` replaced by `new` within a definition, such as `Class.function` or `CONSTANT`.

    `old` is an expression, statements in a row or a keyword argument, and occurs once. Without it, `new` replaces the
    body of a function behind its docstring, or the value of a constant. `OLD` within `new` stands for what is
    replaced; no `new` leaves it out.

    Raises:
        PlaceError: there is no such definition, or not exactly one such place in it.
    """
    root = _find_definition(ast.parse(source), definition)
    if not old:
        return _replace_body(source, root, new)
    pattern = ast.parse(dedent(old)).body
    only = pattern[0] if len(pattern) == 1 else None
    if isinstance(only, ast.Expr) and _is_expression(new):
        expressions = [node for node in ast.walk(root) if _is_same(node, only.value)]
        return replace_nodes(source, [_single(expressions, definition, old)], new)
    rows = [row for row in _statements(root, len(pattern)) if all(map(_is_same, row, pattern))]
    if not rows and isinstance(only, ast.Assign):
        arguments = [node for node in ast.walk(root) if _is_argument(node, only)]
        return replace_nodes(source, [_single(arguments, definition, old)], new or _NO_ARGUMENT)
    return replace_nodes(source, _single(rows, definition, old), new)


def replace_nodes(source: str, nodes: Sequence[ast.AST], new: str) -> str:
    """Return the source with an expression, a keyword argument or statements in a row replaced."""
    lines = source.encode().splitlines(keepends=True)
    offsets = [0]
    for line in lines:
        offsets.append(offsets[-1] + len(line))
    first, last = nodes[0], nodes[-1]
    assert isinstance(first, ast.expr | ast.stmt | ast.keyword)
    assert isinstance(last, ast.expr | ast.stmt | ast.keyword)
    begin = offsets[first.lineno - 1] + first.col_offset
    end = offsets[(last.end_lineno or 0) - 1] + (last.end_col_offset or 0)
    code = "\n".join(map(ast.unparse, nodes))
    new = _OLD.sub(lambda match: code if match[1] is None else indent(code, match[1]), dedent(new))
    if isinstance(first, ast.stmt):
        text = indent(new or "pass", " " * first.col_offset).strip()
    else:
        text = f"({new})" if isinstance(first, ast.expr) else new
    encoded = source.encode()
    return (encoded[:begin] + text.encode() + encoded[end:]).decode()


def body_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.stmt]:
    """Return a function's statements behind its docstring."""
    has_docstring = ast.get_docstring(function, clean=False) is not None
    return function.body[1:] if has_docstring else function.body


def _find_definition(tree: ast.Module, definition: str) -> ast.AST:
    body: Sequence[ast.stmt] = tree.body
    found: ast.AST = tree
    for name in definition.split("."):
        named = [statement for statement in body if name in _names(statement)]
        if len(named) != 1:
            raise PlaceError(f"{len(named)} definitions of {definition}")
        found = named[0]
        body = found.body if isinstance(found, _Definition) else ()
    return found


def _names(statement: ast.stmt) -> list[str]:
    if isinstance(statement, _Definition):
        return [statement.name]
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _replace_body(source: str, root: ast.AST, new: str) -> str:
    if isinstance(root, ast.FunctionDef | ast.AsyncFunctionDef):
        return replace_nodes(source, body_of(root), new)
    value = getattr(root, "value", None)
    if value is None:
        raise PlaceError("neither a function nor a constant")
    return replace_nodes(source, [value], new)


def _statements(root: ast.AST, count: int) -> Iterator[list[ast.stmt]]:
    """Yield every row of so many statements, nested ones too."""
    for node in ast.walk(root):
        for name in _LISTS:
            statements = getattr(node, name, None)
            if isinstance(statements, list):
                for begin in range(len(statements) - count + 1):
                    yield statements[begin : begin + count]


def _is_same(node: ast.AST, other: ast.AST) -> bool:
    return type(node) is type(other) and ast.dump(node) == ast.dump(other)


def _is_argument(node: ast.AST, wanted: ast.Assign) -> bool:
    target = wanted.targets[0]
    is_named = isinstance(node, ast.keyword) and isinstance(target, ast.Name) and node.arg == target.id
    return is_named and isinstance(node, ast.keyword) and _is_same(node.value, wanted.value)


def _is_expression(code: str) -> bool:
    try:
        ast.parse(code, mode="eval")
    except SyntaxError:
        return False
    return True


def _single(nodes: Sequence[_Node], definition: str, old: str) -> _Node:
    if len(nodes) != 1:
        raise PlaceError(f"{len(nodes)} places in {definition} of: {old}")
    return nodes[0]
