"""The tests that concern a module: those whose path mirrors its own, then those that import it, the nearest first."""

import ast
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tests.mutations.tree import CODE, ROOT

_RINGS: Final = ("tests/unit", "tests/property")


class Concerned(NamedTuple):
    """Test files, relative to the root: `near` ones say most in a few seconds, and take little of them."""

    near: list[str]
    far: list[str]


def concerned_by(module: str) -> Concerned:
    """Return the tests that concern a module, which is a path such as `minutebook/coverage/chain.py`."""
    distances = _distances(importers(), module)
    path = Path(module)
    folder = ROOT / "tests/unit" / path.parent
    mirrors = sorted(folder.glob(f"test_{path.stem}*.py"))
    near = [each.relative_to(ROOT).as_posix() for each in [*mirrors, *sorted(folder.glob("test_*.py"))]]
    tests = sorted((test for test in distances if _is_test(test)), key=lambda test: (distances[test], test))
    near += [test for test in tests if distances[test] == 1]
    far = [test for test in tests if test not in near]
    return Concerned(list(dict.fromkeys(near)), far)


def importers() -> Mapping[str, set[str]]:
    """Return which files import each file of the product and its tests."""
    files = {path.relative_to(ROOT).as_posix() for part in CODE for path in (ROOT / part).rglob("*.py")}
    importing: dict[str, set[str]] = defaultdict(set)
    for file in files:
        for name in _imported(ast.parse((ROOT / file).read_text())):
            imported = name.replace(".", "/") + ".py"
            if imported in files:
                importing[imported].add(file)
    return importing


def _imported(tree: ast.Module) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def _distances(importing: Mapping[str, set[str]], module: str) -> dict[str, int]:
    distances, ring = {module: 0}, {module}
    while ring:
        ring = {file for each in ring for file in importing.get(each, ())} - distances.keys()
        distances |= dict.fromkeys(ring, max(distances.values()) + 1)
    return distances


def _is_test(file: str) -> bool:
    return file.startswith(_RINGS) and Path(file).name.startswith("test_")
