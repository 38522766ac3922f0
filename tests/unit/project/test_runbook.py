"""The runbook has a section for every line that can end a task, and for every error that ends a processor."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from docsite.code_pages import error_kinds
from minutebook import errors

CHECKOUT: Final = Path(__file__).resolve().parents[3]
RUNBOOK: Final = (CHECKOUT / "docs" / "runbook.md").read_text()
_FILES: Final = sorted((CHECKOUT / "consumer").glob("**/*.py"))
_TREES: Final = {path: ast.parse(path.read_text()) for path in _FILES}
_LEVELS: Final = frozenset({"error", "exception"})


def _constants() -> dict[str, str]:
    """Return every module's text constants by name."""
    return {
        target.id: node.value.value
        for tree in _TREES.values()
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }


def _texts(tree: ast.Module, node: ast.expr, constants: dict[str, str]) -> Iterator[str]:
    """Yield what an expression may be: a text, a constant, or what a local name was assigned."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from _texts(tree, node.body, constants)
        yield from _texts(tree, node.orelse, constants)
    elif isinstance(node, ast.Name) and node.id in constants:
        yield constants[node.id]
    elif isinstance(node, ast.Name):
        for found in ast.walk(tree):
            if isinstance(found, ast.Assign) and any(
                isinstance(to, ast.Name) and to.id == node.id for to in found.targets
            ):
                yield from _texts(tree, found.value, constants)


def _is_failed_preflight(tree: ast.Module) -> bool:
    return any(isinstance(node, ast.Constant) and node.value == "preflight_failed" for node in ast.walk(tree))


def _events() -> set[str]:
    """Return the events of error lines, and those that `daemon_restarting` and `gave_up` are made of."""
    constants = _constants()
    found: set[str] = set()
    for tree in _TREES.values():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if (name in _LEVELS and isinstance(node.func, ast.Attribute)) or name == "StalledShard":
                found.update(text for argument in node.args[:1] for text in _texts(tree, argument, constants))
            if name == "ProcessorEvent":
                for keyword in node.keywords:
                    if keyword.arg == "event":
                        found.update(_texts(tree, keyword.value, constants))
        if _is_failed_preflight(tree):
            found.add("preflight_failed")
    return found


def _raised() -> set[str]:
    """Return the errors of the tree that the consumer or what it calls raises."""
    kinds = {kind.__name__ for kind in error_kinds()}
    texts = [
        path.read_text() for path in [*_FILES, *(CHECKOUT / "archive").glob("**/*.py")] if path.name != "errors.py"
    ]
    return {kind for kind in kinds if any(re.search(rf"\b{kind}\b", text) for text in texts)}


def _headings(level: int) -> set[str]:
    return set(re.findall(rf"^{'#' * level} (\w+)$", RUNBOOK, re.MULTILINE))


def test_the_collection_finds_what_is_known() -> None:
    """A test that finds nothing would pass for ever."""
    assert _events() >= {
        "gave_up",
        "processor_failed",
        "processor_killed",
        "kcl_skipped",
        "kcl_denied",
        "daemon_out_of_memory",
        "shard_without_reader",
        "near_retention",
    }
    assert _raised() >= {"SafetyRefusal", "StoreUnavailable", "BufferTooOld"}


def test_every_line_that_can_end_a_task_has_a_section() -> None:
    """With the way out."""
    assert _events() - _headings(2) == set()


def test_every_error_has_a_section() -> None:
    """A lost lease is no failure, and the catalog is the nightly job's."""
    assert _raised() - _headings(3) - {"LeaseLost", "CatalogRefused", "CatalogUnavailable"} == set()


def test_each_event_to_alarm_on_has_a_section() -> None:
    """Neither an event without a way out, nor a section about an event that nobody is told to look for."""
    operations = (CHECKOUT / "docs/operations.md").read_text()
    alarms = re.findall(r"^\| `([a-z_]+)` \| (?:error|warning) \|", operations, re.MULTILINE)
    assert len(alarms) > 10
    assert sorted(_headings(2)) == sorted(alarms)


def test_every_error_of_a_section_exists() -> None:
    """A page of what was renamed helps nobody."""
    assert all(hasattr(errors, name) for name in _headings(3))


def test_what_names_a_section_names_one_that_is_there() -> None:
    """A next step that leads nowhere is none."""
    named = {anchor for path in _FILES for anchor in re.findall(r"minutebook docs runbook (\w+)", path.read_text())}
    assert named
    assert named <= _headings(2)
