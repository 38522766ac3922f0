"""Hive's types as days evolve: which one holds the values of two. Pure.

    int, bigint                          bigint
    decimal(5,2), decimal(12,2)          decimal(12,2)
    struct<a:int>, struct<b:string>      struct<a:int,b:string>: what is there stays where it is, new fields come last
    array<int>, array<bigint>            array<bigint>
    struct<a:int>, struct<A:int>         struct<a:int>: engines do not tell the two apart, in files neither
    any other two                        none: engines would fail on the files of one of them

These are the rules of an Iceberg table, too (`iceberg.evolution`), but for names: there `a` and `A` are a conflict.
"""

import re
from collections.abc import Iterator
from typing import Final

_INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")
_NESTED: Final = re.compile(r"(array|struct)<(.*)>", re.DOTALL)


def wider(one: str, other: str) -> str | None:
    """Return the type that holds the values of both; None: there is no such."""
    if one == other:
        return one
    if one in _INTEGERS and other in _INTEGERS:
        return max(one, other, key=_INTEGERS.index)
    decimals = _DECIMAL.fullmatch(one), _DECIMAL.fullmatch(other)
    if decimals[0] and decimals[1] and decimals[0][2] == decimals[1][2]:
        return max(one, other, key=lambda text: int(text[8:].partition(",")[0]))
    nested = _NESTED.fullmatch(one), _NESTED.fullmatch(other)
    if nested[0] is None or nested[1] is None or nested[0][1] != nested[1][1]:
        return None
    if nested[0][1] == "array":
        inner = wider(nested[0][2], nested[1][2])
        return None if inner is None else f"array<{inner}>"
    return _struct(nested[0][2], nested[1][2])


def _struct(one: str, other: str) -> str | None:
    fields = {name.lower(): (name, kind) for name, kind in _fields(one)}
    for name, kind in _fields(other):
        was, before = fields.get(name.lower(), (name, kind))
        found = wider(before, kind)
        if found is None:
            return None
        fields[name.lower()] = (was, found)
    return "struct<" + ",".join(f"{name}:{kind}" for name, kind in fields.values()) + ">"


def _fields(text: str) -> Iterator[tuple[str, str]]:
    """Yield names and types of a struct's fields."""
    depth, begin = 0, 0
    for at, character in enumerate(f"{text},"):
        depth += (character in "<(") - (character in ">)")
        if character == "," and not depth:
            name, _, kind = text[begin:at].partition(":")
            yield name, kind
            begin = at + 1
