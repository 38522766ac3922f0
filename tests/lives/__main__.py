"""Live many lives: `python -m tests.lives --lives 2000 --seed 1`. Prints each violation with its shortest history."""

import argparse
import sys

from tests.lives.life import live, shortest
from tests.seeds import parse_seeds


def main(arguments: list[str]) -> int:
    """Live; return 1 if anything was violated."""
    parser = argparse.ArgumentParser(prog="python -m tests.lives")
    parser.add_argument("--days", type=int, default=20)
    options, seeds = parse_seeds(parser, arguments, "lives")
    violations = clean = nights = 0
    for seed in seeds:
        life, why = live(seed, days=options.days)
        nights, clean = nights + life.counts["nights"], clean + life.counts["clean"]
        if why:
            violations += 1
            acts = shortest(seed, life.acts, days=options.days)
            life, why = live(seed, days=options.days, acts=acts)
            sys.stdout.write("\n".join([f"seed {seed}: {why}", *map(str, acts), *life.log]) + "\n")
        for line in life.moved:
            sys.stdout.write(f"seed {seed}: judged again though nothing happened: {line}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{options.count} lives, {nights} nights, {clean} clean verdicts, {violations} violations\n")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
