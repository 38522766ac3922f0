"""How segments are joined, what a chain of them proves, and where it is torn."""

from itertools import permutations
from typing import NamedTuple

import pytest

from minutebook.coverage.chain import Chain, ChainView, Reason
from minutebook.coverage.evidence import Evidence, EvidenceLink, Kind, expired_link
from minutebook.coverage.intervals import Interval
from minutebook.coverage.joints import Joint, joint_of
from minutebook.format.metadata import ChainStart, Continuity, Predecessor
from minutebook.format.position import Position
from minutebook.format.read_mark import BIRTH
from tests.unit.minutebook.coverage.scene import (
    LOST,
    PROVEN,
    SHARD,
    START,
    UNPROVEN,
    at,
    coverage,
    first,
    link,
    piece,
)


def reasons(*links: EvidenceLink, searched: bool = True, begun: int | None = 1) -> list[Reason]:
    """Return the reasons of a chain's doubts, in order."""
    return [doubt.reason for doubt in coverage(*links, searched=searched, begun=begun).doubts]


def test_segments_of_one_run_carry_each_others_times_on() -> None:
    """Nobody states a continuity; the first one's `from` is the shard's beginning."""
    found = coverage(first(1), link(2, 5), link(3, 9))
    assert found.covered == (Interval(BIRTH, at(8, 59)),)
    assert found.doubts == []


@pytest.mark.parametrize(
    ("doubles", "reasons"),
    [
        ((link(2, 5), link(2, 5, claim=LOST)), []),
        ((link(2, 5, claim=PROVEN, since=at(1)), link(2, 5, claim=UNPROVEN)), []),
        ((link(2, 5, claim=LOST), link(2, 5, claim=UNPROVEN)), [Reason.UNPROVEN]),
        ((link(2, 5, claim=PROVEN, since=at(1)), link(2, 5, claim=PROVEN, since=at(2))), []),
        ((link(2, 5), link(2, 6)), []),
    ],
)
def test_of_a_slot_that_is_held_twice_the_one_counts_that_claims_more(
    doubles: tuple[EvidenceLink, ...], reasons: list[Reason]
) -> None:
    """Whatever order they come in: the same objects give the same verdict."""
    found = [coverage(*links) for links in permutations((first(1), *doubles, link(3, 9)))]
    assert {(one.covered, tuple(one.doubts)) for one in found} == {(found[0].covered, tuple(found[0].doubts))}
    assert [doubt.reason for doubt in found[0].doubts] == reasons


def test_a_segment_that_steps_back_reaches_as_far_as_what_it_follows() -> None:
    """Along a chain the greater `until` goes on."""
    assert coverage(first(1), link(2, 5), link(3, 4, 58)).covered == (Interval(BIRTH, at(4, 59)),)


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        (link(2, 5, claim=UNPROVEN), Reason.UNPROVEN),
        (link(2, 5, claim=LOST), Reason.LOST),
        (link(2, 5, run="other"), Reason.UNDECIDED),
        (link(2, 5, run=None), Reason.UNDECIDED),
        (link(2, 5, claim=PROVEN), Reason.UNDECIDED),
        (link(3, 5), Reason.BROKEN_CHAIN),
        (link(2, 5, after=START), Reason.BROKEN_CHAIN),
        (link(2, 5, after=START, claim=UNPROVEN), Reason.UNPROVEN),
        (link(2, 5, after=START, claim=LOST), Reason.LOST),
        (link(3, 5, claim=PROVEN, since=at(1)), Reason.BROKEN_CHAIN),
        (link(3, 5, claim=UNPROVEN), Reason.BROKEN_CHAIN),
    ],
)
def test_a_segment_that_proves_nothing_begins_an_interval(second: EvidenceLink, reason: Reason) -> None:
    """At the start of its minute and two; what others cover is not harmed."""
    found = coverage(first(1), second, second._replace(first=Position(9), last=Position(9), after=second.last))
    assert [(doubt.reason, doubt.interval) for doubt in found.doubts][:1] == [(reason, Interval(at(0, 59), at(5, 2)))]
    assert found.covered[0] == Interval(BIRTH, at(0, 59))


@pytest.mark.parametrize(("claim", "reason"), [(UNPROVEN, Reason.UNPROVEN), (LOST, Reason.LOST)])
def test_a_start_behind_a_stale_checkpoint_says_itself_that_it_proves_nothing(
    claim: Continuity, reason: Reason
) -> None:
    """KCL had not stored how far it was, and what was archived since is trimmed: no segment is missing."""
    assert reasons(first(1), link(2, 3), link(3, 9, after=1, claim=claim)) == [reason]
    assert reasons(first(1), link(2, 3), link(3, 9, after=1)) == [Reason.BROKEN_CHAIN]


