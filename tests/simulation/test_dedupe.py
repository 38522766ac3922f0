"""Producers that send again: no history breaks a promise."""

import pytest

from tests.simulation.demands import demand_one_timeline, demand_promises
from tests.simulation.modes import Mode

each_mode = pytest.mark.parametrize("mode", ["claims", "watermark"])


@pytest.mark.timeout(1800)
@each_mode
def test_no_history_breaks_a_promise(mode: Mode) -> None:
    """Beyond plain archiving: each event that was sent twice is kept once, and its copies name one that is kept."""
    demand_promises(mode)


@each_mode
def test_a_seed_decides_everything(mode: Mode) -> None:
    """The same seed gives the same timeline, line for line."""
    demand_one_timeline(mode)
