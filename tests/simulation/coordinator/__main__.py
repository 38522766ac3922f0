"""`python -m tests.simulation.coordinator --seeds 0..2000`, or `--replay SEED` for one history's timeline."""

import argparse
import sys
import time
from collections import Counter

from tests.simulation.coordinator.search import replay, search


def main(arguments: list[str]) -> int:
    """Search, or show."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.coordinator", description=__doc__)
    parser.add_argument("--seeds", default="0..2000", metavar="A..B", help="from A to B - 1 (default: 0..2000)")
    parser.add_argument("--replay", type=int, metavar="SEED", help="show the timeline of one history")
    options = parser.parse_args(arguments)
    if options.replay is not None:
        lines, text = replay(options.replay)
        sys.stdout.write("\n".join([*lines, "", text or "every promise was kept", ""]))
        return 1 if text else 0
    first, last = map(int, options.seeds.replace("_", "").split(".."))
    tally: Counter[str] = Counter()
    began = time.perf_counter()
    found = search(range(first, last), tally)
    sys.stdout.writelines(f"{count:>9,}  {what}\n" for what, count in sorted(tally.items()))
    sys.stdout.writelines(f"seed {seed}: {text}\n" for seed, text in list(found.items())[:20])
    seconds = time.perf_counter() - began
    sys.stdout.write(f"{last - first:,} histories, {len(found)} violations, {seconds:.0f} s\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