def test_a_start_behind_a_stale_checkpoint_goes_on_from_a_mark() -> None:
    """The mark told the doubt, and whoever read on from there knows of nothing else: nothing is missing."""
    found = coverage(first(1), link(2, 3), link(3, 9, after=1, claim=PROVEN, since=at(8)), link(4, 10))
    assert [(doubt.reason, doubt.interval) for doubt in found.doubts] == [
        (Reason.UNPROVEN, Interval(at(2, 59), at(8)))
    ]
    assert found.covered == (Interval(BIRTH, at(2, 59)), Interval(at(8), at(9, 59)))


def test_no_mark_from_before_a_segment_excuses_a_start_that_passed_it_over() -> None:
    """Whoever read on from then on would have met the segment."""
    assert reasons(first(1), link(2, 3), link(3, 9, after=1, claim=PROVEN, since=at(2))) == [Reason.BROKEN_CHAIN]


@pytest.mark.parametrize(
    ("continuity", "reason"), [(PROVEN, Reason.CONTRADICTED), (UNPROVEN, Reason.UNPROVEN), (LOST, Reason.LOST)]
)
@pytest.mark.parametrize("hour", [3, 10])
def test_a_mark_inside_a_segment_proves_nothing_and_breaks_nothing(
    hour: int, continuity: Continuity, reason: Reason
) -> None:
    """Somebody restored a checkpoint there: no segment is missing."""
    long = link(2, hour)._replace(last=Position(5))
    found = coverage(first(1), long, pieces=(piece(at(8), at(9), 3, continuity=continuity),))
    assert [doubt.reason for doubt in found.doubts] == [reason]
    assert found.covered == (Interval(BIRTH, at(hour - 1, 59)),)


@pytest.mark.parametrize(
    ("unseen", "reason"), [(frozenset({Position(2)}), Reason.NOT_SEEN), (frozenset(), Reason.BROKEN_CHAIN)]
)
def test_what_nobody_looked_far_enough_for_is_not_missing(unseen: frozenset[Position], reason: Reason) -> None:
    """Although it lies behind a segment that was found."""
    view = ChainView((first(1), link(4, 9, after=1, claim=UNPROVEN)), Position(1), True, True, unseen)
    assert Chain(SHARD, view).missing(Position(2)) is reason


def test_the_chain_goes_on_behind_a_gap() -> None:
    """From where the new interval begins."""
    found = coverage(first(1), link(2, 5, claim=UNPROVEN), link(3, 7))
    assert found.covered == (Interval(BIRTH, at(0, 59)), Interval(at(5, 2), at(6, 59)))


def test_a_claim_reaches_back_to_its_own_from() -> None:
    """Which may be a read mark's, long behind the segment before."""
    found = coverage(first(1), link(2, 9, run="other", claim=PROVEN, since=at(7)))
    assert found.covered == (Interval(BIRTH, at(0, 59)), Interval(at(7), at(8, 59)))


def test_no_claim_reaches_back_over_a_doubt() -> None:
    """What lies before the last place at which the chain is torn may be missing."""
    found = coverage(first(1), link(2, 5, claim=UNPROVEN), link(3, 9, claim=PROVEN, since=at(1)))
    assert found.covered == (Interval(BIRTH, at(0, 59)), Interval(at(5, 2), at(8, 59)))


@pytest.mark.parametrize(("hour", "minute", "decided"), [(24, 53, True), (24, 55, False)])
def test_a_day_later_a_segment_must_state_its_continuity(*, hour: int, minute: int, decided: bool) -> None:
    """Its records were delivered after they arrived: by then others may have been trimmed."""
    assert reasons(first(1), link(2, hour, minute)) == ([] if decided else [Reason.UNDECIDED])


@pytest.mark.parametrize(
    ("chain", "searched", "begun", "expected"),
    [
        ([first(1)], True, 1, []),
        ([first(1)], False, 1, []),
        ([first(1)], True, None, [Reason.BROKEN_CHAIN]),
        ([first(1)], True, 2, [Reason.BROKEN_CHAIN]),
        ([link(1, 1)], True, 1, [Reason.UNDECIDED]),
        ([first(1, claim=UNPROVEN)], True, 1, [Reason.UNPROVEN]),
        ([link(5, 1)], True, 1, [Reason.BROKEN_CHAIN]),
        ([link(5, 1)], False, 1, [Reason.NOT_SEEN]),
    ],
)
def test_a_chain_begins_where_start_json_says(
    *,
    chain: list[EvidenceLink],
    searched: bool,
    begun: int | None,
    expected: list[Reason],
) -> None:
    """Anything else follows a segment that is missing, or that nobody looked for."""
    assert reasons(*chain, searched=searched, begun=begun) == expected


