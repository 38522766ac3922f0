"""Histories of mode `operations`, decided by their seeds; tests/README.md tells which mutations need more of them."""

import pytest

from tests.simulation.search import demand_promises


@pytest.mark.timeout(1800)
def test_no_history_breaks_a_promise() -> None:
    """What operators do to lease tables and old days loses and doubles nothing."""
    demand_promises("operations", 2500)
