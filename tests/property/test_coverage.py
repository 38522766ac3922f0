"""The rules of coverage against whole streams: splits and merges at midnight, outages, sleeping hosts, trimming.

The model knows which records were archived. Its processors claim what `coverage.continuity` lets them claim.
"""

from collections import Counter
from typing import Final

import pytest

from tests.property.coverage_audit import audits
from tests.property.coverage_history import CALM, History
from tests.searching import IS_DEEP

HISTORIES: Final = 1500 if IS_DEEP else 20
CHUNKS: Final = 4


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_day_that_misses_a_record_is_ever_covered(chunk: int) -> None:
    """Whatever happened, and however the audit looks. Of the days that miss none, most are covered all the same."""
    found: Counter[tuple[bool, bool]] = Counter()
    for seed in range(chunk, HISTORIES, CHUNKS):
        for name, day, looked in audits(History(seed)):
            assert looked.missing == 0 or not looked.is_covered, (seed, name, str(day), looked.missing)
            found[looked.missing == 0, looked.is_covered] += 1
    assert found[False, False] > HISTORIES // CHUNKS
    assert found[True, True] > found[True, False]


def test_every_day_of_a_calm_history_is_covered_in_the_night_behind_it() -> None:
    """Quiet shards too, and those that end or begin by midnight."""
    for seed in range(HISTORIES // 4):
        history = History(seed, CALM)
        for name, day, looked in audits(history):
            if name != "removed" and not (name == "night" and history.runs_from >= day.end_ms):
                assert looked.is_covered, (seed, name, str(day), looked.verdict)
