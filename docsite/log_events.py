"""Which events the product logs, read from its code: every call of a logger, with its level and its keys."""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

PACKAGES: Final = ("consumer", "compaction", "minutebook")
_LEVELS: Final = {
    "debug": "debug",
    "info": "info",
    "warning": "warning",
    "error": "error",
    "exception": "error",
    "critical": "error",
}
_SEVERITY: Final = ("error", "warning", "info", "debug")
_NO_KEYS: Final = frozenset({"exc_info", "stack_info"})


@dataclass(slots=True)
class LogEvent:
    """One event: its levels, the keys that its calls name, and the modules that log it."""

    name: str
    levels: set[str] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)
    modules: set[str] = field(default_factory=set)

    @property
    def level(self) -> str:
        """The gravest level it is logged at."""
        return next(level for level in _SEVERITY if level in self.levels)


@cache
def log_events(checkout: Path) -> tuple[LogEvent, ...]:
    """Return every event of the product in the order of names.

    An event that is passed on as a value (`ProcessorEvent`, `StalledShard`) is logged as an error by its receiver.
    """
    trees = {
        path: ast.parse(path.read_text(encoding="utf-8"))
        for package in PACKAGES
        for path in sorted((checkout / package).glob("**/*.py"))
    }
    everywhere = _constants(trees.values())
    events: dict[str, LogEvent] = {}
    for path, tree in trees.items():
        constants = {**everywhere, **_constants([tree])}  # two modules may use one name
        module = ".".join(path.relative_to(checkout).with_suffix("").parts)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                for name, level in _logged(tree, node, constants):
                    event = events.setdefault(name, LogEvent(name))
                    event.levels.add(level)
                    event.keys.update(key.arg for key in node.keywords if key.arg and key.arg not in _NO_KEYS)
                    event.modules.add(module)
    for event in events.values():
        event.keys.discard("event")
    return tuple(sorted(events.values(), key=lambda event: event.name))


def _logged(tree: ast.Module, call: ast.Call, constants: dict[str, set[str]]) -> Iterator[tuple[str, str]]:
    """Yield (event, level) of one call: none when it is no call of a logger."""
    function = call.func
    if isinstance(function, ast.Attribute) and function.attr in _LEVELS and _is_logger(function.value):
        for text in _texts(tree, call.args[0], constants) if call.args else ():
            yield text, _LEVELS[function.attr]
    name = function.id if isinstance(function, ast.Name) else ""
    if name == "write" and call.args:  # consumer/daemon/consume.py: `write = log.error if failed else log.warning`
        for text in _texts(tree, call.args[0], constants):
            yield text, "error" if text.endswith("_failed") else "warning"
    if name == "ProcessorEvent":
        for keyword in call.keywords:
            if keyword.arg == "event":
                yield from ((text, "error") for text in _texts(tree, keyword.value, constants))
    if name == "StalledShard" and call.args:
        level = "warning" if any(keyword.arg == "lock" for keyword in call.keywords) else "error"
        yield from ((text, level) for text in _texts(tree, call.args[0], constants))


def _is_logger(node: ast.expr) -> bool:
    """Return whether this is `log`, `self._log`, `structlog.get_logger()` or one of them with `bind`."""
    if isinstance(node, ast.Call):
        return _is_logger(node.func) or (isinstance(node.func, ast.Attribute) and node.func.attr == "get_logger")
    if isinstance(node, ast.Attribute) and node.attr == "bind":
        return _is_logger(node.value)
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name.lstrip("_") in {"log", "logger"}


def _constants(trees: Iterable[ast.Module]) -> dict[str, set[str]]:
    """Return every module's text constants by name."""
    constants: dict[str, set[str]] = defaultdict(set)
    for tree in trees:
        for node in tree.body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant):
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    if isinstance(target, ast.Name) and isinstance(node.value.value, str):
                        constants[target.id].add(node.value.value)
    return constants


def _texts(tree: ast.Module, node: ast.expr, constants: dict[str, set[str]]) -> Iterator[str]:
    """Yield what an expression may be: a text, a constant, or what a local name was assigned."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp():
            yield from _texts(tree, node.body, constants)
            yield from _texts(tree, node.orelse, constants)
        case ast.Name(id=name) if name in constants:
            yield from constants[name]
        case ast.Name(id=name):
            for other in ast.walk(tree):
                if isinstance(other, ast.Assign) and any(getattr(to, "id", "") == name for to in other.targets):
                    yield from _texts(tree, other.value, constants)
