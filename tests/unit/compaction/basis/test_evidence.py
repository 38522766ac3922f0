"""The evidence beside the segments that a verdict rests on: what moves its digests, and what does not."""

from typing import Final

import pytest

from compaction.basis.evidence import with_evidence
from compaction.inventory.shard_markers import ArchiveMarkers
from compaction.verdict.basis import Basis, ShardBasis
from minutebook.coverage.intervals import Interval
from minutebook.coverage.shard_coverage import Skip
from minutebook.format.metadata import Continuity
from minutebook.format.minute import MINUTE_MS
from minutebook.format.read_mark import MarkKind, ReadMark
from minutebook.proof.statements import ShardStatements, Statements, StoredMark
from tests.unit.minutebook.coverage.scene import DAY, at

SHARD: Final = "shardId-000000000000"
SCOPE: Final = Interval(at(0), at(24))


def _basis(marks: list[StoredMark], skip: Skip | None, proven_ms: int | None) -> Basis:
    shards = {SHARD: ShardStatements(skips=() if skip is None else (skip,))}
    statements = Statements(shards, None, {}, {DAY.shift(1): tuple(marks)}, (), ())
    concerned = ShardBasis(shard=SHARD, proven_ms=proven_ms)
    basis = Basis(judged_from="", generation="", settings="", folders=(), shards=(concerned,))
    return with_evidence(basis, "raw/", ArchiveMarkers({}, None, (), statements), SCOPE)


def _behind(stored_ms: int) -> StoredMark:
    mark = ReadMark(SHARD, MarkKind.READ, Continuity.PROVEN, at(24), at(30), None, "w", ())
    return StoredMark(mark, stored_ms)


@pytest.mark.parametrize(
    ("logged", "proven", "moves"),
    [
        (at(34), at(44), True),
        (at(34), None, True),
        (at(34), at(33), False),
        (at(30, 15), at(44), False),
        (None, at(44), False),
    ],
)
def test_a_mark_behind_the_day_counts_where_it_says_that_a_skipped_batch_came_later(
    logged: int | None, proven: int | None, *, moves: bool
) -> None:
    """What was proven before clears the day as well, and a mark of the last minutes before the skip says nothing."""
    skip = None if logged is None else Skip(logged, logged + MINUTE_MS)
    marks = [_behind(at(30, 1))]
    assert (_basis(marks, skip, proven) != _basis([], skip, proven)) == moves
