"""Live many histories: `python -m tests.boundaries --histories 100000 --seed 1`. Prints those with a violation."""

import argparse
import sys
import traceback
from collections import Counter
from contextlib import nullcontext

from tests.boundaries.history import ACTS, History
from tests.boundaries.mutations import MUTATIONS, without
from tests.boundaries.world import capture_logs
from tests.seeds import collect_rarely


def main(arguments: list[str]) -> int:
    """Live; return 1 if anything was not true."""
    parser = argparse.ArgumentParser(prog="python -m tests.boundaries")
    parser.add_argument("--histories", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1, help="the first history's; each next one has the next")
    parser.add_argument("--skippy", action="store_true", help="KCL skips batches often")
    parser.add_argument("--log", action="store_true", help="print the history of each seed")
    parser.add_argument("--most", type=int, default=20, help="print so many of the histories with a violation")
    parser.add_argument("--acts", nargs="*", default=ACTS, help="only these things happen")
    parser.add_argument("--without", choices=sorted(MUTATIONS), help="leave out a rule: this must be noticed")
    options = parser.parse_args(arguments)
    capture_logs()
    collect_rarely()
    with nullcontext() if options.without is None else without(options.without):
        return live(options)


def live(options: argparse.Namespace) -> int:
    """Live the histories of some seeds; return 1 if anything was not true."""
    mutation = MUTATIONS.get(options.without)
    acts, skippy = (options.acts, options.skippy) if mutation is None else (mutation.acts, mutation.is_skippy)
    counts: Counter[str] = Counter()
    wrong = risky = 0
    for seed in range(options.seed, options.seed + options.histories):
        history = History(seed, acts=acts, skippy=skippy)
        try:
            outcome = history.run()
            violations, log = outcome.violations, outcome.log
        except Exception:  # noqa: BLE001 - it is printed, and the next history lives
            violations, log = [], [*history.world.log, traceback.format_exc()]
            crashed = True
        else:
            crashed = False
        counts += history.world.counts
        bad = [violation for violation in violations if not violation.is_risk]
        wrong += bool(bad) or crashed
        risky += any(violation.is_risk for violation in violations)
        if options.log or ((bad or crashed) and wrong <= options.most):
            sys.stdout.write(f"seed {seed}, boundaries of {history.world.every_ms // 60_000} minutes:\n")
            sys.stdout.writelines(f"    {line}\n" for line in log)
            sys.stdout.flush()
    for name, count in sorted(counts.items()):
        sys.stdout.write(f"{count:10} {name}\n")
    sys.stdout.write(f"{options.histories} histories, {risky} with the named risk, {wrong} wrong\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
