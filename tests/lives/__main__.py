"""Live many lives: `python -m tests.lives --lives 2000 --seed 1`. Prints each violation with its shortest history."""

import argparse
import sys

import structlog

from tests.lives.life import live, shortest


def main(arguments: list[str]) -> int:
    """Live; return 1 if anything was violated."""
    parser = argparse.ArgumentParser(prog="python -m tests.lives")
    parser.add_argument("--lives", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1, help="the first life's; each next one has the next")
    parser.add_argument("--days", type=int, default=20)
    options = parser.parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    violations = clean = nights = 0
    for seed in range(options.seed, options.seed + options.lives):
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
    sys.stdout.write(f"{options.lives} lives, {nights} nights, {clean} clean verdicts, {violations} violations\n")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
