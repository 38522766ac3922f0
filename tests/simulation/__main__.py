"""`python -m tests.simulation --seeds 0..20000`, `--replay SEED` for one history's timeline, or `--choose MODE`.

Exit code 0 when every history kept every promise.
"""

import argparse
import sys
import time
from collections.abc import Sequence

from tests.simulation.chosen import CHOSEN, choose
from tests.simulation.histories.must_happen import missing
from tests.simulation.modes import MODES, THINNED, Mode, parse_modes
from tests.simulation.search import play, replay, search


def main(arguments: Sequence[str]) -> int:
    """Search, or show."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument(
        "--seeds",
        default="0..20000",
        metavar="A..B",
        help="from A to B - 1 (default: 0..20000); with several modes fewer of the long histories",
    )
    parser.add_argument(
        "--modes", type=parse_modes, default="plain", metavar="MODE,...", help=f"of {', '.join(MODES)}, or all"
    )
    parser.add_argument("--workers", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--replay", type=int, metavar="SEED", help="show the timeline of one history")
    parser.add_argument("--until-found", action="store_true", help="stop soon after the first violation")
    parser.add_argument("--every", type=int, default=5000, help="histories between two lines of progress")
    parser.add_argument(
        "--choose",
        type=parse_modes,
        metavar="MODE",
        help="print the seeds of rare things for chosen.py, from as many histories as it says",
    )
    options = parser.parse_args(arguments)
    if options.choose is not None:
        return _choose(options.choose[0])
    if options.replay is not None:
        return _replay(options.replay, options.modes[0])
    first, last = map(int, options.seeds.replace("_", "").split(".."))
    began = time.perf_counter()
    result = search(
        first,
        last,
        options.workers,
        modes=options.modes,
        until_found=options.until_found,
        every=options.every,
        thinned=THINNED if len(options.modes) > 1 else {},
    )
    seconds = time.perf_counter() - began
    # A fault that never occurs proves nothing.
    sys.stdout.writelines(f"{count:>12,}  {what}\n" for what, count in sorted(result.tally.items()))
    never = [] if options.until_found else missing(result.tally, options.modes)
    if never:
        sys.stdout.write(f"never happened: {', '.join(never)}\n")
    sys.stdout.writelines(map(str, result.findings[:20]))
    sys.stdout.write(
        f"{result.histories:,} histories, {len(result.findings)} violations, {seconds:.0f} s, "
        f"{result.histories / seconds:,.0f} histories/s\n"
    )
    return 1 if result.findings else 0


def _choose(mode: Mode) -> int:
    first, most, _ = CHOSEN[mode]
    tallies = [play((mode, [seed])).tally for seed in range(most)]
    sys.stdout.write(f"{mode}: {choose(tallies, first)}\n")
    return 0


def _replay(seed: int, mode: Mode) -> int:
    lines, finding = replay(seed, mode)
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.write(f"\n{finding.text}\n" if finding else "\nevery promise was kept\n")
    return 1 if finding else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
