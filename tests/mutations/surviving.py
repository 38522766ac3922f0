"""The search for generated mutants that no test notices: `python -m tests.mutations --generate archive/coverage`."""

import random
import subprocess
import sys
from collections.abc import Iterator
from typing import Final, NamedTuple

from archive.clock import Clock, SystemClock
from tests.mutations.concerned import Concerned, concerned_by
from tests.mutations.generated import Mutant, mutants_of
from tests.mutations.tree import ROOT, Tree

_FAR_SECONDS: Final = 300
"""What the farther tests may take for one mutant: those that hang have noticed it."""
_PATIENCE: Final = 5
"""So many times as long as without a mutant the nearer tests may take."""
_PYTEST: Final = ("-x", "-q", "-p", "no:cacheprovider", "--tb=no", "--no-header", "--timeout=60")


class Survivor(NamedTuple):
    """A mutant of a file that no test noticed."""

    path: str
    mutant: Mutant


def search(tree: Tree, target: str, minutes: float, seed: int) -> int:
    """Try the mutants of a file or folder in a random order until the time is over; returns how many survived."""
    clock = SystemClock()
    end = clock.monotonic() + 60 * minutes
    chances = [(path, mutant) for path in _files(target) for mutant in mutants_of((ROOT / path).read_text())]
    random.Random(seed).shuffle(chances)
    survivors, tried = [], 0
    tests = {path: concerned_by(path) for path in sorted({path for path, _ in chances})}
    patience = {path: _seconds_without(tree, concerned, clock) for path, concerned in tests.items()}
    for path, mutant in chances:
        if clock.monotonic() > end:
            break
        tried += 1
        if not _is_noticed(tree, path, mutant, tests[path], patience[path]):
            survivors.append(Survivor(path, mutant))
            sys.stdout.write(f"SURVIVED  {path}:{mutant.line}  {mutant.change}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{len(chances)} mutants, {tried} tried, {len(survivors)} survived\n")
    return len(survivors)


def _files(target: str) -> Iterator[str]:
    path = ROOT / target
    for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
        yield file.relative_to(ROOT).as_posix()


def _seconds_without(tree: Tree, tests: Concerned, clock: Clock) -> float:
    begin = clock.monotonic()
    if not _passes(tree, tests.near, 3600):
        raise SystemExit(f"these tests fail without any mutant, mend that first: {' '.join(tests.near)}")
    return 10 + _PATIENCE * (clock.monotonic() - begin)


def _is_noticed(tree: Tree, path: str, mutant: Mutant, tests: Concerned, seconds: float) -> bool:
    with tree.broken_by({path: mutant.text}):
        return not (_passes(tree, tests.near, seconds) and _passes(tree, tests.far, _FAR_SECONDS))


def _passes(tree: Tree, tests: list[str], seconds: float) -> bool:
    try:
        return not tests or tree.run("pytest", *_PYTEST, *tests, timeout=seconds).returncode == 0
    except subprocess.TimeoutExpired:
        return False
