"""Apply each mutation to a copy of the tree and demand that a test notices: `python -m tests.mutations [NAME...]`.

`--histories` runs the property ring on each mutation as well and only reports what it noticed. Exit code 1 when a
mutation survives its named tests.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.mutations.catalogue import HISTORIES, MUTATIONS
from tests.mutations.mutation import Mutation

_ROOT = Path(__file__).resolve().parents[2]
_PARTS = ("archive", "consumer", "compaction", "demo", "tests", "pyproject.toml", "minutebook.py", "properties")
_TESTS_FAILED = 1
"""pytest's exit code for failed tests; anything else (no test found, an import error) proves nothing."""


def main(arguments: Sequence[str]) -> int:
    """Run the mutations whose names contain any of the arguments, all without arguments."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--histories", action="store_true", help="ask the property ring, too")
    options = parser.parse_args(arguments)
    chosen = [one for one in MUTATIONS if not options.names or any(name in one.name for name in options.names)]
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        tree = Path(folder) / "tree"
        _copy(tree)
        wanted = sorted({test for mutation in chosen for test in mutation.tests})
        if _pytest(tree, wanted) != 0:
            sys.stdout.write("the tests fail without any mutation: mend that first\n")
            return 1
        survivors = [mutation for mutation in chosen if not _is_noticed(tree, mutation, histories=options.histories)]
    sys.stdout.write(f"{len(chosen)} mutations, {len(chosen) - len(survivors)} noticed\n")
    return 1 if survivors or not chosen else 0


def _is_noticed(tree: Path, mutation: Mutation, *, histories: bool) -> bool:
    target = tree / mutation.path
    original = target.read_text()
    target.write_text(original.replace(mutation.old, mutation.new))
    try:
        noticed = _pytest(tree, mutation.tests) == _TESTS_FAILED
        by_histories = _pytest(tree, [HISTORIES], "--confcutdir=.") == _TESTS_FAILED if histories else None
    finally:
        target.write_text(original)
    verdict = "noticed " if noticed else "SURVIVED"
    remark = "" if by_histories is None else f"  (histories: {'noticed' if by_histories else 'not noticed'})"
    sys.stdout.write(f"{verdict}  {mutation.name}{remark}\n")
    sys.stdout.flush()
    return noticed


def _copy(tree: Path) -> None:
    tree.mkdir()
    for part in _PARTS:
        source = _ROOT / part
        if source.is_dir():
            shutil.copytree(source, tree / part, ignore=shutil.ignore_patterns("__pycache__", ".*"))
        elif source.exists():
            shutil.copy2(source, tree / part)


def _pytest(tree: Path, tests: Sequence[str], configuration: str = "--noconftest") -> int:
    # No bytecode: a mutation of equal size within one second would be served from the cache. Without conftest.py the
    # tests start faster, and they need no server.
    command = [sys.executable, "-B", "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--timeout=120"]
    command += [configuration, *tests]
    environment = {**os.environ, "MINUTEBOOK_SEARCH": "first"}
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, check=False, timeout=600)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
