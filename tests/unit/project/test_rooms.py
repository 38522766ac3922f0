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
# passes. consumer and compaction may import all of minutebook beside, and never each other.
ORDER: Final = {
    "minutebook": (
        "__main__",
        "cli",
        "cat",
        "reader",
        "completeness streams_run",
        "archive_settings proof properties_folder",
        "segments",
        "index owner published remote_properties settings",
        "aws.kinesis codec coverage cut emf store",
        "aws format",
        "apply_option class_archive compression kcl_tables logs metrics_server properties_file retry spans terminal",
        "clock errors options wording",
    ),
    "consumer": (
        "command_line",
        "fleet",
        "daemon",
        "forks main",
        "serving",
        "boundaries daemon.prepared processor",
        "cut evidence liveness preflight restore status",
        "archived connections expire leases monitoring services",
        "child_logs dedupe exit_line pipe requests settings stream worker",
    ),
    "compaction": (
        "spark_submit",
        "commands",
        "commands.vacuum",
        "night.days",
        "follow night report",
        "basis",
        "audit",
        "audit.shards audit.stream local spark",
        "audit.rules job live tables.events",
        "tasks",
        "event_ids",
        "columns.files parquet tables",
        "columns.decode",
        "columns inventory",
        "publish shard_groups stream verdict",
    ),
}
# Rooms that may import less than the order allows.
LESS: Final = {
    "minutebook.format": "compression errors",  # values and bytes
    "minutebook.coverage": "errors format",
    "minutebook.proof": "coverage errors format index store",
    "minutebook.reader": "aws clock completeness compression cut errors format index owner published retry segments "
    "store",
    "consumer.expire": "archived connections requests settings stream",  # a command knows no other one
    "consumer.cut": "archived connections leases requests settings stream",
    "consumer.restore": "archived connections leases requests settings stream",
    "consumer.status": "archived connections leases requests settings stream",
    "consumer.leases": "settings",
}
# Whoever starts a process imports the command line, and nobody else.
STARTERS: Final = {"minutebook.__main__", "compaction.spark_submit"}
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
    rows = [row.split() for row in ORDER[package]]
    at = next((at for at, row in enumerate(rows) if own in row), len(rows))
    below = LESS[room].split() if room in LESS else [name for row in rows[at + 1 :] for name in row]
    return {room, *(f"{package}.{name}" for name in below)}


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_those_below_it(room: str) -> None:
    """Nested folders count by themselves, so there is no circle between folders and no import from below."""
    imported = {(path.name, name) for path in ROOMS[room] for name in _imports(path)}
    is_of_a_side = not room.startswith("minutebook.")
    assert not {
        (file, name)
        for file, name in imported
        if name not in _allowed(room)
        and not (is_of_a_side and name.startswith("minutebook.") and name != "minutebook.cli")
        and not (room in STARTERS and name == "minutebook.cli")
        and not (room == "minutebook.cli" and name == "demo")
    }


@pytest.mark.parametrize("package", ORDER)
def test_the_order_names_each_room_once(package: str) -> None:
    """A room that is gone leaves no place behind, and a new one gets a place."""
    named = [f"{package}.{name}" for row in ORDER[package] for name in row.split()]
    rooms = {room for room in ROOMS if room.startswith(f"{package}.")}
    assert len(named) == len(set(named))
    assert set(named) | {f"{package}.__init__"} == rooms


def test_exceptions_are_of_rooms_that_exist() -> None:
    """And so are those that they name."""
    less = {f"{room.split('.')[0]}.{name}" for room, names in LESS.items() for name in names.split()}
    assert {*LESS, *less, *STARTERS} <= set(ROOMS)


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
