"""The model of published verdicts: no verdict of `clean` that readers see is false; see `tests.lives.model`."""

from collections.abc import Mapping
from typing import Final

import pytest

from tests.lives.model.life import Life, live
from tests.lives.model.night import Rule
from tests.searching import IS_DEEP

LIVES: Final = 20_000 if IS_DEEP else 25
A_PIECE: Final = 25
SEEDS: Final = (*range(1, LIVES + 1), *(() if IS_DEEP else (35, 106)))
"""Two notice what the first ones do not: segments that come and go behind a published day, days that stay unclean."""
NOTICED: Final[Mapping[Rule, int]] = {
    Rule.SWAP: 151,
    Rule.WITHDRAW: 1,
    Rule.MADE: 6_054_318,
    Rule.PART: 12,
    Rule.UNTIL: 3,
    Rule.GONE: 36,
    Rule.FOLLOW: 1,
    Rule.EACH_NIGHT: 2,
}
"""The first life that was seen to notice that a rule is left out: from seed 1 on, and of one from six millions on."""


@pytest.mark.parametrize("first", range(0, len(SEEDS), A_PIECE))
def test_no_clean_of_the_model_is_false_and_what_is_sound_comes_to_rest(first: int) -> None:
    """Twenty days each; `make lives MODEL=1` lives more."""
    for seed in SEEDS[first : first + A_PIECE]:
        life, why = live(seed)
        assert not why, [seed, *map(str, life.acts), *life.log]


def test_a_checkpoint_that_passes_a_quiet_shard_later_leaves_clean_days_alone() -> None:
    """It says that a segment is gone which was stored after they were judged; the days that come are blocked."""
    life, why = live(10_828)
    assert not why, [*map(str, life.acts), *life.log]


@pytest.mark.parametrize(
    "seed",
    [
        6_001_441,
        6_028_735,
        6_031_990,
        6_057_010,
        6_061_189,
        6_096_680,
        8_007_504,
        8_008_351,
        8_105_048,
        8_200_818,
        8_300_502,
    ],
)
def test_lives_that_were_wrong_once(seed: int) -> None:
    """A second expiry took what a zombie left; an accepted day lost more; a skip beside an expired day.

    A shard's first segment was lost; a lost `end.json` was put back when its shard's children were quiet; a mark
    behind the day was lost that had cleared it of a skipped batch; such a mark's segment was found at one search
    alone; the table lost a day behind the night's commit.
    """
    life, why = live(seed)
    assert not why, [*map(str, life.acts), *life.log]


@pytest.mark.parametrize("rule", Rule)
def test_a_rule_that_is_left_out_is_noticed(rule: Rule) -> None:
    """Each decision of a night that the model tells by itself is needed; with it, the same life is well."""
    _, why = live(NOTICED[rule], without=rule)
    assert why
    life = Life(NOTICED[rule], without=rule)
    life.site.without = None
    life.run()
