"""What is installed: the version, the files beside the code, and next steps that lead somewhere."""

import ast
import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from compaction.commands.command_line import need_compact
from consumer.settings import shipped
from minutebook.errors import SettingsError
from tests.witness.waiting import PATIENCE_SECONDS

CHECKOUT = Path(__file__).resolve().parents[3]
PACKAGES = ("consumer", "compaction", "minutebook")
BUILD = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())


def texts() -> Iterator[tuple[str, str]]:
    """Yield (file, text) of every text in the product's code that is no docstring."""
    for path in (file for name in PACKAGES for file in (CHECKOUT / name).glob("**/*.py")):
        tree = ast.parse(path.read_text())
        alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
                yield path.name, node.value


def test_the_changelog_is_where_the_version_stands() -> None:
    """Its newest heading with a number; the package says the same, and no other file does."""
    newest = re.search(
        BUILD["tool"]["hatch"]["version"]["pattern"], (CHECKOUT / "CHANGELOG.md").read_text(), re.MULTILINE
    )
    assert newest is not None
    assert newest["version"] == importlib.metadata.version("minutebook")
    assert "version" not in BUILD["project"]


def test_nothing_but_the_three_packages_is_installed() -> None:
    """`demo`, `tests` and `benchmarks` would be anybody's modules of these names."""
    assert BUILD["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"] == [*PACKAGES]


def test_the_packages_say_that_they_are_typed() -> None:
    """PEP 561."""
    assert all((CHECKOUT / name / "py.typed").is_file() for name in PACKAGES)


def test_every_page_comes_with_the_package() -> None:
    """The pages of docs/, their schema, and the two files of properties/ that production needs."""
    included = BUILD["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    pages = {f"docs/{path.name}" for path in (CHECKOUT / "docs").iterdir() if path.is_file()}
    folders = {"docs/how-to", "docs/explanation"}
    inside = {f"{folder}/{path.name}" for folder in folders for path in (CHECKOUT / folder).iterdir()}

    assert set(included) == pages | folders | {"properties/logback.xml", "properties/production.properties"}
    assert all(Path(target).name == Path(source).name for source, target in included.items())
    assert {f"docs/{name}.md" for name in shipped.page_names()} == inside | {
        page for page in pages if page.endswith(".md")
    }


def test_messages_name_no_file_that_is_not_installed() -> None:
    """Who installed a wheel has neither docs/ nor properties/ nor make."""
    places = re.compile(r"\b(docs/[a-z-]+\.md|properties/|requirements/|make setup)")
    assert [(file, text) for file, text in texts() if places.search(text) and file != "cli.py"] == []


def from_an_index(text: str) -> list[str]:
    """Return the words of a text by which an installer would look for Minutebook at an index."""
    lines = [line for line in text.splitlines() if re.search(r"\b(pip|pipx|uv|uvx|poetry|conda)\b", line)]
    words = [word.strip("'\"`,;:()") for line in lines for word in line.partition("#")[0].split()]
    commands = re.findall(
        r"\b(?:pipx? install|uvx|uv (?:add|tool install|pip install)|poetry add)(?:\s+-\S+)*\s+minutebook\b(?![-/])",
        text,
    )
    return commands + [word for word in words if re.match(r"minutebook(\[|[=<>~!]=)", word)]


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("pip install minutebook", True),
        ("run pip install 'minutebook[spark]', then", True),
        ("pip install --quiet minutebook==0.1.0", True),
        ("pip install --upgrade minutebook", True),
        ("uv tool install minutebook", True),
        ("uvx minutebook demo", True),
        ("pip install --no-deps dist/minutebook-*.whl", False),
        ("pip install --require-hashes -r requirements/spark.lock", False),
        ("/opt/minutebook/bin/pip install --no-deps x.whl", False),
    ],
)
def test_what_would_ask_an_index(text: str, *, is_one: bool) -> None:
    """The rule of the next test."""
    assert bool(from_an_index(text)) == is_one


