"""Which compression the writers of a history are told: none, all the same, or each something else."""

import random
from collections.abc import Callable
from itertools import repeat
from typing import Final

from minutebook.compression import Compression

_KINDS: Final = 5


def compressions_of(seed: int) -> Callable[[], Compression | None]:
    """Return what tells the next writer its setting.

    In one history of five every writer is told zstd, and in one each is told something of its own: a changed setting
    that is rolled out, and zombies with the old one.
    """
    if seed % _KINDS == 0:
        return repeat(Compression.ZSTD).__next__
    if seed % _KINDS == 1:
        rng = random.Random(f"{seed} of compressions")
        return lambda: rng.choice((*Compression, None))
    return repeat(None).__next__
