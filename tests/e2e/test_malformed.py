"""A few dozen malformed aggregates of every kind over a split and a merge; `make malformed` sends a thousand."""

from typing import TYPE_CHECKING

import pytest

from minutebook.format.aggregate import Fault
from tests.e2e.malformed import Run
from tests.e2e.malformed_outcome import Outcome
from tests.fakes.malformed import KINDS
from tests.witness.readback import assert_exactly_once

if TYPE_CHECKING:
    from demo.embedded import EmbeddedAws

_RECORDS = 56
"""Every kind on each pair of shards, and a key bomb."""


@pytest.fixture(scope="module")
def outcome(embedded_aws: "EmbeddedAws", tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Play it."""
    return Run(embedded_aws, tmp_path_factory.mktemp("malformed"), records=_RECORDS, seed=3).play()


def test_no_good_record_is_lost_or_doubled(outcome: Outcome) -> None:
    """Plain records, good aggregates, and of malformed ones what KCL delivers."""
    assert_exactly_once(outcome.verdict)


def test_all_claims_hold(outcome: Outcome) -> None:
    """Shards end, one daemon serves them all, and what is not delivered is told, kept, and found by the audit."""
    assert outcome.wrong() == []


def test_the_claims_are_about_something(outcome: Outcome) -> None:
    """Every kind was sent, and KCL withheld records for each reason, on a child of the split, too."""
    assert set(outcome.sent) >= set(KINDS)
    assert {one.fault for one in outcome.withheld} == {None, Fault.MALFORMED, Fault.OUTSIDE_SHARD}
    strays = {one.shard for one in outcome.withheld if one.fault is Fault.OUTSIDE_SHARD}
    assert strays >= {shard for shard in outcome.tails if shard not in outcome.ends}
