"""Cuts of random archives, from seeds: each record lies on one side; see `tests.cuts.history`."""

from typing import Final

from tests.cuts.history import History
from tests.searching import IS_DEEP

SEEDS: Final = range(1, 20_001) if IS_DEEP else range(1, 151)


def test_each_record_lies_on_one_side_of_a_cut() -> None:
    """`python -m tests.cuts` makes more. Most cuts divide a shard, and half take along records behind their time."""
    outcomes = {seed: History(seed).run() for seed in SEEDS}
    assert {seed: outcome.wrong for seed, outcome in outcomes.items() if outcome.wrong} == {}
    assert sum(bool(outcome.cut.positions) for outcome in outcomes.values()) > len(SEEDS) // 2
    assert sum(outcome.cut.through_ms > outcome.cut.at_ms for outcome in outcomes.values()) > len(SEEDS) // 4
