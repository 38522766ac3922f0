"""Follow many histories: `python -m tests.follows --histories 100 --seed 1`. Prints what is doubled, lost or gone."""

import argparse
import sys
from typing import Final

from tests.follows.history import run_history
from tests.seeds import parse_seeds

_TOLD: Final = 100
"""After so many histories a line says how far it is."""


def main(arguments: list[str]) -> int:
    """Follow; return 1 if anything was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.follows")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--at-midnights", action="store_true", help="a half of the steps about each of two midnights")
    options, seeds = parse_seeds(parser, arguments, "histories")
    wrong = commits = 0
    for number, seed in enumerate(seeds, 1):
        outcome = run_history(seed, steps=options.steps, at_midnights=options.at_midnights)
        wrong, commits = wrong + bool(outcome.wrong), commits + outcome.commits
        if outcome.wrong:
            sys.stdout.write("\n".join([f"seed {seed}", *outcome.log, *outcome.wrong]) + "\n")
        if number % _TOLD == 0 or number == len(seeds) or outcome.wrong:
            sys.stdout.write(f"{number} histories, {commits} commits, {wrong} wrong\n")
            sys.stdout.flush()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
