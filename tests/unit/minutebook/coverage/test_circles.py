"""Shards that are named as their own ancestors: nothing is shortened by that, and the day is in doubt."""

import pytest

from minutebook.coverage.chain import Reason
from minutebook.coverage.evidence import Kind
from minutebook.coverage.shard_coverage import ShardCoverage
from minutebook.coverage.topology import ShardRow, ShardSources, Topology
from minutebook.coverage.verdict import State, Verdict, judge_scope
from minutebook.format.aggregate import EVERY_HASH_KEY, HashRange
from minutebook.format.read_mark import BIRTH
from tests.unit.minutebook.coverage.scene import at, coverage, marked, piece, span

HALF = EVERY_HASH_KEY.last // 2
LOW, HIGH = HashRange(0, HALF), HashRange(HALF + 1, EVERY_HASH_KEY.last)
BEGAN = at(-100)


def shard(name: str, keys: HashRange | None, *parents: str) -> ShardRow:
    """Return a row."""
    return ShardRow(name, keys, frozenset(parents))


def decide(sources: ShardSources, *coverages: ShardCoverage) -> Verdict:
    """Judge the day."""
    found = {one.shard_id: one for one in coverages}
    return judge_scope(span(0, 24), Topology(sources), found, begin_ms=BEGAN)


def within(*rows: ShardRow) -> ShardSources:
    """Return a stream whose one shard was split, with rows of a source that is wrong about kinship."""
    return ShardSources(
        first=(ShardRow("p", EVERY_HASH_KEY),),
        marked=(shard("c", LOW, "p"), shard("d", HIGH, "p"), *rows),
        opened=frozenset("pcd"),
        ended=frozenset("p"),
    )


@pytest.mark.parametrize(
    "wrong",
    [
        (shard("c", LOW, "c"),),
        (ShardRow("c", LOW, children=frozenset("c")),),
        (shard("c", LOW, "d"), shard("d", HIGH, "c")),
        (shard("c", LOW, "x"), shard("x", None, "y"), shard("y", None, "c")),
    ],
    ids=["own parent", "own child", "each other's", "circle"],
)
def test_a_shard_that_is_its_own_ancestor_is_required_as_long_as_any(wrong: tuple[ShardRow, ...]) -> None:
    """From the last time at which its true parent was open: its own evidence neither begins nor ends that."""
    parent = coverage(pieces=(piece(BEGAN, at(9)), piece(at(9), at(12), kind=Kind.END)), shard="p", ended=at(12, 1))
    verdict = decide(within(*wrong), parent, marked("c", (14, 16)), marked("d", (BIRTH, 25)))
    judged = {one.shard_id: one for one in verdict.shards}["c"]
    assert (judged.required, judged.state) == (span(9, 24), State.UNKNOWN)
    assert Reason.CIRCLE in verdict.reasons


def test_a_circle_is_in_doubt_however_well_its_shards_are_covered() -> None:
    """Whoever named it may have been wrong about more."""
    parent = coverage(pieces=(piece(BEGAN, at(9)), piece(at(9), at(12), kind=Kind.END)), shard="p", ended=at(12, 1))
    covered = (parent, marked("c", (BIRTH, 25)), marked("d", (BIRTH, 25)))
    assert decide(within(), *covered).state is State.COVERED
    verdict = decide(within(shard("c", LOW, "c")), *covered)
    assert (verdict.state, verdict.reasons) == (State.UNKNOWN, (Reason.CIRCLE,))
