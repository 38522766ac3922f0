"""One shard's coverage: what is asked of it."""

import pytest

from minutebook.coverage.chain import Reason
from minutebook.coverage.evidence import Evidence, Kind, expired_evidence
from minutebook.coverage.intervals import FOREVER, Interval
from minutebook.coverage.shard_coverage import Gap, Skip
from minutebook.format.metadata import ChainStart
from minutebook.format.position import Position
from minutebook.format.read_mark import BIRTH
from tests.unit.minutebook.coverage.scene import LOST, SHARD, UNPROVEN, at, coverage, first, link, piece, span


@pytest.mark.parametrize(
    ("begin", "end", "covered"),
    [(1, 4, True), (2, 3, True), (1, 5, False), (0, 2, False), (6, 8, True), (3, 7, False)],
)
def test_covered_is_what_the_union_of_evidence_contains(*, begin: int, end: int, covered: bool) -> None:
    """Two marks that overlap, and one that lies apart."""
    found = coverage(pieces=(piece(at(1), at(3)), piece(at(2), at(4)), piece(at(6), at(8))))
    assert found.is_covered(at(begin), at(end)) == covered


def test_a_gap_is_what_the_union_leaves_open() -> None:
    """With the reasons that touch it; where none does, nothing reaches it."""
    found = coverage(first(1), link(2, 5, claim=LOST), pieces=(piece(at(5, 2), at(8), 2),))
    assert found.gaps(at(0), at(10)) == (
        Gap(Interval(at(0, 59), at(5, 2)), (Reason.LOST,)),
        Gap(Interval(at(8), at(10)), (Reason.NOT_COVERED,)),
    )


@pytest.mark.parametrize(
    ("kind", "is_open"), [(Kind.READ, True), (Kind.END, False), (Kind.STREAM, False), (Kind.EXPIRED, False)]
)
def test_only_a_read_mark_or_a_segment_shows_a_shard_open(*, kind: Kind, is_open: bool) -> None:
    """An end shows the contrary, and an audit covers closed shards too."""
    assert coverage(pieces=(piece(at(1), at(3), kind=kind),)).is_open_at(at(3)) == is_open


def test_a_segment_shows_a_shard_open_a_minute_before_its_own() -> None:
    """Not later, although an unproven one begins its interval there."""
    found = coverage(first(3, claim=UNPROVEN))
    assert (found.is_open_at(at(2, 59)), found.is_open_at(at(3)), found.seen_open_ms) == (True, False, at(2, 59))


def test_an_unproven_mark_shows_a_shard_open() -> None:
    """It covers nothing, and the shard had a tip."""
    assert coverage(pieces=(piece(at(1), at(3), continuity=UNPROVEN),)).is_open_at(at(3))


def test_birth_is_believed_of_a_child_alone() -> None:
    """For a first shard the evidence begins at its `until`."""
    found = coverage(first(3), link(2, 5))
    assert found.is_covered(at(-99), at(4))
    assert found.without_birth().covered == (Interval(at(2, 59), at(4, 59)),)


@pytest.mark.parametrize(("since", "begins"), [(BIRTH, at(2, 59)), (at(1), at(1))])
def test_evidence_from_birth_does_not_tell_when_that_was(since: int, begins: int) -> None:
    """Its `until` does: the shard was there by then."""
    assert coverage(first(3, since=since)).begins_ms() == begins


def test_without_evidence_nothing_begins() -> None:
    """Nor ends."""
    found = coverage()
    assert (found.is_empty, found.begins_ms(), found.ended_ms) == (True, FOREVER, FOREVER)


def test_what_a_tombstone_keeps_covers() -> None:
    """Whatever of the chain is still there."""
    kept = expired_evidence(SHARD, span(-5, 0), Position(4))
    assert coverage(pieces=(kept,)).is_covered(at(-5), at(0))


MARKS = (
    piece(at(1), at(3), stored=at(3)),
    piece(at(3), at(5), stored=at(5)),
    piece(at(5), at(8), stored=at(8)),
)


def test_skipped_records_hold_the_times_that_they_may_belong_to() -> None:
    """From what was durable a quarter of an hour before the line, to when the marker was stored."""
    found = coverage(pieces=MARKS, skips=(Skip(at(5, 10), at(5, 20)),))
    assert found.gaps(at(1), at(8)) == (Gap(Interval(at(3), at(5, 21)), (Reason.SKIPPED,)),)
    later = coverage(pieces=MARKS, skips=(Skip(at(6, 10), at(6, 20)),))
    assert later.gaps(at(1), at(8)) == (Gap(Interval(at(5), at(6, 21)), (Reason.SKIPPED,)),)


@pytest.mark.parametrize(
    "later",
    [
        piece(at(3), at(4, 30), continuity=UNPROVEN, stored=at(4, 50)),
        piece(at(3), at(4, 30), kind=Kind.END, stored=at(4, 50)),
    ],
)
def test_neither_doubt_nor_an_end_lets_skipped_records_begin_later(later: Evidence) -> None:
    """Only proven evidence of an open shard says what was durable by then."""
    found = coverage(pieces=(*MARKS, later), skips=(Skip(at(5, 10), at(5, 20)),))
    [gap] = found.gaps(at(1), at(5))
    assert gap.interval == Interval(at(3), at(5))
    assert Reason.SKIPPED in gap.reasons


