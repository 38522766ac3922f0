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
        2000,
        _seeds(
            "414 459 537 544 550 638 681 737 766 880 955 965 1091 1123 1128 1168 1203 1324 1377 1494 1512 "
            "1614 1749 1803 1977"
        ),
    ),
    "claims": Chosen(
        250,
        700,
        _seeds("285 292 297 301 314 333 344 404 455 481 526 534 555 653 671 675"),
    ),
    "watermark": Chosen(
        250,
        700,
        _seeds("251 260 275 280 292 303 306 316 332 333 334 335 370 390 406 420 424 480 516 528 568 598 624 664"),
    ),
    "operations": Chosen(
        250,
        700,
        _seeds(
            "250 252 265 286 298 319 328 403 405 434 440 445 457 460 462 469 477 478 496 497 511 518 519 522 "
            "535 556 561 586 590 597 613 618 643 647 657 669 675 688"
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
