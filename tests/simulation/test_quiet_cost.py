"""What a quiet shard's evidence costs: requests counted where they leave the processor, on a whole UTC day."""

from collections import Counter
from typing import Final

import pytest

from tests.simulation.histories.quiet_day import HELD, DayCost, Held, QuietDay
from tests.simulation.search import silence

MARKS: Final = 25
"""24, and the one after midnight lies under two days."""
_WALKS: Final = {"GetShardIterator": MARKS, "GetRecords": MARKS + 4}
"""Kinesis may answer with nothing although there is something: then a walk takes one request more."""
_START: Final = {"DescribeStreamSummary": 1, "ListShards": 1, "GET": 3}


@pytest.mark.parametrize("held", HELD)
def test_a_quiet_shard_costs_two_requests_to_kinesis_and_one_put_an_hour(held: Held) -> None:
    """No LIST, no HEAD; one GET with each mark only where nothing is archived: has somebody begun the shard?"""
    cost = _played(held, None)
    begun = {"GET": MARKS - 1} if held == "no record ever" else {}
    assert (cost.starts, cost.at_starts) == (0, {})
    assert not cost.between - Counter({"PUT": MARKS} | _WALKS | begun)
    assert cost.marks == cost.between["PUT"] == MARKS


@pytest.mark.parametrize(
    ("held", "looks"),
    [
        ("no record ever", {"LIST": 2, "GET": 2, "PUT": 1}),  # no start.json; the PUT of opened.json is refused
        ("a record that is held", {"GetShardIterator": 2, "GetRecords": 2, "LIST": 1}),
        ("a record that is trimmed", {"GetShardIterator": 1, "GetRecords": 1, "LIST": 2}),
    ],
)
def test_a_redeploy_of_a_quiet_shard_costs_a_look_and_no_mark(held: Held, looks: dict[str, int]) -> None:
    """At a start every 50 minutes: what the shard stands on is looked up once each, and no mark is written for it."""
    cost = _played(held, 50)
    assert cost.starts == 28
    assert cost.marks == MARKS
    allowed = Counter({"PUT": MARKS} | _WALKS)
    for _ in range(cost.starts):
        allowed.update(_START)
        allowed.update(looks)
    assert not cost.at_starts + cost.between - allowed


def _played(held: Held, redeploy_minutes: int | None) -> DayCost:
    silence()
    day = QuietDay(held, redeploy_minutes)
    day.run()
    return day.cost
