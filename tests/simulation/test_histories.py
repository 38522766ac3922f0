"""What histories of any mode have in common."""

from collections import Counter
from operator import attrgetter

import pytest

from tests.simulation.histories.history import History
from tests.simulation.histories.scenarios import SCENARIOS, Scenario
from tests.simulation.modes import MODES, Mode
from tests.simulation.search import replay, silence


@pytest.mark.parametrize("mode", MODES)
def test_a_seed_decides_everything(mode: Mode) -> None:
    """The same seed gives the same timeline, line for line."""
    for seed in range(len(SCENARIOS)):
        first, _ = replay(seed, mode)
        assert first == replay(seed, mode)[0]
        assert len(first) > 1


@pytest.mark.parametrize("scenario", [scenario for scenario in SCENARIOS if scenario.healthy], ids=attrgetter("name"))
def test_a_healthy_history_ends_no_processor(scenario: Scenario) -> None:
    """Without faults nobody dies, nobody doubts, and nothing is reported."""
    silence()
    tally: Counter[str] = Counter()
    for seed in range(50):
        History(seed, tally, scenario=scenario).run()
    assert not [what for what in tally if what.startswith("died of")]
