"""The house: who may import whom, and how large rooms and files may grow. Read from the code, not from its claims."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

CHECKOUT = Path(__file__).resolve().parents[3]
PACKAGES: Final = ("archive", "consumer", "compaction", "minutebook")
_OURS: Final = frozenset({*PACKAGES, "demo", "docsite", "benchmarks", "tests"})
_MOST_LINES = 300

# A room or a module at the root of its package -> what it may import of its package. Whoever is not named here may
# import nothing. The consumer and the nightly side may import all of `archive` beside, and never each other.
DIRECTIONS: Final = {
    "archive.properties_file": "errors",
    "archive.emf": "format",
    "archive.logs": "clock",
    "archive.access": "properties_file",
    "archive.class_archive": "errors",
    "archive.compression": "errors",
    "archive.retry": "errors clock",
    "archive.roles": "access answers",
    "archive.aws": "access answers checksum errors retry roles",
    "archive.kinesis": "aws clock retry",
    "archive.format": "errors compression",
    "archive.native": "format",
    "archive.coverage": "errors format",
    "archive.store": "access checksum errors retry aws compression format",
    "archive.proof": "errors format coverage store",
    "archive.published": "errors format store",
    "archive.owner": "errors format store",
    "archive.remote_properties": "errors properties_file store",
    "archive.archive_settings": "access errors owner remote_properties store",
    "consumer.archived": "stream",
    "consumer.leases": "settings",
    "consumer.preflight": "archived settings stream",
    "consumer.worker": "",
    "consumer.child_logs": "",
    "consumer.liveness": "child_logs leases worker",
    "consumer.monitoring": "child_logs settings worker",
    "consumer.daemon": "archived child_logs forks leases liveness monitoring preflight settings stream worker",
    "consumer.status": "archived leases settings stream",
    "consumer.restore": "archived leases settings stream",
    "consumer.expire": "archived settings stream",
    "consumer.pipe": "",
    "consumer.services": "settings stream",
    "consumer.evidence": "archived services settings stream",
    "consumer.processor": "archived dedupe pipe evidence services settings stream",
    "consumer.command_line": "daemon monitoring preflight status restore expire settings",
    "consumer.serving": "dedupe evidence pipe processor services settings stream",
    "consumer.main": "exit_line serving",
    "consumer.forks": "exit_line pipe processor serving settings stream",
}
# What people call, at the top of both sides: whole names, for each imports of several packages.
FRONT: Final = {
    "minutebook.__init__": "minutebook.front_door",
    "minutebook.__main__": "minutebook.main",
    "minutebook.front_door": "minutebook.command_line consumer.command_line compaction.command_line "
    "consumer.daemon compaction.spark demo",
    "minutebook.command_line": "minutebook.cat",
}
_NIGHTLY: Final = (  # each row may import the rows below it, and nothing of its own row
    "command_line",
    "command proposal vacuum",
    "days",
    "dry_run",
    "report rewrite recheck ddl",
    "pointing",
    "audit naming",
    "spark producers comparison",
    "job",
    "iceberg glue events",
    "shards",
    "rules hours",
    "tasks publish",
    "typed",
    "inventory",
    "stream verdict dealing",
)


def _allowed(room: str) -> set[str]:
    if room == "compaction.spark_submit":  # spark-submit starts the same commands as a person does
        return {"minutebook.main", "minutebook.front_door", "compaction.command_line"}
    if room.startswith("minutebook."):
        return {room, *FRONT.get(room, "").split()}
    package, _, name = room.partition(".")
    lower = [" ".join(_NIGHTLY[n + 1 :]) for n, row in enumerate(_NIGHTLY) if name in row.split()]
    names = " ".join(lower) if package == "compaction" else DIRECTIONS.get(room, "")
    return {room, *(f"{package}.{other}" for other in names.split())}


def _imports(path: Path) -> Iterator[str]:
    """Yield what a file imports of ours, also for the type checker alone, as room or module at a package's root."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{name}" for name in names]
            assert node.level == 0, "imports are absolute"
        for name in names:
            head, *rest = name.split(".")
            if head in _OURS:
                yield f"{head}.{rest[0]}" if rest and head in PACKAGES else head


def _rooms(package: str) -> list[str]:
    paths = [path for path in (CHECKOUT / package).iterdir() if path.suffix == ".py" or path.is_dir()]
    return sorted(f"{package}.{path.stem}" for path in paths if path.stem != "__pycache__")


def _files(room: str) -> list[Path]:
    path = CHECKOUT.joinpath(*room.split("."))
    return sorted(path.glob("**/*.py")) if path.is_dir() else [path.with_suffix(".py")]


@pytest.mark.parametrize("room", [room for package in PACKAGES for room in _rooms(package)])
def test_a_room_imports_in_one_direction(room: str) -> None:
    """Only what the table grants it; of `archive`, everybody may import everything."""
    found = {(path.name, name) for path in _files(room) for name in _imports(path)}
    package = room.partition(".")[0]
    assert not {
        (file, name)
        for file, name in found
        if name not in _allowed(room) and (package == "archive" or not name.startswith("archive."))
    }


@pytest.mark.parametrize("package", PACKAGES)
def test_every_folder_is_a_room_that_says_what_is_in_it(package: str) -> None:
    """An `__init__` with a docstring."""
    folders = {path.parent for path in (CHECKOUT / package).glob("**/*.py")}
    assert all(ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) for folder in folders)


@pytest.mark.parametrize("package", [*PACKAGES, "demo", "docsite", "benchmarks", "tests"])
def test_no_file_is_too_long(package: str) -> None:
    """What needs more lines is two modules."""
    files = (CHECKOUT / package).glob("**/*.py")
    assert not {path.name for path in files if len(path.read_text().splitlines()) > _MOST_LINES}
