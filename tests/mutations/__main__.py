"""Apply each mutation to a copy of the tree and demand that it is noticed: `python -m tests.mutations [NAME...]`.

By the tests that it names (`--by tests`), or by the simulation in its mode (`--by simulation`, which prints how many
histories that took). `--by property` only reports what the property ring notices. `--generate minutebook/coverage`
makes mutants of a file or a folder from its syntax tree, as many as the minutes allow. Exit code 1 when one survives.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.mutations.catalogue import MUTATIONS
from tests.mutations.mutation import Mutation, mutated
from tests.mutations.noticing import Verdict, by_property, by_simulation, by_tests, pass_all
from tests.mutations.surviving import search
from tests.mutations.tree import Tree
from tests.simulation.modes import parse_modes


def main(arguments: Sequence[str]) -> int:
    """Run the mutations whose names contain any of the arguments, all without arguments."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--by", choices=("tests", "property", "simulation"), default="tests")
    parser.add_argument(
        "--modes", type=parse_modes, default="all", metavar="MODE,...", help="of the simulation (all)"
    )
    parser.add_argument("--seeds", default="0..20000", metavar="A..B", help="of the simulation (0..20000)")
    parser.add_argument("--workers", default="2", help="processes of the simulation (2)")
    parser.add_argument("--generate", metavar="PATH", help="make mutants of this file or folder instead")
    parser.add_argument("--minutes", type=float, default=5, help="for generated mutants (5)")
    parser.add_argument("--seed", type=int, default=1, help="of the order of generated mutants (1)")
    options = parser.parse_args(arguments)
    chosen = [
        mutation
        for mutation in MUTATIONS
        if (not options.names or any(name in mutation.name for name in options.names)) and _is_for(mutation, options)
    ]
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        tree = Tree(Path(folder))
        if options.generate is not None:
            return 1 if search(tree, options.generate, options.minutes, options.seed) else 0
        if options.by == "tests" and not pass_all(tree, chosen):
            sys.stdout.write("the tests fail without any mutation: mend that first\n")
            return 1
        noticed = [_show(tree, mutation, _judge(options)) for mutation in chosen]
    sys.stdout.write(f"{len(chosen)} mutations, {sum(noticed)} noticed\n")
    return 0 if options.by == "property" or (chosen and all(noticed)) else 1


def _is_for(mutation: Mutation, options: argparse.Namespace) -> bool:
    if options.by == "simulation":
        return mutation.mode in options.modes
    return bool(mutation.tests) or options.by == "property"


def _judge(options: argparse.Namespace) -> Callable[[Tree, Mutation], Verdict]:
    if options.by == "simulation":
        return lambda tree, mutation: by_simulation(tree, mutation, options.seeds, options.workers)
    return by_tests if options.by == "tests" else by_property


def _show(tree: Tree, mutation: Mutation, search: Callable[[Tree, Mutation], Verdict]) -> bool:
    with tree.broken_by(mutated(mutation.changes)):
        verdict = search(tree, mutation)
    sys.stdout.write(f"{verdict.word:>9}  {mutation.name}  {verdict.remark}".rstrip() + "\n")
    sys.stdout.flush()
    return verdict.noticed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
