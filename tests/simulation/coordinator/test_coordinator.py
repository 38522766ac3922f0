"""The promise of a reader for every shard, in as many histories as the time of the tests allows."""

from collections import Counter

from tests.simulation.coordinator.search import search

_HISTORIES = 200
"""Six seconds; `python -m tests.simulation.coordinator --seeds 0..5000` plays more."""


def test_every_shard_is_read_again_and_somebody_says_so() -> None:
    """Whatever KCL's coordinator does; and everything that can be done to it was done."""
    tally: Counter[str] = Counter()
    assert search(range(_HISTORIES), tally) == {}
    assert len(tally) == 19
    assert min(tally.values()) > 5
