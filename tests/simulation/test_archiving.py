"""One shard, and what operators do to streams: no history breaks a promise."""

from collections import Counter
from operator import attrgetter

import pytest

from tests.searching import IS_DEEP
from tests.simulation.demands import demand_one_timeline, demand_promises
from tests.simulation.histories.history import History
from tests.simulation.histories.scenarios import SCENARIOS, Scenario
from tests.simulation.modes import Mode
from tests.simulation.search import silence


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mode", ["plain", "operations"])
def test_no_history_breaks_a_promise(mode: Mode) -> None:
    """Exactly once, byte for byte, chains unbroken or the break reported, checkpoints legal and never ahead.

    What operators do to lease tables and old days loses and doubles nothing.
    """
    demand_promises(mode)


@pytest.mark.parametrize("mode", ["plain", "operations"])
def test_a_seed_decides_everything(mode: Mode) -> None:
    """The same seed gives the same timeline, line for line."""
    demand_one_timeline(mode)


@pytest.mark.parametrize("scenario", [scenario for scenario in SCENARIOS if scenario.healthy], ids=attrgetter("name"))
def test_a_healthy_history_ends_no_processor(scenario: Scenario) -> None:
    """Without faults nobody dies, nobody doubts, and nothing is reported."""
    silence()
    tally: Counter[str] = Counter()
    for seed in range(50 if IS_DEEP else 10):
        History(seed, tally, scenario=scenario).run()
    assert not [what for what in tally if what.startswith("died of")]
