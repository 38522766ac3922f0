"""Cut many histories: `python -m tests.cuts --histories 100000 --seed 1`. Prints what is on no side, or on both."""

import argparse
import sys

from tests.cuts.history import History
from tests.seeds import parse_seeds


def main(arguments: list[str]) -> int:
    """Cut; return 1 if anything was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.cuts")
    options, seeds = parse_seeds(parser, arguments, "histories", 1000)
    wrong = divided = late = 0
    for seed in seeds:
        outcome = History(seed).run()
        divided += bool(outcome.cut.positions)
        late += outcome.cut.through_ms > outcome.cut.at_ms
        wrong += bool(outcome.wrong)
        sys.stdout.writelines(f"seed {seed}: {line}\n" for line in outcome.wrong[:3])
    sys.stdout.write(
        f"{options.count} histories, {divided} with a divided shard, {late} with records behind the cut's time, "
        f"{wrong} wrong\n"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
