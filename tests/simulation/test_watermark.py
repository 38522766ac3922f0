"""Histories of mode `watermark`, decided by their seeds; tests/README.md tells which mutations need more of them."""

import pytest

from tests.simulation.search import demand_promises


@pytest.mark.timeout(1800)
def test_no_history_breaks_a_promise() -> None:
    """Nothing is dropped that its chain does not hold, and nothing is kept twice without doubt."""
    demand_promises("watermark", 1500)
