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
        150,
        4000,
        _seeds(
            "167 168 175 196 205 208 297 326 373 450 492 507 540 593 617 633 639 698 774 838 840 849 852 880 1037 "
            "1040 1066 1156 1228 1303 1317 1394 1431 1460 1480 1632 1699 1755 1759 1835 1850 1975 2108 2163 2212 "
            "2354 2374 2450 2550 2611 3558 3594 3969"
        ),
    ),
    "claims": Chosen(
        80,
        700,
        _seeds(
            "82 88 105 108 128 130 141 150 153 159 171 176 177 178 180 184 197 198 209 226 227 242 248 256 264 "
            "269 284 292 321 361 378 450 455 457 472 481 487 489 512 536 544 555 563 582 610 653 662"
        ),
    ),
    "watermark": Chosen(
        80,
        700,
        _seeds(
            "83 86 103 108 109 117 119 135 138 170 174 176 199 200 204 216 225 226 235 251 254 262 280 316 332 "
            "335 336 340 342 345 370 388 390 416 420 433 451 480 494 514 528 532 568 624 664 699"
        ),
    ),
    "operations": Chosen(
        80,
        700,
        _seeds(
            "81 94 106 109 111 122 125 139 142 144 149 160 169 181 185 194 195 197 203 223 247 256 265 268 286 "
            "290 298 303 318 319 363 385 392 395 405 434 439 440 445 457 462 477 478 493 497 498 510 511 518 519 "
            "522 535 555 561 563 613 643 647 659 668 669 688 690"
        ),
    ),
    "days": Chosen(12, 40, _seeds("12 13 14 15 16 17 18 19 20 21 23 25 26 27 28 29 30 31 32 35 36 37 39")),
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