def test_nothing_tells_people_to_install_a_name_that_is_not_ours() -> None:
    """Nobody has registered it at PyPI: whoever does gets his code run where a page or a message says so.

    Decision records tell of what once was.
    """
    folders = (
        *PACKAGES,
        "benchmarks",
        "compaction",
        "demo",
        "deploy",
        "docs",
        "docsite",
        "properties",
        "requirements",
    )
    files = [
        path
        for name in folders
        for path in (CHECKOUT / name).rglob("*")
        if path.suffix not in {".class", ".so", ".pyc"}
    ]
    files = [path for path in (*files, *CHECKOUT.iterdir()) if path.is_file() and path.parent.name != "decisions"]
    told = {path.name: from_an_index(path.read_text(errors="replace")) for path in files}
    assert len(files) > 400
    assert {name: words for name, words in told.items() if words} == {}


def test_messages_name_pages_and_sections_that_exist() -> None:
    """A next step that leads nowhere is none."""
    named = [
        match.groups() for _, text in texts() for match in re.finditer(r"(?<!`)minutebook docs ([a-z/-]+)", text)
    ]
    whole = [
        match.groups()
        for _, text in texts()
        for match in re.finditer(r"`minutebook docs ([a-z/-]+)(?: (\w+))?`", text)
    ]
    assert named
    assert whole
    assert {page for (page,) in named} <= set(shipped.page_names())
    assert all(shipped.page(page, section) for page, section in whole)


def test_a_section_ends_where_the_next_one_begins() -> None:
    """With the sections below it."""
    text = shipped.page("operations", "permissions")

    assert text.startswith("## Permissions\n")
    assert "kinesis:GetRecords" in text
    assert "## Logs" not in text
    assert "### StoreRefused" in shipped.page("runbook", "processor_failed")


@pytest.mark.parametrize(("page", "section"), [("nonsense", None), ("operations", "nonsense"), ("../README", None)])
def test_a_page_that_is_not_there(page: str, section: str | None) -> None:
    """The next step names those that are."""
    with pytest.raises(SettingsError, match=r"there is no page|has no section") as caught:
        shipped.page(page, section)

    assert "operations" in caught.value.next_step or "Permissions" in caught.value.next_step


@pytest.mark.parametrize(
    ("absent", "pictures", "named"),
    [
        ({"pyarrow"}, False, "audit needs the extra `compact`: pyarrow not installed"),
        ({"jinja2", "numpy"}, True, "audit needs the extra `compact`: jinja2, numpy not installed"),
        ({"jinja2"}, False, None),
        ({"pyspark"}, True, None),
        (set[str](), True, None),
    ],
)
def test_a_missing_extra_is_one_line(absent: set[str], *, pictures: bool, named: str | None) -> None:
    """It names the extra; the next step is the page that installs it from lock and wheel."""

    def find(name: str) -> object | None:
        return None if name in absent else name

    if named is None:
        need_compact("audit", pictures=pictures, find=find)
        return
    with pytest.raises(SettingsError) as caught:
        need_compact("audit", pictures=pictures, find=find)
    assert str(caught.value) == named
    assert caught.value.next_step == "install compact.lock and the wheel, as `minutebook docs spark` says"


def test_init_prints_the_file_as_it_is() -> None:
    """Byte by byte the file that the tests hold true."""
    done = subprocess.run(
        [Path(sys.executable).with_name("minutebook"), "init"],
        capture_output=True,
        check=True,
        timeout=PATIENCE_SECONDS,
    )

    assert done.stdout == (CHECKOUT / "properties" / "production.properties").read_bytes()


def test_completion_is_offered() -> None:
    """What the script of `--install-completion` asks, is answered."""
    asked = {"_MINUTEBOOK_COMPLETE": "complete_bash", "COMP_WORDS": "minutebook com", "COMP_CWORD": "1"}
    done = subprocess.run(
        [Path(sys.executable).with_name("minutebook")],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )

    assert (done.returncode, done.stdout.split()) == (0, ["compact"])