def test_a_double_carries_nothing_on() -> None:
    """A segment inside another is the audit's to report, not a break."""
    double = link(2, 3)._replace(first=Position(1))
    assert coverage(first(1)._replace(last=Position(2)), double, link(3, 5)).covered == (Interval(BIRTH, at(4, 59)),)


def expired(run: str = "run") -> EvidenceLink:
    """Return the run of four segments that a tombstone stands for."""
    return expired_link(
        first=Position(1), last=Position(4), after=START, arrival_min_ms=at(-24), until_ms=at(-1), run=run
    )


def test_a_segment_may_follow_an_expired_one() -> None:
    """From the run's `until` on; before it the tombstone's own intervals cover."""
    assert coverage(expired(), link(5, 5), begun=1).covered == (Interval(at(-1), at(4, 59)),)
    assert reasons(expired(), link(5, 5)) == []


def test_behind_an_expired_run_a_segment_is_judged_as_behind_any() -> None:
    """Another processor's run must state its continuity."""
    assert reasons(expired("other"), link(5, 5)) == [Reason.UNDECIDED]


ADOPTED = ChainStart("AFTER_SEQUENCE", Position(3))


@pytest.mark.parametrize(
    ("number", "links", "searched", "reason"),
    [
        (1, [first(1)], True, None),
        (2, [first(1)], True, Reason.BROKEN_CHAIN),
        (2, [first(1)], False, Reason.NOT_SEEN),
        (2, [first(1), link(3, 5, after=2)], False, Reason.BROKEN_CHAIN),
        (4, [link(5, 5), link(6, 6)], False, Reason.NOT_SEEN),
        (4, [link(5, 5), link(6, 6)], True, Reason.BROKEN_CHAIN),
        (4, [], False, Reason.NOT_SEEN),
        (4, [], True, Reason.BROKEN_CHAIN),
        (4, [expired()], True, None),
        (None, [], True, None),
        (None, [first(20)], True, None),
        (None, [first(3)], True, Reason.CONTRADICTED),
        (None, [link(5, 20)], True, Reason.NOT_SEEN),
        (1, [first(1), link(2, 3)], True, Reason.CONTRADICTED),
        (1, [first(1), link(2, 20)], True, None),
    ],
)
def test_a_mark_stands_at_the_end_of_a_segment(
    *,
    number: int | None,
    links: list[EvidenceLink],
    searched: bool,
    reason: Reason | None,
) -> None:
    """Or nowhere, before the first; and nothing that arrived by its `until` lies behind it."""
    found = coverage(*links, pieces=(piece(at(2), at(9), number),), searched=searched)
    covers = Interval(at(2), at(9)) in [evidence.interval for evidence in found.evidence]
    assert covers == (reason is None)
    assert reason is None or reason in [doubt.reason for doubt in found.doubts]


def test_no_mark_stands_before_a_chain_whose_start_is_not_known() -> None:
    """Start.json is there, and its segment is not: something was archived."""
    view = ChainView((), Position(1), to_the_beginning=False, to_the_end=True)
    assert not Chain(SHARD, view).begins_in_view
    searched = view._replace(to_the_beginning=True)
    assert Chain(SHARD, searched).begins_in_view
    assert not Chain(SHARD, searched._replace(unread=(Interval(at(1), at(2)),))).begins_in_view


def test_an_adopted_checkpoint_is_a_place_to_stand() -> None:
    """From its own beginning on."""
    adopted = piece(at(3), at(3), 7, kind=Kind.ADOPTED, continuity=UNPROVEN, stored=at(3, 1))
    found = coverage(pieces=(adopted, piece(at(1), at(9), 7)))
    assert found.covered == (Interval(at(3), at(9)),)


def test_a_mark_covers_nothing_from_before_the_last_doubt_behind_it() -> None:
    """Its `from` is a claim of its writer; the chain is not."""
    links = (first(1), link(2, 5, claim=UNPROVEN))
    assert coverage(*links, pieces=(piece(at(2), at(9), 2),)).covered[1:] == (Interval(at(5, 2), at(9)),)


