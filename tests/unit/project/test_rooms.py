"""Which room may import which, read from the code; and docs/architecture.md names every room.

A room is a folder, a nested one by itself, or a module at the root of its package.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

CHECKOUT = Path(__file__).resolve().parents[3]

# Top to bottom: a room may import the rooms in the rows below its own, none in its row and none above, so no circle
# passes. Rooms that are joined by `+` import each other: folders that are one room still.
ORDER: Final = {
    "archive": (
        "emf native proof",
        "coverage store",
        "aws format",
        "class_archive compression logs retry roles",
        "access",
        "answers checksum clock properties_file",
        "errors wording",
    ),
    "consumer": (
        "command_line main",
        "daemon+daemon.readers+daemon.watching expire restore status",
        "daemon.prepared forks",
        "leases preflight serving",
        "processor",
        "evidence",
        "archived services",
        "dedupe last_word pipe settings stream",
    ),
    "compaction": (
        "spark_submit",
        "command_line",
        "command proposal vacuum",
        "days",
        "dry_run",
        "ddl recheck report rewrite",
        "pointing",
        "audit naming",
        "comparison producers spark",
        "job",
        "events glue iceberg",
        "shards",
        "hours rules",
        "publish tasks+tasks.ids typed.files",
        "typed+typed.events+typed.straight",
        "inventory",
        "dealing stream verdict",
    ),
    "minutebook": ("__main__", "__init__", "front_door", "command_line", "cat reader"),
}
# Rooms that may import less than the order allows.
LESS: Final = {
    "minutebook.format": "compression errors",  # values and bytes
    "minutebook.coverage": "errors format",
    "minutebook.proof": "coverage errors format store",
    "consumer.expire": "archived settings stream",  # a command knows no other one
    "consumer.restore": "archived leases settings stream",
    "consumer.status": "archived leases settings stream",
    "consumer.leases": "settings",
}
# Imports of other packages. Everybody may import `archive`; consumer and compaction never import each other.
ACROSS: Final = {
    "minutebook.cli": "consumer.command_line consumer.daemon.prepared "
    "compaction.commands.command_line compaction.spark demo",
    "minutebook.cat": "compaction.inventory compaction.job compaction.tasks",
    "minutebook.reader": "compaction.hours compaction.publish compaction.tasks",
    "compaction.spark_submit": "minutebook.cli",  # the same commands as a person types
}
_OURS: Final = frozenset({*ORDER, "benchmarks", "demo", "docsite", "tests"})


@cache
def _room(name: str) -> str:
    """Return the room of a dotted name: its folder, or its module at the root of its package."""
    package, *rest = name.split(".")
    path, folders = CHECKOUT / package, [package]
    for word in rest:
        path /= word
        if not path.is_dir():
            break
        folders.append(word)
    if len(folders) > 1 or package not in ORDER:
        return ".".join(folders)
    return f"{package}.{rest[0] if rest and path.with_suffix('.py').is_file() else '__init__'}"


def _files(package: str) -> dict[str, list[Path]]:
    """Return the files of each room of a package."""
    rooms: dict[str, list[Path]] = {}
    for path in sorted((CHECKOUT / package).rglob("*.py")):
        rooms.setdefault(_room(".".join(path.relative_to(CHECKOUT).with_suffix("").parts)), []).append(path)
    return rooms


ROOMS: Final = {room: files for package in ORDER for room, files in _files(package).items()}


def _imports(path: Path) -> Iterator[str]:
    """Yield the rooms that a file imports, also within functions and for the type checker alone."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names = [f"{node.module}.{name}" for name in names]
        yield from (_room(name) for name in names if name.split(".")[0] in _OURS)


def _allowed(room: str) -> set[str]:
    package, _, own = room.partition(".")
    rows = ORDER[package]
    at = next((at for at, row in enumerate(rows) if own in re.split(r"[ +]", row)), len(rows))
    below = re.split(r"[ +]", LESS[room] if room in LESS else " ".join(rows[at + 1 :]))
    joined = [name for row in rows for group in row.split() if own in group.split("+") for name in group.split("+")]
    return {room, *(f"{package}.{name}" for name in [*below, *joined]), *ACROSS.get(room, "").split()}


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_those_below_it(room: str) -> None:
    """Nested folders count by themselves, so there is no circle between folders and no import from below."""
    imported = {(path.name, name) for path in ROOMS[room] for name in _imports(path)}
    is_archive = room.startswith("archive.")
    assert not {
        (file, name)
        for file, name in imported
        if name not in _allowed(room) and (is_archive or not name.startswith("archive."))
    }


@pytest.mark.parametrize("package", ORDER)
def test_the_order_names_each_room_once(package: str) -> None:
    """A room that is gone leaves no place behind, and a new one gets a place."""
    named = [f"{package}.{name}" for row in ORDER[package] for name in re.split(r"[ +]", row)]
    rooms = {room for room in ROOMS if room.startswith(f"{package}.")}
    assert len(named) == len(set(named))
    assert set(named) | {f"{package}.__init__"} == rooms


def test_exceptions_are_of_rooms_that_exist() -> None:
    """And so are those that they name."""
    less = {f"{room.split('.')[0]}.{name}" for room, names in LESS.items() for name in names.split()}
    across = {name for names in ACROSS.values() for name in names.split()} - {"demo"}
    assert {*LESS, *ACROSS, *less, *across} <= set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_a_folder_says_what_is_in_it(room: str) -> None:
    """Its `__init__` has a docstring, and so has a module that is a room."""
    (init,) = [path for path in ROOMS[room] if path.name == "__init__.py"] or ROOMS[room]
    assert ast.get_docstring(ast.parse(init.read_text()))


def test_the_page_names_every_room() -> None:
    """The tree of docs/architecture.md names each room of the packages, and none that is gone."""
    block = (CHECKOUT / "docs" / "architecture.md").read_text().split("```")[1]
    named, parents = set(), ["", ""]
    for line in block.splitlines():
        entry = re.match(r"( {0,4})([a-z]\S*(?:, \S+)*)(?:  |$)", line)  # what continues a text stands further right
        if entry is None:
            continue
        depth = len(entry[1]) // 2
        for name in entry[2].split(", "):
            full = ".".join([*parents[:depth], name.rstrip("/")])
            if depth > 0:
                named.add(full)
        parents[depth:] = [entry[2].rstrip("/")]
    assert named == {room for room in ROOMS if not room.endswith("__")}
