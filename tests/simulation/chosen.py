"""Which histories of a mode `make test` plays: the first ones, and those in which rare things happen.

What is rare was counted in as many histories as `most` says, by `python -m tests.simulation --choose MODE`, which
prints the numbers anew. When the product or the histories change, other things happen under a seed: then a rare thing
may go missing among the chosen ones, and the test plays on, up to `most`, until it has happened. So old numbers cost
time and hide nothing; `make simulate` plays all histories.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from tests.simulation.modes import Mode

OFTEN: Final = 3
"""So many of the chosen histories show each thing, where as many do at all."""


class Chosen(NamedTuple):
    """The first histories of a mode, seeds beyond them, and up to where they go on while something is missing."""

    first: int
    most: int
    rare: tuple[int, ...] = ()

    @property
    def seeds(self) -> list[int]:
        """Return the seeds to be played."""
        return [*range(self.first), *self.rare]


def _seeds(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split()))


CHOSEN: Final[Mapping[Mode, Chosen]] = {
    "plain": Chosen(
        400,
        4000,
        _seeds(
            "440 492 534 540 617 628 639 680 838 840 849 880 898 1040 1124 1135 1317 1356 1460 1498 1507 1549 "
            "1632 1658 1699 1759 1803 1850 1853 1868 1898 1967 1977 2212 2412 2433 2450 2844 3115 3594 3847"
        ),
    ),
    "claims": Chosen(
        250,
        700,
        _seeds("258 262 265 282 292 301 307 311 354 380 398 416 450 455 481 512 516 555 610 641 653"),
    ),
    "watermark": Chosen(
        250,
        700,
        _seeds(
            "260 262 267 275 306 311 316 332 333 342 344 345 369 370 388 390 406 420 433 451 464 479 514 516 "
            "563 568 598 664"
        ),
    ),
    "operations": Chosen(
        250,
        700,
        _seeds(
            "262 278 286 290 293 298 319 328 333 346 394 395 405 406 421 434 441 457 469 477 478 497 511 516 "
            "518 519 522 535 561 586 613 618 632 643 647 667 669 688"
        ),
    ),
    "days": Chosen(40, 40),
}


def choose(tallies: Sequence[Counter[str]], first: int) -> list[int]:
    """Return seeds beyond the first ones, so that each thing happens in OFTEN histories, if it ever does.

    `tallies` are those of the seeds from 0 on; whichever shows most of what is still wanted is taken next.
    """
    seen = Counter(what for tally in tallies for what in tally)
    wanted = Counter({what: min(count, OFTEN) for what, count in seen.items()})
    for tally in tallies[:first]:
        wanted -= Counter(dict.fromkeys(tally, 1))
    left = dict(enumerate(tallies[first:], first))
    chosen = []
    while wanted:
        best = max(left, key=lambda seed: (len(wanted.keys() & left[seed].keys()), -seed))
        chosen.append(best)
        wanted -= Counter(dict.fromkeys(left.pop(best), 1))
    return sorted(chosen)
