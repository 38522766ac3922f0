"""Keys of payloads that no column reads, by a sample: what producers have begun to send and nobody asks for yet.

    {"carrier": "UA", "fare": {"price": 1, "tax": 2}, "legs": [{"gate": "B7"}]}
    carrier: string    price: fare.price    legs: list<struct<from: string>>        fare.tax    legs[].gate

Of a `json` column, and of a path with a function, everything below the keys that it names counts as read. A sample is
enough, because drift is many payloads; keys are a producer's text, so they are bounded here and escaped where shown.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import jmespath
import msgspec
import pyarrow as pa

from compaction.columns.columns import Column
from compaction.columns.misfits import LIST
from compaction.columns.types import ColumnType
from minutebook.format.payload import names_of

SAMPLE: Final = 1000
"""Payloads that a task looks at."""
_SHARE: Final = 4
_LEAST: Final = 8
"""Of each block a quarter of what is left is taken, but so many at least: late rows of a large task are seen, too."""
_MOST_BYTES: Final = 256 << 10
MOST_KEYS: Final = 50
"""Keys that a task names; payloads with ids as keys have millions."""
_LONGEST: Final = 200
_DEPTH: Final = 20
_KINDS: Final = {str: "string", bool: "bool", int: "int64", float: "float64", list: "list", dict: "struct"}

Tree = dict[str, "Tree | None"]
"""The keys that columns read: by name those within, or None where all of them count as read."""


class UnknownKey(NamedTuple):
    """A key: its path, the type of its first value that is not null, and in how many sampled payloads it is."""

    path: str
    type: str
    payloads: int


class SampledKeys(NamedTuple):
    """What a sample of so many payloads shows. `more` counts occurrences of keys that have no place in `keys`."""

    payloads: int = 0
    keys: tuple[UnknownKey, ...] = ()
    more: int = 0


class UnknownKeys:
    """Looks at a sample of the payloads of one task."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._known = known_keys(columns)
        self._payloads = self._more = 0
        self._found: dict[str, tuple[str, int]] = {}

    def look(self, data: pa.StringArray) -> None:
        """Look at some payloads of a block, spread over it."""
        if self._known is None or self._payloads >= SAMPLE or not len(data):
            return
        left = SAMPLE - self._payloads
        wanted = min(left, max(_LEAST, left // _SHARE))
        for row in range(0, len(data), -(-len(data) // wanted)):
            self._look(data[row])

    def sampled(self) -> SampledKeys:
        """Return what was found so far, the most frequent first."""
        keys = (UnknownKey(path, kind or "null", count) for path, (kind, count) in self._found.items())
        return SampledKeys(self._payloads, tuple(sorted(keys, key=_order)), self._more)

    def _look(self, text: pa.StringScalar) -> None:
        buffer = text.as_buffer()
        if buffer is None or len(buffer) > _MOST_BYTES:
            return
        try:
            document = msgspec.json.decode(buffer)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            return  # `_unfit` says so
        if not isinstance(document, dict) or self._known is None:
            return
        self._payloads += 1
        seen: set[str] = set()
        for path, value in _unknown(document, self._known, "", _DEPTH):
            self._count(path, value, seen)

    def _count(self, path: str, value: object, seen: set[str]) -> None:
        """Count a key once for each payload, however many elements of a list have it."""
        path = path if len(path) <= _LONGEST else f"{path[:_LONGEST]}..."
        kind = _KINDS.get(type(value), "")
        known = self._found.get(path)
        if known is None and len(self._found) == MOST_KEYS:
            self._more += 1
            return
        before, count = known or ("", 0)
        self._found[path] = (before or kind, count + (path not in seen))
        seen.add(path)


def known_keys(columns: Iterable[Column]) -> Tree | None:
    """Return the keys that columns read; None: all of them may be."""
    tree: Tree = {}
    for column in columns:
        parsed = jmespath.compile(column.path).parsed
        names = names_of(parsed)
        if names is not None:
            _add(tree, tuple(names), column.type)
            continue
        named = set(_fields(parsed))
        if not named:
            return None
        tree |= dict.fromkeys(named, None)
    return tree


def total_keys(parts: Iterable[SampledKeys]) -> SampledKeys:
    """Return the sum of samples, the most frequent key first."""
    payloads = more = 0
    found: dict[str, UnknownKey] = {}
    for part in parts:
        payloads, more = payloads + part.payloads, more + part.more
        for key in part.keys:
            before = found.get(key.path, key._replace(payloads=0))
            kind = key.type if before.type == "null" else before.type
            found[key.path] = UnknownKey(key.path, kind, before.payloads + key.payloads)
    return SampledKeys(payloads, tuple(sorted(found.values(), key=_order)), more)


def _order(key: UnknownKey) -> tuple[int, str]:
    return -key.payloads, key.path


def _add(tree: Tree, names: tuple[str, ...], kind: ColumnType) -> None:
    for name in names[:-1]:
        below = tree.setdefault(name, {})
        if below is None:
            return
        tree = below
    _add_type(tree, names[-1], kind)


def _add_type(tree: Tree, name: str, kind: ColumnType) -> None:
    """Add a key whose value a type reads: the fields of structs, and those of structs in lists."""
    if kind.name not in {"struct", "list"}:
        tree[name] = None
        return
    below = tree.setdefault(name, {})
    if below is None:
        return
    for field in kind.fields:
        _add_type(below, LIST if kind.name == "list" else field.name, field.type)


def _unknown(value: object, known: Tree, path: str, depth: int) -> Iterator[tuple[str, object]]:
    """Yield the unknown keys of a value, with their values; what lies below an unknown key is not looked at."""
    if isinstance(value, list):
        below = known.get(LIST)
        for element in value if below and depth else ():
            yield from _unknown(element, below or {}, path + LIST, depth - 1)
        return
    for key, inner in value.items() if isinstance(value, dict) else ():
        at = f"{path}.{key}" if path else key
        if key not in known:
            yield at, inner
        elif (below := known[key]) and depth:
            yield from _unknown(inner, below, at, depth - 1)


def _fields(node: Any) -> Iterator[str]:  # noqa: ANN401 - a tree of jmespath's
    """Yield the names that an expression reads, at whatever depth."""
    if isinstance(node, dict):
        if node.get("type") == "field":
            yield node["value"]
        node = node.get("children", ())
    for child in node if isinstance(node, list | tuple) else ():
        yield from _fields(child)
