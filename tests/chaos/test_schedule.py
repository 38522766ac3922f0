"""The acts of a run: decided by the seed, and every kind in every deck."""

import random
from itertools import islice

from tests.chaos.schedule import OPENING, Act, Kind, pick, schedule


def _acts(seed: int, count: int, *, is_long: bool = True) -> list[Act]:
    return list(islice(schedule(random.Random(seed), is_long=is_long), count))


def test_the_seed_decides_the_acts() -> None:
    """The same seed gives the same acts; another seed others."""
    assert _acts(1, 40) == _acts(1, 40) != _acts(2, 40)


def test_a_deck_holds_every_kind() -> None:
    """No run of a deck's length leaves a kind out."""
    assert {act.kind for act in _acts(5, len(Kind) + 4)} == set(Kind)


def test_a_short_run_keeps_the_lease_table() -> None:
    """Its loss stops everybody for longer than a short run has."""
    assert Kind.LOSE_TABLE not in {act.kind for act in _acts(5, 100, is_long=False)}


def test_a_short_run_begins_with_a_kill_storms_and_a_split() -> None:
    """Whatever the seed; the first deck then holds the rest, each kind as often as any other deck."""
    deck = [act.kind for act in _acts(5, len(Kind) + 3, is_long=False)]
    assert tuple(deck[: len(OPENING)]) == OPENING
    assert set(deck) == set(Kind) - {Kind.LOSE_TABLE}


def test_a_pick_is_always_one_of_them() -> None:
    """Also at the upper end of the interval."""
    assert [pick(["a", "b", "c"], number) for number in (0.0, 0.34, 0.999999)] == ["a", "b", "c"]
