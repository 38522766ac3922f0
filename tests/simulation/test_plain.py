"""Histories of mode `plain`, decided by their seeds; tests/README.md tells which mutations need more of them."""

import pytest

from tests.simulation.search import demand_promises


@pytest.mark.timeout(1800)
def test_no_history_breaks_a_promise() -> None:
    """Exactly once, byte for byte, chains unbroken or the break reported, checkpoints legal and never ahead."""
    demand_promises("plain", 6000)
