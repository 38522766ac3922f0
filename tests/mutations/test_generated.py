"""Mutants from the syntax tree, and the tests that concern a module."""

import ast
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from textwrap import dedent

import pytest

from tests.mutations.concerned import concerned_by
from tests.mutations.editing import PlaceError, replace
from tests.mutations.generated import mutants_of
from tests.mutations.surviving import search
from tests.mutations.tree import ROOT, Tree

SOURCE = '''
LIMIT = 3


class Buffer:
    """Holds."""

    def add(self, size: int) -> bool:
        """Add what has room."""
        if self.size + size > LIMIT and not self.closed:  # a remark
            self.log.warning("full", left=1 - 1)
            raise ValueError(f"{size + 1} is too much")
        self.check(
            size,
            is_last=True,
        )
        return self.size
'''


def changes(source: str) -> list[str]:
    """Return what each mutant changes."""
    return [mutant.change for mutant in mutants_of(dedent(source))]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a < b", ["a < b  ->  a <= b", "a < b  ->  a >= b"]),
        ("a == b", ["a == b  ->  a != b"]),
        ("a and b", ["a and b  ->  a or b", "a and b  ->  b", "a and b  ->  a"]),
        ("not a", ["not a  ->  a"]),
        ("x = 0", ["0  ->  1"]),
        ("x = 60", ["60  ->  61"]),
        ("x = True", ["True  ->  False"]),
        ("x = a - b", ["a - b  ->  a + b"]),
        ("x = a if b else c", ["a if b else c  ->  a", "a if b else c  ->  c"]),
        ("min(a)", ["min(a)  ->  pass", "min(a)  ->  max(a)"]),
        ("a.b = c", ["a.b = c  ->  pass"]),
        ("def f() -> A:\n    return a", ["return a  ->  return None"]),
    ],
)
def test_each_operator(source: str, expected: list[str]) -> None:
    """Comparisons, conditions, constants, sums, and statements that are left out."""
    assert changes(source) == expected


def test_what_only_words_a_message_stays() -> None:
    """Log lines, texts of errors and annotations: a test that notices those would only repeat them."""
    assert [change.partition("  ->  ")[0] for change in changes(SOURCE)] == [
        "3",
        *["self.size + size > LIMIT and (not self.closed)"] * 3,
        *["self.size + size > LIMIT"] * 2,
        "self.size + size",
        "not self.closed",
        "raise ValueError(f'{size + 1} is too much')",
        "self.check(size, is_last=True)",
        "True",
        "return self.size",
    ]


def test_every_mutant_of_a_module_is_other_code() -> None:
    """It parses, differs from the module, and is named by its line."""
    source = (ROOT / "minutebook/retry.py").read_text()
    mutants = mutants_of(source)
    assert len(mutants) > 10
    assert ast.dump(ast.parse(source)) not in {ast.dump(ast.parse(mutant.text)) for mutant in mutants}
    assert all(mutant.line <= source.count("\n") for mutant in mutants)


@pytest.mark.parametrize(
    ("definition", "old", "new", "changed"),
    [
        ("LIMIT", "", "4", "LIMIT = (4)"),
        ("Buffer.add", "self.size+size > LIMIT", "False", "if (False) and not self.closed:  # a remark"),
        ("Buffer.add", "self.check(size, is_last=True)", "", "        pass\n        return"),
        (
            "Buffer.add",
            "self.check(size, is_last=True)",
            "if size:\n    OLD",
            "if size:\n            self.check(size",
        ),
        ("Buffer.add", "is_last=True", "", "            **{},\n"),
        ("Buffer.add", "self.size + size", "max(OLD, 1)", "if (max(self.size + size, 1)) > LIMIT"),
        ("Buffer.add", "", "return True", '"""Add what has room."""\n        return True\n'),
    ],
)
def test_code_is_found_on_the_syntax_tree(definition: str, old: str, new: str, changed: str) -> None:
    """However it is wrapped: an expression, statements, an argument, a whole body, a constant."""
    text = replace(SOURCE, definition, old, new)
    assert changed in text
    ast.parse(text)


@pytest.mark.parametrize(("definition", "old"), [("Buffer.drop", ""), ("Buffer.add", "size"), ("Buffer.add", "x()")])
def test_a_place_that_is_not_there_once_is_an_error(definition: str, old: str) -> None:
    """A mutation that would change something else, or nothing, is refused."""
    with pytest.raises(PlaceError):
        replace(SOURCE, definition, old, "y")


class Notices(Tree):
    """A copy in which the tests notice the mutants of some lines; nothing is run."""

    def __init__(self, *lines: str) -> None:
        self._lines = lines
        self._texts: Mapping[str, str] = {}

    @contextmanager
    def broken_by(self, texts: Mapping[str, str]) -> Iterator[None]:
        """Remember the texts for a while."""
        self._texts = texts
        yield
        self._texts = {}

    def run(self, module: str, *arguments: str, timeout: float | None = None) -> subprocess.CompletedProcess[str]:
        """Fail where one of the lines is not there any more."""
        is_noticed = any(line not in text for text in self._texts.values() for line in self._lines)
        return subprocess.CompletedProcess([module, *arguments, str(timeout)], int(is_noticed))


def test_what_no_test_notices_is_printed_with_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    """And counted; the rest was noticed by the tests that concern the file."""
    path = "minutebook/store/commit.py"
    line = "    if winner.writer == metadata.writer:\n"
    count = len(mutants_of((ROOT / path).read_text()))
    survived = search(Notices(line), path, minutes=5, seed=1)
    *survivors, summary = capsys.readouterr().out.splitlines()
    assert 0 < survived == len(survivors) < count
    assert summary == f"{count} mutants, {count} tried, {survived} survived"
    assert any(re.match(rf"SURVIVED  {path}:[0-9]+  attempts \+= 1  ->  pass", text) for text in survivors)
    assert not any("winner.writer" in text for text in survivors)


def test_the_tests_that_mirror_a_module_come_first() -> None:
    """Then those of its folder and those that import it; who imports it by others is asked about what they missed."""
    near, far = concerned_by("minutebook/coverage/chain.py")
    assert near[0] == "tests/unit/minutebook/coverage/test_chain.py"
    assert "tests/unit/compaction/audit/test_coverage.py" in [*near, *far]
    assert not set(near) & set(far)
