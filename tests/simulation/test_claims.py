"""Histories of mode `claims`, decided by their seeds; tests/README.md tells which mutations need more of them."""

import pytest

from tests.simulation.search import demand_promises


@pytest.mark.timeout(1800)
def test_no_history_breaks_a_promise() -> None:
    """Of each event that was sent again exactly one copy is kept, and each one that is dropped names it."""
    demand_promises("claims", 1500)
