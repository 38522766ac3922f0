"""The search for generated mutants that no test notices: `python -m tests.mutations --generate PATH`."""

import random
import subprocess
import sys
from collections.abc import Iterator
from typing import Final

from minutebook.clock import SystemClock
from tests.mutations.concerned import Concerned, concerned_by
from tests.mutations.generated import Mutant, mutants_of
from tests.mutations.tree import ROOT, Tree

_FAR_SECONDS: Final = 300
"""What the farther tests may take for one mutant: those that hang have noticed it."""
_PYTEST: Final = ("-x", "-q", "-p", "no:cacheprovider", "--tb=no", "--no-header", "--timeout=60")


def search(tree: Tree, target: str, minutes: float, seed: int) -> int:
    """Try the mutants of a file or folder in a random order until the time is over; returns how many survived."""
    clock = SystemClock()
    begin = clock.monotonic()
    chances = [(path, mutant) for path in _files(target) for mutant in mutants_of((ROOT / path).read_text())]
    random.Random(seed).shuffle(chances)
    tests = {path: concerned_by(path) for path in sorted({path for path, _ in chances})}
    if not _passes(tree, sorted({test for each in tests.values() for test in each.near}), 3600):
        raise SystemExit("the tests fail without any mutant: mend that first")
    # As long as all of them take together: a mutant may hang, and one test in it.
    patience, tried, survived = 60 + clock.monotonic() - begin, 0, 0
    for path, mutant in chances:
        if clock.monotonic() - begin > 60 * minutes:
            break
        tried += 1
        if not _is_noticed(tree, path, mutant, tests[path], patience):
            survived += 1
            sys.stdout.write(f"SURVIVED  {path}:{mutant.line}  {mutant.change}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{len(chances)} mutants, {tried} tried, {survived} survived\n")
    return survived


def _files(target: str) -> Iterator[str]:
    path = ROOT / target
    for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
        yield file.relative_to(ROOT).as_posix()


def _is_noticed(tree: Tree, path: str, mutant: Mutant, tests: Concerned, seconds: float) -> bool:
    with tree.broken_by({path: mutant.text}):
        return not (_passes(tree, tests.near, seconds) and _passes(tree, tests.far, _FAR_SECONDS))


def _passes(tree: Tree, tests: list[str], seconds: float) -> bool:
    try:
        return not tests or tree.run("pytest", *_PYTEST, *tests, timeout=seconds).returncode == 0
    except subprocess.TimeoutExpired:
        return False