def test_a_comparison_with_the_stream_covers_over_a_doubt() -> None:
    """It saw the records themselves; a segment that is missing now is another matter."""
    mark = piece(at(0), at(9), 2, kind=Kind.STREAM)
    assert coverage(first(1), link(2, 5, claim=UNPROVEN), pieces=(mark,)).covered == (Interval(BIRTH, at(9)),)
    torn = coverage(first(1), link(2, 5, after=0), pieces=(mark,))
    assert torn.covered == (Interval(BIRTH, at(0, 59)), Interval(at(5, 2), at(9)))


@pytest.mark.parametrize("pieces", [(), (piece(at(0), at(9), 6, kind=Kind.STREAM),)])
def test_what_was_archived_before_the_recorded_beginning_is_unproven(pieces: tuple[Evidence, ...]) -> None:
    """KCL had skipped it once. A segment between the two may be gone, and a comparison may be older than that."""
    links = (link(1, 1, claim=UNPROVEN), link(2, 2), link(5, 3, after=START, claim=PROVEN, since=BIRTH), link(6, 4))
    found = coverage(*links, pieces=pieces, begun=5)
    assert {doubt.reason for doubt in found.doubts} == {Reason.UNPROVEN}
    assert not found.is_covered(at(2), at(3))
    assert found.is_covered(at(3, 2), at(3, 59))
    (two_beginnings,) = [doubt for doubt in coverage(*links, begun=4).doubts if doubt.position == Position(5)]
    assert two_beginnings.reason is Reason.BROKEN_CHAIN


def test_a_record_at_the_very_end_of_a_comparison_lies_behind_it() -> None:
    """Compared is what arrived before; a day's first record may arrive at midnight."""
    follower = link(2, 9, claim=UNPROVEN)
    mark = piece(at(0), follower.arrival_min_ms, 1, kind=Kind.STREAM)
    assert coverage(first(1), follower, pieces=(mark,)).is_covered(at(0), mark.until_ms)


@pytest.mark.parametrize(("continuity", "reason"), [(UNPROVEN, Reason.UNPROVEN), (LOST, Reason.LOST)])
def test_a_mark_that_is_not_proven_says_why(continuity: Continuity, reason: Reason) -> None:
    """It covers nothing, and what stands on it begins at its `until`."""
    unproven = piece(at(2), at(9), 1, continuity=continuity)
    found = coverage(first(1), pieces=(unproven, piece(at(9), at(10), 1)))
    assert found.covered == (Interval(BIRTH, at(0, 59)), Interval(at(9), at(10)))
    assert [doubt.reason for doubt in found.doubts] == [reason]


def test_a_proven_end_covers_for_ever_unless_something_follows() -> None:
    """A later segment denies it."""
    end = piece(at(2), at(9), 1, kind=Kind.END)
    assert coverage(first(1), pieces=(end,)).is_covered(at(2), at(99))
    assert not coverage(first(1), link(2, 50), pieces=(end,)).is_covered(at(2), at(9))


@pytest.mark.parametrize(("beginning", "end"), [(False, True), (True, False)])
def test_what_lies_between_two_links_is_missing_wherever_the_chain_begins_and_ends(
    *, beginning: bool, end: bool
) -> None:
    """Whoever sees both sees this place; what lies before the first, or behind the last, they may not have seen."""
    links = (first(1), link(4, 9, after=1, claim=UNPROVEN))
    chain = Chain(SHARD, ChainView(links, Position(1), to_the_beginning=beginning, to_the_end=end))
    assert chain.missing(Position(2)) is Reason.BROKEN_CHAIN
    assert not chain.holds(Position(2))
    assert chain.missing(Position(0)) is (Reason.BROKEN_CHAIN if beginning else Reason.NOT_SEEN)
    assert chain.missing(Position(9)) is (Reason.BROKEN_CHAIN if end else Reason.NOT_SEEN)


class Member(NamedTuple):
    """A member of a chain."""

    last: Position
    after: Predecessor


START = ChainStart("AT_TIMESTAMP")


BEFORE = Member(Position(20, 1), Position(10))


@pytest.mark.parametrize(
    ("before", "after", "joint"),
    [
        (None, START, Joint.HEAD),
        (None, Position(20, 1), Joint.ORPHAN),
        (BEFORE, Position(20, 1), Joint.FOLLOWS),
        (BEFORE, Position(20, 2), Joint.LEAPS),
        (BEFORE, Position(20, 0), Joint.GOES_BACK),
        (BEFORE, Position(10), Joint.GOES_BACK),
        (BEFORE, START, Joint.RESTARTS),
    ],
)
def test_a_joint_is_told_by_what_a_segment_says_it_comes_after(
    before: Member | None, after: Predecessor, joint: Joint
) -> None:
    """Whatever its own positions, and whatever it claims."""
    assert joint_of(before, Member(Position(40), after)) is joint
