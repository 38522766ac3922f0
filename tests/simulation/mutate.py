"""Break the product in one way at a time and let the simulation search.

`python -m tests.simulation.mutate [NAME...]` prints how many histories each mutation took. Exit code 1 when one
survives.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.mutations.__main__ import _copy
from tests.simulation.mutation import Mutation
from tests.simulation.mutations import MUTATIONS as PLAIN
from tests.simulation.mutations_sharded import SHARDED
from tests.simulation.sharded_kinds import MODES

_FOUND: Final = re.compile(r"^seed (\d+) \(([^)]*)\): (.*)$", re.MULTILINE)
_VIOLATIONS: Final = 1
MUTATIONS: Final = (*PLAIN, *SHARDED)


def main(arguments: Sequence[str]) -> int:
    """Run the mutations whose names contain any of the arguments, all without arguments."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutate", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument(
        "--modes", default=",".join(MODES), metavar="MODE,...", help="those of these modes (default: all)"
    )
    parser.add_argument("--seeds", default="0..20000", metavar="A..B")
    parser.add_argument("--workers", default="2")
    options = parser.parse_args(arguments)
    modes = options.modes.split(",")
    chosen = [one for one in MUTATIONS if one.mode in modes]
    chosen = [one for one in chosen if not options.names or any(name in one.name for name in options.names)]
    survivors = 0
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        tree = Path(folder) / "tree"
        _copy(tree)
        for mutation in chosen:
            survivors += not _is_caught(tree, mutation, options.seeds, options.workers)
    sys.stdout.write(f"{len(chosen)} mutations, {len(chosen) - survivors} caught\n")
    return 1 if survivors or not chosen else 0


def _is_caught(tree: Path, mutation: Mutation, seeds: str, workers: str) -> bool:
    originals = {change.path: (tree / change.path).read_text() for change in mutation.changes}
    try:
        for change in mutation.changes:
            text = (tree / change.path).read_text()
            if text.count(change.old) != 1:
                sys.stdout.write(f"{'NOT THERE':>9}  {mutation.name}\n")
                return False
            (tree / change.path).write_text(text.replace(change.old, change.new))
        # No bytecode: a mutation of equal size within one second would be served from the cache.
        command = [
            sys.executable,
            "-B",
            "-m",
            "tests.simulation",
            "--seeds",
            seeds,
            "--until-found",
            "--modes",
            mutation.mode,
        ]
        done = subprocess.run(
            [*command, "--every", "0", "--workers", workers], cwd=tree, capture_output=True, text=True, check=False
        )
    finally:
        for path, text in originals.items():
            (tree / path).write_text(text)
    found = [(int(seed), kind, text) for seed, kind, text in _FOUND.findall(done.stdout)]
    if done.returncode != _VIOLATIONS or not found:
        sys.stdout.write(f"{'SURVIVED':>9}  {mutation.name}  {done.stderr[-300:]}\n")
        return False
    seed, kind, text = min(found)
    sys.stdout.write(f"{seed + 1:>9,}  {mutation.name}  ({kind}: {text[:110]})\n")
    sys.stdout.flush()
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
