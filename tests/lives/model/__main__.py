"""Live many lives of the model: `python -m tests.lives.model --lives 100000 --seed 1 --jobs 1`.

Prints each violation with its shortest history, and at the end what was counted.
"""

import argparse
import functools
import gc
import itertools
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

import structlog

from tests.lives.life import shortest
from tests.lives.model.life import live

_A_PIECE: Final = 100


class Lived(NamedTuple):
    """What a piece of lives came to; `told` are its violations."""

    counts: Counter[str]
    told: list[str]


def live_piece(seeds: range, *, days: int = 20) -> Lived:
    """Live some lives; find the shortest history of each violation."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    gc.disable()  # lives are full of circles, and each is small
    counts, told = Counter[str](), []
    for seed in seeds:
        life, why = live(seed, days=days)
        counts.update(life.counts)
        counts["lives"] += 1
        if why:
            counts["violations"] += 1
            acts = shortest(seed, life.acts, days=days, live=live)
            life, why = live(seed, days=days, acts=acts)
            told.append("\n".join([f"seed {seed}: {why}", *map(str, acts), *life.log]))
    gc.collect()
    return Lived(counts, told)


def main(arguments: list[str]) -> int:
    """Live; return 1 if anything was violated."""
    parser = argparse.ArgumentParser(prog="python -m tests.lives.model")
    parser.add_argument("--lives", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1, help="the first life's; each next one has the next")
    parser.add_argument("--days", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--until-one", action="store_true", help="stop after the first violation")
    options = parser.parse_args(arguments)
    begun = time.perf_counter()
    end = options.seed + options.lives
    pieces = [range(at, min(at + _A_PIECE, end)) for at in range(options.seed, end, _A_PIECE)]
    counts = Counter[str]()
    for number, lived in enumerate(_lived(pieces, options.days, options.jobs), 1):
        counts += lived.counts
        for told in lived.told:
            sys.stdout.write(f"{told}\n")
        if number % 10 == 0 or lived.told:
            sys.stdout.write(f"... {_told(counts, begun)}\n")
        sys.stdout.flush()
        if lived.told and options.until_one:
            break
    sys.stdout.write(f"{_told(counts, begun)}\n")
    return 1 if counts["violations"] else 0


def _lived(pieces: list[range], days: int, jobs: int) -> Iterator[Lived]:
    work = functools.partial(live_piece, days=days)
    if jobs == 1:
        yield from map(work, pieces)
        return
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield from itertools.islice(pool.imap(work, pieces), len(pieces))


def _told(counts: Counter[str], begun: float) -> str:
    return (
        f"{counts['lives']:,} lives, {counts['nights']:,} nights, {counts['clean']:,} clean verdicts checked, "
        f"{counts['violations']:,} violations, {time.perf_counter() - begun:,.0f} s"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
