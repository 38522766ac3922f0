"""Boundaries of random histories, from seeds: what they say is true, and comes; see `tests.boundaries.history`."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

import pytest
import structlog

from tests.boundaries.history import History
from tests.boundaries.mutations import MUTATIONS, without
from tests.boundaries.world import capture_logs
from tests.searching import IS_DEEP

SEEDS: Final = range(1, 2_001) if IS_DEEP else range(1, 26)
_NOTICED_WITHIN: Final = 60


@pytest.fixture(autouse=True)
def _captured() -> Iterator[None]:
    before = structlog.get_config()
    capture_logs()
    yield
    structlog.configure(**before)


def test_what_boundaries_say_is_true_and_comes() -> None:
    """`python -m tests.boundaries` lives more. Every third has skipped batches, whose named risk is allowed."""
    counts, wrong = Counter[str](), dict[int, list[str]]()
    for seed in SEEDS:
        outcome = History(seed, skippy=seed % 3 == 0).run()
        counts += outcome.counts
        wrong[seed] = [violation.what for violation in outcome.violations if not violation.is_risk]
    assert {seed: what for seed, what in wrong.items() if what} == {}
    assert (
        min(counts[what] for what in ("markers", "rows", "gaps", "successes", "killed", "skipped")) > len(SEEDS) // 5
    )


FOUND: Final = {
    3_000_808: "a shard that came and went in two outages of 30 hours: its hash keys held all boundaries for ever",
    3_022_346: "two of them, which were merged again",
    3_010_456: "a batch was skipped 22 minutes after it had arrived: its gap began 15 minutes before the line",
    3_021_027: "boundaries an hour apart: what was skipped was withdrawn an hour later",
    3_022_856: "the reader itself meets a store that does not answer",
    6_050_443: "behind an outage of 25 hours a skip that was archived kept an hour from being finished, for ever",
    3_023_118: "all was trimmed behind a checkpoint at TRIM_HORIZON: nobody said anything of the shard any more",
}


@pytest.mark.parametrize("seed", FOUND)
def test_histories_that_were_wrong_once(seed: int) -> None:
    """Found among 120,000; what was wrong stands beside each."""
    violations = History(seed).run().violations
    assert [violation.what for violation in violations if not violation.is_risk] == [], FOUND[seed]


@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_a_rule_that_is_left_out_is_noticed(name: str) -> None:
    """By one of some histories in which happens what it takes."""
    mutation = MUTATIONS[name]
    with without(name):
        for seed in range(mutation.seed, mutation.seed + _NOTICED_WITHIN):
            outcome = History(seed, acts=mutation.acts, skippy=mutation.is_skippy).run()
            if any(not violation.is_risk for violation in outcome.violations):
                return
    pytest.fail(f"nobody notices that {name} is left out")
