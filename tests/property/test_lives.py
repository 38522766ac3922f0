"""Archives and their nights, from seeds: no verdict of `clean` that readers see is false; see `tests.lives.life`."""

from typing import Final

import pytest

from tests.lives.life import live
from tests.searching import IS_DEEP

SEEDS: Final = range(400, 2400) if IS_DEEP else range(400, 406)


BESIDE_EXPIRED_DAYS: Final = (100006, 100059)
"""Lives whose nights judge a day again after the day behind it was expired."""


@pytest.mark.parametrize("seed", BESIDE_EXPIRED_DAYS)
def test_a_day_before_an_expired_one_stays_clean(seed: int) -> None:
    """Its tombstone stands for its objects on both sides, and the day is left alone."""
    life, why = live(seed)
    assert (why, life.moved) == ("", []), life.log


@pytest.mark.parametrize("seed", SEEDS)
def test_no_readable_clean_is_false_and_what_is_sound_comes_to_rest(seed: int) -> None:
    """Eight days each; `python -m tests.lives` lives longer ones, and more."""
    life, why = live(seed, days=8)
    assert not why, [*map(str, life.acts), *life.log]
