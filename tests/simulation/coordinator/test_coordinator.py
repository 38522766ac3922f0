"""The promise of a reader for every shard, in as many histories as the time of the tests allows."""

from collections import Counter
from typing import Final

from tests.searching import IS_DEEP
from tests.simulation.coordinator.search import search

_HISTORIES: Final = 200 if IS_DEEP else 100
"""A hundred take four seconds; `python -m tests.simulation.coordinator --seeds 0..5000` plays more."""


def test_every_shard_is_read_again_and_somebody_says_so() -> None:
    """Whatever KCL's coordinator does; and everything that can be done to it was done."""
    tally: Counter[str] = Counter()
    assert search(range(_HISTORIES), tally) == {}
    assert len(tally) == 19
    assert min(tally.values()) > _HISTORIES // 40
