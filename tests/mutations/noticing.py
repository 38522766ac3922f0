"""The three that may notice a mutation: the tests that it names, the property ring, and the simulation."""

import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final, NamedTuple

from tests.mutations.mutation import Mutation
from tests.mutations.tree import ROOT, Tree

_PROPERTY_RING: Final = "tests/property/test_processor_histories.py"
_TESTS_FAILED: Final = 1
"""pytest's exit code for failed tests; anything else (no test found, an import error) proves nothing."""
_SHOWN: Final = 2000
_ALL_SECONDS: Final = 3600
"""What all the tests of all mutations may take, also on a machine that does other things."""

_TEST: Final = re.compile(r"^def (test_\w+)\(", re.MULTILINE)
_FOUND: Final = re.compile(r"^seed (\d+) \(([^)]*)\): (.*)$", re.MULTILINE)
_NO_CODE: Final = re.compile(
    r"\b(?:NameError|ImportError|ModuleNotFoundError|SyntaxError|UnboundLocalError|AttributeError|TypeError): .*"
)
"""What comes of a text that fits its place no more: whoever meets it has noticed nothing."""


class Verdict(NamedTuple):
    """Whether a mutation was noticed, and how that is shown: one word, and a remark."""

    noticed: bool
    word: str
    remark: str = ""


@cache
def files_of_tests() -> dict[str, list[str]]:
    """Return the files that define each test function: wherever it lies, a mutation names it by its name alone."""
    files: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for name in _TEST.findall(path.read_text()):
            files[name].append(path.relative_to(ROOT).as_posix())
    return files


def pass_all(tree: Tree, mutations: Sequence[Mutation]) -> bool:
    """Tell whether the tests that the mutations name pass without any of them; says what failed."""
    wanted = _ids(sorted({test for mutation in mutations for test in mutation.tests}))
    done = _run_pytest(tree, *wanted, seconds=_ALL_SECONDS)
    if done.returncode != 0:
        sys.stdout.write(f"{done.stdout[-_SHOWN:]}{done.stderr[-_SHOWN:]}\n")
    return done.returncode == 0


def by_tests(tree: Tree, mutation: Mutation) -> Verdict:
    """Ask the tests that the mutation names."""
    return _pytest(tree, *_ids(mutation.tests))


def by_property(tree: Tree, _mutation: Mutation) -> Verdict:
    """Ask the property ring, which need not know of any mutation."""
    return _pytest(tree, _PROPERTY_RING)


def by_simulation(tree: Tree, mutation: Mutation, seeds: str, workers: str) -> Verdict:
    """Search histories of the mutation's mode until one breaks a promise; the word is how many that took."""
    search = ("--seeds", seeds, "--until-found", "--every", "0", "--workers", workers)
    done = tree.run("tests.simulation", "--modes", mutation.mode or "", *search)
    found = [(int(seed), scenario, text) for seed, scenario, text in _FOUND.findall(done.stdout)]
    if not found:
        return Verdict(noticed=False, word="SURVIVED", remark=done.stderr[-300:])
    seed, scenario, text = min(found)
    if _NO_CODE.search(text):
        return Verdict(noticed=False, word="NO CODE", remark=text)
    return Verdict(noticed=True, word=f"{seed + 1:,}", remark=f"({scenario}: {text[:110]})")


def _ids(names: Iterable[str]) -> list[str]:
    return [f"{path}::{name}" for name in names for path in files_of_tests()[name]]


def _run_pytest(tree: Tree, *tests: str, seconds: float = 600) -> subprocess.CompletedProcess[str]:
    options = ("-x", "-q", "-p", "no:cacheprovider", "--tb=line", "--timeout=120")
    return tree.run("pytest", *options, *tests, timeout=seconds)


def _pytest(tree: Tree, *tests: str) -> Verdict:
    done = _run_pytest(tree, *tests)
    slip = _NO_CODE.search(done.stdout)
    if slip is not None:
        return Verdict(noticed=False, word="NO CODE", remark=slip.group())
    noticed = done.returncode == _TESTS_FAILED
    return Verdict(noticed=noticed, word="noticed" if noticed else "SURVIVED")
