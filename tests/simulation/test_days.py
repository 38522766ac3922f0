"""Days on end: no day that misses a record is ever clean, and quiet ones are."""

from collections import Counter

import pytest

from tests.simulation.demands import demand_one_timeline, demand_promises
from tests.simulation.histories.day_history import DayHistory
from tests.simulation.histories.day_scenarios import CALM_MONTH
from tests.simulation.search import silence


@pytest.mark.timeout(1800)
def test_no_day_that_misses_a_record_is_clean() -> None:
    """Outages, dips of the retention, frozen and paused hosts, wrong clocks, splits by midnight, lost leases."""
    demand_promises("days")


def test_a_seed_decides_everything() -> None:
    """The same seed gives the same timeline, line for line."""
    demand_one_timeline("days", 3)


@pytest.mark.timeout(1800)
def test_a_quiet_month_that_is_redeployed_every_50_minutes_is_clean() -> None:
    """Each day, in the night behind it, at a retention of a day; the history demands at most 25 marks a day."""
    silence()
    tally: Counter[str] = Counter()
    DayHistory("month", 0, tally, scenario=CALM_MONTH).run()
    assert tally["audit: a sound day is clean"] == 31
    assert not [what for what in tally if "not clean" in what]
    assert tally["KCL: a redeployment"] > 850