def test_a_mark_lets_skipped_records_begin_later_whatever_became_of_its_segment() -> None:
    """Nobody looked for it, or it is gone since: the mark says what was durable when it was stored."""
    unsupported = piece(at(3), at(4, 30), 7, stored=at(4, 50))
    found = coverage(pieces=(*MARKS, unsupported), skips=(Skip(at(5, 10), at(5, 20)),))
    skipped = [doubt.interval for doubt in found.doubts if doubt.reason is Reason.SKIPPED]
    assert (skipped, unsupported in found.evidence) == ([Interval(at(4, 30), at(5, 21))], False)


def test_evidence_of_unknown_age_lets_nothing_begin_later() -> None:
    """It may have been stored behind the skipped records."""
    pieces = tuple(mark._replace(stored_ms=None) for mark in MARKS)
    assert coverage(pieces=pieces, skips=(Skip(at(5, 10), at(5, 20)),)).covered == (Interval(at(5, 21), at(8)),)


def test_a_tombstone_stands_against_a_batch_that_was_skipped_days_later() -> None:
    """Its day was judged with its segments. Of a batch whose marker came behind the tombstone it says nothing."""
    before = piece(at(-26), at(-25), stored=at(-25))
    kept = expired_evidence(SHARD, span(-25, 0), Position(4), stored_ms=at(30))
    last = piece(at(0), at(3), stored=at(3))
    for skip, is_covered in (
        (Skip(at(28), at(29)), True),
        (Skip(at(31), at(32)), True),
        (Skip(at(-24), at(31)), False),
    ):
        found = coverage(pieces=(before, kept, last), skips=(skip,))
        assert found.is_covered(at(-26), at(0)) is is_covered, skip


def test_a_comparison_with_the_stream_clears_what_was_skipped() -> None:
    """One that was stored behind the marker; an earlier one may not have seen the records."""
    skips = (Skip(at(5, 10), at(5, 20)),)
    stream = piece(at(0), at(8), kind=Kind.STREAM, stored=at(8))
    assert coverage(pieces=(*MARKS, stream), skips=skips).is_covered(at(1), at(8))
    early = stream._replace(until_ms=at(5, 15), stored_ms=at(5, 19))
    assert not coverage(pieces=(*MARKS, early), skips=skips).is_covered(at(1), at(8))


ADOPTED = piece(at(3), at(3), 7, kind=Kind.ADOPTED, continuity=UNPROVEN, stored=at(3, 1))
BEHIND = link(8, 5, after=ChainStart("AFTER_SEQUENCE", Position(7)))


def test_an_adopted_shard_begins_with_its_adoption() -> None:
    """With a chain that follows the checkpoint, or with none yet."""
    assert coverage(pieces=(ADOPTED,)).adopted_ms == at(3)
    assert coverage(BEHIND, begun=8, pieces=(ADOPTED,)).adopted_ms == at(3)


def test_a_comparison_before_an_adoption_is_nobodys_archiving() -> None:
    """A day so far, audited at level `stream` before somebody took the shard over: what it holds is not ours."""
    compared = piece(at(0), at(1), kind=Kind.STREAM)
    assert coverage(pieces=(ADOPTED, compared)).adopted_ms == at(3)


def test_a_shard_that_was_archived_before_is_not_excused_by_an_adoption() -> None:
    """Its chain, or a mark, tells that it had begun."""
    assert coverage(first(1), pieces=(ADOPTED,)).adopted_ms is None
    assert coverage(pieces=(ADOPTED, piece(at(0), at(1)))).adopted_ms is None
    assert coverage(pieces=(piece(at(0), at(1)),)).adopted_ms is None


def test_nothing_proves_what_was_seen_to_be_lost() -> None:
    """Segments, marks, a proven end and other comparisons of that time; what lies around it stays proven."""
    loss = piece(at(3), at(3, 1), kind=Kind.STREAM, continuity=LOST)
    proofs = [piece(at(0), at(8), kind=kind) for kind in (Kind.READ, Kind.END, Kind.STREAM, Kind.EXPIRED)]
    for pieces in ((proof, loss) for proof in proofs):
        found = coverage(pieces=pieces)
        assert found.gaps(at(0), at(8)) == (Gap(Interval(at(3), at(3, 1)), (Reason.LOST,)),)
    chain = coverage(first(1), link(2, 5), pieces=(loss,))
    assert chain.gaps(at(0), at(4)) == (Gap(Interval(at(3), at(3, 1)), (Reason.LOST,)),)


def test_a_loss_proves_nothing_and_begins_nothing() -> None:
    """It shows no shard open, and no time from which the shard must be covered."""
    found = coverage(pieces=(piece(at(3), at(4), kind=Kind.STREAM, continuity=LOST),))
    assert (found.covered, found.evidence, found.begins_ms(), found.seen_open_ms) == ((), [], FOREVER, None)
