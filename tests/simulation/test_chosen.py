"""The choice of histories: nothing that happens among all of them is missing among the chosen ones."""

from collections import Counter

from tests.simulation.chosen import CHOSEN, OFTEN, choose
from tests.simulation.modes import MODES


def test_what_is_rare_is_chosen() -> None:
    """As often as wanted, or as it happens at all; what the first ones show often enough adds none."""
    shown = ["ab", "a", "a", "a", "cd", "a", "b", "bc", "d"]
    tallies = [Counter(text) for text in shown]
    chosen = choose(tallies, first=2)
    seen = Counter("".join(shown[seed] for seed in (0, 1, *chosen)))
    assert seen == {what: min(count, OFTEN) for what, count in Counter("".join(shown)).items()}
    assert choose(tallies, first=len(tallies)) == []


def test_chosen_seeds_lie_behind_the_first() -> None:
    """None twice, and none beyond what was looked through; each short mode has some."""
    for chosen in CHOSEN.values():
        assert sorted(set(chosen.rare)) == list(chosen.rare)
        assert all(chosen.first <= seed < chosen.most for seed in chosen.rare)
    assert set(MODES) - set(CHOSEN) == {"month"}
