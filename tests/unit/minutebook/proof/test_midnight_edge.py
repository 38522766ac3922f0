"""Stamps that step back over the edge of what is listed."""

from minutebook.coverage.chain import Reason
from minutebook.coverage.verdict import State
from minutebook.format.metadata import Continuity
from tests.unit.minutebook.proof.scene import SHARD, Bucket


def test_what_the_first_segment_behind_an_outage_stands_on_may_carry_the_next_day() -> None:
    """Stamps step back over midnight: nothing is missing."""
    bucket = Bucket()
    for hour in (-3, 5, 48, 48 - 1 / 60):
        bucket.segment(hour)
    judged = bucket.judge(now=72)
    assert judged.verdict.reasons == (Reason.UNDECIDED,)
    assert len(judged.facts.shards[SHARD].chain.links) == 4


def test_what_a_quiet_day_stands_on_may_carry_the_day_before_its_neighbour() -> None:
    """The same on the other side: the nearest segment by its number is not the last of the chain."""
    bucket = Bucket()
    for hour in (-27, -24, -24 - 1 / 60, 5, 17, 30):
        bucket.segment(hour)
    judged = bucket.judge()
    assert (judged.verdict.state, judged.verdict.reasons) == (State.UNKNOWN, (Reason.UNDECIDED,))


def test_a_mark_at_a_stale_checkpoint_finds_the_segment_that_was_read_again_from_before_it() -> None:
    """Two readers went on from two old checkpoints, and the chain goes on from the older one."""
    bucket = Bucket()
    bucket.segment(-40)
    bucket.segment(-30)
    bucket.segment(5, doubts=1)
    bucket.mark(-200, 30, number=2, continuity=Continuity.UNPROVEN)
    assert Reason.BROKEN_CHAIN not in bucket.judge().verdict.reasons


def test_a_stale_mark_names_a_segment_far_before_those_beside_midnight() -> None:
    """What it names is found by its time; the segments between it and the last minute are looked for all the same."""
    bucket = Bucket()
    for hour in (-24, -2, -1, -1 / 60):
        bucket.segment(hour)
    bucket.mark(-24 - 1 / 60, 24, number=1, continuity=Continuity.UNPROVEN)
    judged = bucket.judge()
    assert Reason.BROKEN_CHAIN not in judged.verdict.reasons
    assert len(judged.facts.shards[SHARD].chain.links) == 3


def test_a_lost_segment_beside_midnight_is_a_broken_chain_whatever_a_stale_mark_names() -> None:
    """The other side of it: nothing is excused."""
    bucket = Bucket()
    for hour in (-24, -2):
        bucket.segment(hour)
    bucket.segment(-2 / 60, put=False)
    for hour in (-1 / 60, 3):
        bucket.segment(hour)
    bucket.mark(-24 - 1 / 60, 24, number=1, continuity=Continuity.UNPROVEN)
    assert Reason.BROKEN_CHAIN in bucket.judge().verdict.reasons


def test_each_segment_that_a_mark_names_is_looked_for() -> None:
    """Two stale readers named two segments: the one that its mark finds at once is not the chain's beginning."""
    bucket = Bucket()
    for hour in (-60, -40, -30):
        bucket.segment(hour)
    bucket.segment(5, doubts=1)
    for until, number in ((1, 1), (2, 3)):
        bucket.mark(-60 - 1 / 60, until, number=number, continuity=Continuity.UNPROVEN)
    judged = bucket.judge()
    assert Reason.BROKEN_CHAIN not in judged.verdict.reasons
    assert {link.last.sequence for link in judged.facts.shards[SHARD].chain.links} >= {1, 3, 4}
