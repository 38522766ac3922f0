"""The report: what counts as recovered, and what denies a proof."""

from collections import Counter
from dataclasses import replace

import pytest

from demo.ledger import RecordRef
from demo.readback import Verdict
from minutebook.format.position import Position
from tests.chaos.faults import Fault
from tests.chaos.hostile import Hostile, Withheld
from tests.chaos.report import Findings, recoveries, table
from tests.chaos.timeline import Strike
from tests.witness.events import Event

_PLACE = RecordRef("shardId-000000000000", Position(7))
_CLEAN = Findings(
    verdict=Verdict(sent=3, archived=3),
    strikes=[Strike("split", 1_000, frozenset({"s0"}))],
    skipped=[],
    injected={"s3": Counter({Fault.CONFLICT: 4711})},
    requests={"s3": 10},
    events=[],
    exits=[1, 5],
)


def _commit(second: int, shard: str, worker: str = "a", event: str = "segment_committed") -> Event:
    return {"event": event, "shard": shard, "worker": worker, "timestamp": f"1970-01-01T00:00:{second:02}Z"}


def _seconds(strike: Strike, *events: Event) -> float | None:
    (recovery,) = recoveries([strike], events)
    return recovery.seconds


def test_a_recovery_is_the_next_commit_after_the_strike() -> None:
    """Earlier ones do not count, later ones neither."""
    strike = Strike("kill", 5_000, frozenset({"s0"}))
    assert _seconds(strike, _commit(4, "s0"), _commit(9, "s0"), _commit(7, "s0")) == 2


def test_the_slowest_shard_counts() -> None:
    """A strike is over when all that it struck is back."""
    strike = Strike("kill", 0, frozenset({"s0", "s1"}))
    assert _seconds(strike, _commit(1, "s0"), _commit(8, "s1"), _commit(3, "s2")) == 8


def test_the_end_of_a_shard_is_a_recovery_too() -> None:
    """After it there is nothing left to commit."""
    strike = Strike("merge", 0, frozenset({"s0"}))
    assert _seconds(strike, _commit(6, "s0", event="shard_end_checkpointed")) == 6


def test_only_the_successors_can_recover_what_was_taken_away() -> None:
    """The old owner's late commit is none."""
    strike = Strike("freeze", 0, frozenset({"s0"}), frozenset({"b"}))
    assert _seconds(strike, _commit(1, "s0", "a"), _commit(9, "s0", "b")) == 9


def test_a_shard_that_never_commits_again_has_no_figure() -> None:
    """Whether something of it is missing is for the verdict to say."""
    assert _seconds(Strike("kill", 5_000, frozenset({"s0"})), _commit(4, "s0")) is None


def test_a_clean_run_is_proven() -> None:
    """Crashed supervisors are part of the game."""
    assert _CLEAN.is_proven


@pytest.mark.parametrize(
    "findings",
    [
        replace(_CLEAN, verdict=Verdict(sent=3, archived=2, lost=[_PLACE])),
        replace(_CLEAN, verdict=Verdict(sent=3, archived=3, duplicated=[_PLACE])),
        replace(_CLEAN, verdict=Verdict(sent=3, archived=3, altered=[_PLACE])),
        replace(_CLEAN, verdict=Verdict(sent=3, archived=4, unknown=[_PLACE])),
        replace(_CLEAN, verdict=Verdict(sent=3, archived=3, broken=["s0 begins in the middle"])),
        replace(_CLEAN, verdict=Verdict(sent=0, archived=0)),
        replace(_CLEAN, wrong_checkpoints=[("s0", "7:0")]),
        replace(_CLEAN, false_boundaries=["11:00 calls s0 7:0 archived"]),
        replace(_CLEAN, exits=[1, 6]),
        replace(_CLEAN, restores=[2]),
        replace(_CLEAN, hostile=Hostile(wrongly_dropped=[_PLACE])),
    ],
    ids=[
        "lost",
        "doubled",
        "altered",
        "never sent",
        "broken",
        "nothing sent",
        "checkpoint",
        "boundary",
        "refused",
        "restore",
        "dropped",
    ],
)
def test_anything_wrong_denies_the_proof(findings: Findings) -> None:
    """Also a run that sent nothing, and a worker that wants a person without a reason."""
    assert not findings.is_proven


def test_the_table_names_what_is_missing() -> None:
    """Counts, and samples to look at."""
    text = table(replace(_CLEAN, verdict=Verdict(sent=3, archived=2, lost=[_PLACE])))
    assert "shardId-000000000000" in text
    assert "4711" in text


def test_the_table_names_what_kcl_would_not_deliver() -> None:
    """And which malformed record no line told of: that denies no proof, for a killed supervisor takes lines along."""
    hostile = Hostile(
        sent={"poison": 2},
        withheld=[Withheld("s0", 4712, "malformed"), Withheld("s0", 4713, "malformed")],
        told=frozenset({4713}),
    )
    findings = replace(_CLEAN, hostile=hostile)
    text = table(findings)
    assert findings.is_proven
    assert [one.sequence for one in hostile.untold] == [4712]
    assert all(name in text for name in ("sent: poison", "not delivered: s0 4713", "no line told: s0 4712"))
