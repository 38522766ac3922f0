"""The verdict on a day: who is judged, from when to when, and what spoils it, such as kinship in a circle."""

from collections.abc import Sequence
from typing import Final

import pytest

from minutebook.coverage.chain import Reason
from minutebook.coverage.evidence import Kind
from minutebook.coverage.intervals import Interval
from minutebook.coverage.shard_coverage import ShardCoverage
from minutebook.coverage.topology import ShardRow, ShardSources, Topology
from minutebook.coverage.verdict import State, Verdict, day_scope, judge_scope
from minutebook.format.aggregate import EVERY_HASH_KEY, HashRange
from minutebook.format.day import Day
from minutebook.format.read_mark import BIRTH
from tests.unit.minutebook.coverage.scene import DAY, LOST, UNPROVEN, at, coverage, first, link, marked, piece, span

HALF = EVERY_HASH_KEY.last // 2
LOW, HIGH = HashRange(0, HALF), HashRange(HALF + 1, EVERY_HASH_KEY.last)
ONLY = ShardRow("p", EVERY_HASH_KEY)
SCOPE = span(0, 24)
BEGAN = at(-100)


def shard(name: str, keys: HashRange | None, *parents: str) -> ShardRow:
    """Return a row."""
    return ShardRow(name, keys, frozenset(parents))


def split_stream(**changes: object) -> ShardSources:
    """Return a stream whose one shard `p` was split into `c` and `d`; nobody asked ListShards."""
    rows, opened = (shard("c", LOW, "p"), shard("d", HIGH, "p")), frozenset({"p", "c", "d"})
    return ShardSources(first=(ONLY,), marked=rows, opened=opened, ended=frozenset({"p"}))._replace(**changes)


def ended(since: int, end: int, *, proven: bool = True, name: str = "p") -> ShardCoverage:
    """Return a shard that was read from `since` to its end, which is proven at `end`."""
    continuity = UNPROVEN if not proven else piece(0, 0).continuity
    last = piece(since, end, kind=Kind.END, continuity=continuity, shard=name)
    return coverage(pieces=(last,), shard=name, ended=end + 60_000)


def decide(sources: ShardSources, *coverages: ShardCoverage, scope: Interval = SCOPE, begin: int = BEGAN) -> Verdict:
    """Judge the day."""
    return judge_scope(scope, Topology(sources), {found.shard_id: found for found in coverages}, begin_ms=begin)


def spoiled(verdict: Verdict) -> dict[str, Sequence[Reason]]:
    """Return the reasons by shard."""
    return {one.shard_id: one.reasons for one in verdict.shards if one.state is not State.COVERED}


ONE = ShardSources(first=(ONLY,), opened=frozenset({"p"}))


def test_a_day_is_covered_when_its_shard_is() -> None:
    """From its begin to its end."""
    verdict = decide(ONE, marked("p", (-99, 25)))
    assert (verdict.state, verdict.reasons, [one.shard_id for one in verdict.shards]) == (State.COVERED, (), ["p"])


@pytest.mark.parametrize("evidence", [marked("p", (-99, 23)), marked("p", (1, 25)), marked("p", (-99, 9), (10, 25))])
def test_a_gap_leaves_the_day_unknown(evidence: ShardCoverage) -> None:
    """At its end, its begin, or between."""
    verdict = decide(ONE, evidence)
    assert (verdict.state, spoiled(verdict)) == (State.UNKNOWN, {"p": (Reason.NOT_COVERED,)})


@pytest.mark.parametrize(("day", "state"), [(-2, State.COVERED), (-1, State.DEFECT), (0, State.DEFECT)])
def test_a_loss_over_midnight_is_a_defect_of_every_day_that_it_touches(day: int, state: State) -> None:
    """Nobody knows on which of them the records arrived; a day beside the gap is covered."""
    chain = coverage(
        first(-80, since=BEGAN),
        *(link(number, hour) for number, hour in ((2, -60), (3, -40), (4, -20), (5, -2))),
        link(6, 22, claim=LOST),
        link(7, 30),
        shard="p",
    )
    assert decide(ONE, chain, scope=span(24 * day, 24 * day + 24)).state is state


def test_a_shard_that_nobody_read_is_missing() -> None:
    """However well the others are covered."""
    sources = ShardSources(first=(shard("a", LOW), shard("b", HIGH)), opened=frozenset({"a"}))
    verdict = decide(sources, marked("a", (-99, 25)))
    assert (verdict.state, spoiled(verdict)) == (State.UNKNOWN, {"b": (Reason.MISSING_SHARD,)})


def test_without_a_known_shard_nothing_is_covered() -> None:
    """An empty frontier proves nothing."""
    assert (decide(ShardSources()).state, decide(ShardSources()).reasons) == (State.UNKNOWN, (Reason.NO_FRONTIER,))


def test_a_day_of_which_no_shard_is_judged_is_not_covered() -> None:
    """All of them began later, and nothing else is in doubt."""
    verdict = decide(ONE, marked("p", (-99, 25)), scope=span(-200, -150))
    assert (verdict.state, verdict.reasons) == (State.UNKNOWN, (Reason.NO_FRONTIER,))


def test_evidence_of_strangers_covers_nothing() -> None:
    """A shard that is no first one and descends from none ended before the application began."""
    assert decide(ONE, marked("x", (-99, 25))).state is State.UNKNOWN


def test_children_are_judged_from_the_last_time_at_which_their_parent_was_open() -> None:
    """A proof of the parent's end shows no opening."""
    parent = coverage(pieces=(piece(BEGAN, at(9)), piece(at(9), at(12), kind=Kind.END)), shard="p", ended=at(12, 1))
    verdict = decide(split_stream(), parent, marked("c", (0, 25)), marked("d", (0, 25)))
    assert verdict.state is State.COVERED
    assert {one.shard_id: one.required for one in verdict.shards} == {
        "p": Interval(at(0), at(12, 2)),
        "c": Interval(at(9), at(24)),
        "d": Interval(at(9), at(24)),
    }


@pytest.mark.parametrize(
    ("child", "state"),
    [
        (marked("d", (9, 25)), State.COVERED),
        (marked("d", (10, 25)), State.UNKNOWN),
        (marked("d"), State.UNKNOWN),
        (coverage(pieces=(piece(BIRTH, at(25), continuity=UNPROVEN, shard="d"),), shard="d"), State.UNKNOWN),
    ],
)
def test_every_child_is_judged(child: ShardCoverage, state: State) -> None:
    """One that is covered from later on leaves open what arrived before."""
    parent = coverage(pieces=(piece(BEGAN, at(9)), piece(at(9), at(12), kind=Kind.END)), shard="p", ended=at(12, 1))
    assert decide(split_stream(), parent, marked("c", (0, 25)), child).state is state


def test_children_are_not_judged_where_their_parent_is_known_to_be_open_at_the_end() -> None:
    """They were born later, whatever became of them."""
    parent = coverage(pieces=(piece(BEGAN, at(24)), piece(at(24), at(25), kind=Kind.END)), shard="p", ended=at(25, 1))
    verdict = decide(split_stream(), parent)
    assert (verdict.state, [one.shard_id for one in verdict.shards]) == (State.COVERED, ["p"])


@pytest.mark.parametrize("kind", [Kind.END, Kind.STREAM])
def test_neither_an_end_nor_an_audit_shows_a_parent_open(kind: Kind) -> None:
    """Covered to the day's end it may have closed before."""
    parent = coverage(pieces=(piece(BEGAN, at(25), kind=kind),), shard="p", ended=at(25, 1))
    assert spoiled(decide(split_stream(), parent)) == {"c": (Reason.NOT_COVERED,), "d": (Reason.NOT_COVERED,)}


def test_children_that_list_shards_names_are_judged_before_their_parent_has_an_end() -> None:
    """An audit covers the closed parent; nobody has read the children."""
    listed = (ONLY, shard("c", LOW, "p"), shard("d", HIGH, "p"))
    sources = ONE._replace(listed=listed, closed=frozenset({"p"}))
    parent = coverage(pieces=(piece(BEGAN, at(25), kind=Kind.STREAM),), shard="p")
    assert spoiled(decide(sources, parent)) == {"c": (Reason.MISSING_SHARD,), "d": (Reason.MISSING_SHARD,)}


def test_children_that_the_archive_names_are_judged_whatever_list_shards_says_of_their_parent() -> None:
    """An answer from before the split still calls it open."""
    sources = split_stream(listed=(ONLY,), ended=frozenset())
    parent = coverage(pieces=(piece(BEGAN, at(12), kind=Kind.STREAM),), shard="p")
    assert {"c", "d"} <= set(spoiled(decide(sources, parent)))


def test_what_came_after_a_shard_must_be_known() -> None:
    """An audit covered it; nobody asked whether it was still open."""
    parent = coverage(pieces=(piece(BEGAN, at(25), kind=Kind.STREAM),), shard="p")
    assert decide(ONE, parent).reasons == (Reason.SUCCESSION_UNKNOWN,)
    assert decide(ONE._replace(listed=(ONLY,)), parent).state is State.COVERED


@pytest.mark.parametrize(("proven", "state"), [(True, State.COVERED), (False, State.UNKNOWN)])
def test_a_parent_is_required_until_it_had_ended(*, proven: bool, state: State) -> None:
    """An end that is proven covers it; one that expired ends it, and covers nothing before."""
    parent = ended(at(-1), at(12), proven=proven)
    children = (marked("c", (BIRTH, 25)), marked("d", (BIRTH, 25)))
    verdict = decide(split_stream(), parent, *children, begin=at(-1))
    assert verdict.state is state
    assert decide(split_stream(), parent, *children, begin=at(-1), scope=span(13, 24)).state is State.COVERED


def test_a_child_that_was_seen_shows_that_its_parents_had_ended() -> None:
    """Without an end.json a parent would be required for ever."""
    sources = split_stream(ended=frozenset())
    children = (marked("c", (BIRTH, 1), (1, 25)), marked("d", (BIRTH, 1), (1, 25)))
    verdict = decide(sources, marked("p", (-99, 0)), *children)
    assert spoiled(verdict) == {"p": (Reason.NOT_COVERED,)}
    assert decide(sources, marked("p", (-99, 0)), *children, scope=span(2, 24)).state is State.COVERED


def test_a_child_that_was_opened_shows_that_its_parents_had_ended() -> None:
    """Its `opened.json` is as old as its first reader, where the parent's lost `end.json` was put back days later."""
    read = (piece(at(9), at(25), shard="c"),)
    child = coverage(pieces=read, opened=at(2), shard="c")
    parent = coverage(pieces=(piece(BEGAN, at(1)),), shard="p", ended=at(40))
    verdict = decide(split_stream(), parent, child, marked("d", (BIRTH, 25)))
    assert {one.shard_id: one.required for one in verdict.shards}["p"] == Interval(at(0), at(2, 3))


def test_children_must_hold_all_keys_of_their_parent() -> None:
    """Half of them are nobody's."""
    sources = split_stream(marked=(shard("c", LOW, "p"),))
    assert decide(sources, ended(at(-1), at(9)), marked("c", (BIRTH, 25)), begin=at(-1)).reasons == (
        Reason.HASH_HOLE,
    )


def test_first_shards_must_hold_all_keys() -> None:
    """A list that lost a page."""
    sources = ShardSources(first=(shard("a", LOW),), opened=frozenset({"a"}))
    assert decide(sources, marked("a", (-99, 25))).reasons == (Reason.HASH_HOLE,)


def test_a_hole_of_one_key_is_an_emulators() -> None:
    """Unless a named shard holds it."""
    sources = split_stream(marked=(shard("c", LOW, "p"), shard("d", HashRange(HALF + 2, EVERY_HASH_KEY.last), "p")))
    all_covered = (ended(at(-1), at(9)), marked("c", (BIRTH, 25)), marked("d", (BIRTH, 25)))
    assert decide(sources, *all_covered, begin=at(-1)).state is State.COVERED
    named = sources._replace(leased=(shard("e", HashRange(HALF + 1, HALF + 1)),))
    assert decide(named, *all_covered, begin=at(-1)).reasons == (Reason.HASH_HOLE,)


def test_a_child_of_one_key_is_judged() -> None:
    """A named shard must be covered whatever its width."""
    narrow = (shard("c", LOW, "p"), shard("d", HashRange(HALF + 2, EVERY_HASH_KEY.last), "p"))
    sources = split_stream(marked=(*narrow, shard("e", HashRange(HALF + 1, HALF + 1), "p")))
    all_covered = (ended(at(-1), at(9)), marked("c", (BIRTH, 25)), marked("d", (BIRTH, 25)))
    assert spoiled(decide(sources, *all_covered, begin=at(-1))) == {"e": (Reason.MISSING_SHARD,)}


def test_without_hash_keys_one_child_proves_nothing() -> None:
    """A shard may be missing beside it."""
    sources = split_stream(marked=(shard("c", None, "p"),))
    evidence = (ended(at(-1), at(9)), marked("c", (BIRTH, 25)))
    assert decide(sources, *evidence, begin=at(-1)).reasons == (Reason.RANGE_UNKNOWN,)


@pytest.mark.parametrize("heirs_of_c", [("c",), ("c", "d")], ids=["split", "merged"])
def test_a_shard_that_nobody_read_needs_no_hash_keys_if_its_relatives_are_known(heirs_of_c: tuple[str, ...]) -> None:
    """It came and went during an outage: the time until then stays unknown, and what comes later is covered."""
    if len(heirs_of_c) == 1:
        rows = (shard("c", None, "p"), shard("d", HIGH, "p"), shard("g", None, "c"), shard("h", None, "c"))
    else:
        rows = (shard("c", None, "p"), shard("d", None, "p"), shard("g", EVERY_HASH_KEY, "c", "d"))
    read = [row.shard_id for row in rows if row.shard_id not in heirs_of_c]
    sources = split_stream(marked=rows, opened=frozenset({"p", *read}))
    evidence = (ended(at(-1), at(9)), *(marked(name, (10, 20), (20, 60)) for name in read))
    assert Reason.RANGE_UNKNOWN not in decide(sources, *evidence, begin=at(-1)).reasons
    assert decide(sources, *evidence, begin=at(-1)).state is State.UNKNOWN
    assert decide(sources, *evidence, begin=at(-1), scope=span(24, 48)).state is State.COVERED


GRANDCHILDREN = (shard("g", LOW, "lost"), shard("h", HIGH, "lost"))


def heirs(until: int) -> Verdict:
    """Judge the hours from 0 to `until`, where a whole generation was never seen: p, and then g and h."""
    sources = split_stream(marked=GRANDCHILDREN, opened=frozenset({"p", "g", "h"}))
    evidence = (
        coverage(pieces=(piece(at(-9), at(1)), piece(at(1), at(2), kind=Kind.END)), shard="p", ended=at(2)),
        marked("g", (BIRTH, 10), (10, 48)),
        marked("h", (BIRTH, 12), (12, 48)),
    )
    return decide(sources, *evidence, begin=at(-9), scope=span(until - 24, until))


def test_a_shard_that_was_opened_later_in_a_hole_succeeds_the_ended_one() -> None:
    """Unknown is what lies between the two, although the later one claims to reach back to its birth."""
    assert heirs(24).reasons == (Reason.HASH_HOLE,)
    assert heirs(37).state is State.COVERED
    assert [found.shard_id for found in heirs(37).shards] == ["g", "h"]


THIRD: Final = EVERY_HASH_KEY.last // 3
OUTER: Final = (HashRange(0, THIRD - 1), HashRange(2 * THIRD, EVERY_HASH_KEY.last))
MIDDLE: Final = HashRange(THIRD, 2 * THIRD - 1)


def test_a_shard_that_was_merged_of_two_unread_ones_fills_the_holes_of_both() -> None:
    """Two shards became three in an outage, and the ones between were never read: unknown is the time until then."""
    first = (shard("p", LOW), shard("q", HIGH))
    later = (shard("a", OUTER[0], "p"), shard("d", OUTER[1], "q"), shard("e", MIDDLE, "b", "c"))
    names = ("a", "d", "e")
    sources = ShardSources(
        first=first, marked=(*first, *later), opened=frozenset({"p", "q", *names}), ended=frozenset({"p", "q"})
    )
    gone = tuple(
        coverage(pieces=(piece(at(-9), at(1)), piece(at(1), at(2), kind=Kind.END)), shard=name, ended=at(2))
        for name in ("p", "q")
    )
    evidence = (*gone, *(marked(name, (10, 12), (12, 60)) for name in names))
    assert decide(sources, *evidence, begin=at(-9)).state is State.UNKNOWN
    assert decide(sources, *evidence, begin=at(-9), scope=span(24, 48)).state is State.COVERED


def test_birth_proves_nothing_for_a_first_shard() -> None:
    """Its beginning is the application's start, not its own."""
    assert decide(ONE, marked("p", (BIRTH, 10), (10, 25))).state is State.UNKNOWN
    assert decide(ONE, marked("p", (BIRTH, 10), (10, 25)), scope=span(10, 24)).state is State.COVERED


def adopted(hour: int) -> ShardCoverage:
    """Return a shard that was taken over from another application."""
    begins = piece(at(hour), at(hour), 7, kind=Kind.ADOPTED, continuity=UNPROVEN, stored=at(hour, 1), shard="p")
    return coverage(pieces=(begins, piece(at(hour), at(49), 7, shard="p")), shard="p")


def test_an_adopted_shard_is_judged_from_its_adoption_on_and_that_is_shown() -> None:
    """On the day of the adoption; later days are whole."""
    verdict = decide(ONE, adopted(9))
    judged = verdict.shards[0]
    assert (verdict.state, judged.required, judged.begins_late) == (State.COVERED, span(9, 24), True)
    assert not decide(ONE, adopted(9), scope=span(24, 48)).shards[0].begins_late


def test_the_days_before_an_adoption_are_unknown() -> None:
    """The application had begun; this shard's records are elsewhere."""
    assert spoiled(decide(ONE, adopted(30))) == {"p": (Reason.ADOPTED,)}


def test_an_adoption_excuses_no_child() -> None:
    """What it received since its birth was this application's to read."""
    parent = coverage(pieces=(piece(BEGAN, at(9)), piece(at(9), at(12), kind=Kind.END)), shard="p", ended=at(12, 1))
    taken_over = piece(at(14), at(14), 7, kind=Kind.ADOPTED, continuity=UNPROVEN, stored=at(14, 1), shard="c")
    child = coverage(pieces=(taken_over, piece(at(14), at(49), 7, shard="c")), shard="c")
    verdict = decide(split_stream(), parent, child, marked("d", (0, 25)))
    assert spoiled(verdict) == {"c": (Reason.NOT_COVERED,)}
    assert not any(one.begins_late for one in verdict.shards)


@pytest.mark.parametrize(
    ("begin", "now", "so_far", "scope"),
    [
        (at(-100), at(99), None, (at(0), at(24))),
        (at(5), at(99), None, (at(5), at(24))),
        (at(24), at(99), None, None),
        (at(-100), at(-1), None, None),
        (at(-100), at(7), None, (at(0), at(24))),
        (at(-100), at(7), at(6), (at(0), at(6))),
        (at(-100), at(99), at(90), (at(0), at(24))),
        (at(6), at(7), at(6), None),
    ],
)
def test_the_scope_is_the_day_behind_the_applications_start(
    begin: int, now: int, so_far: int | None, scope: tuple[int, int] | None
) -> None:
    """A day before it, and one that lies ahead, are not judged at all."""
    assert day_scope(DAY, begin, now, so_far_ms=so_far) == scope


def test_shards_that_name_each_other_as_parents_prove_nothing() -> None:
    """Neither is believed, and the search ends."""
    sources = ShardSources(marked=(shard("a", LOW, "b"), shard("b", HIGH, "a")))
    assert decide(sources, marked("a", (-99, 25)), marked("b", (-99, 25))).reasons == (Reason.CIRCLE,)


def test_a_merged_shard_is_judged_once() -> None:
    """From the last time at which either parent was open."""
    rows = (shard("m", EVERY_HASH_KEY, "a", "b"),)
    sources = ShardSources(
        first=(shard("a", LOW), shard("b", HIGH)), marked=rows, opened=frozenset("abm"), ended=frozenset("ab")
    )
    parents = [
        coverage(pieces=(piece(BEGAN, at(hour)), piece(at(hour), at(12), kind=Kind.END)), shard=name, ended=at(12))
        for name, hour in (("a", 3), ("b", 5))
    ]
    verdict = decide(sources, *parents, marked("m", (5, 25)))
    assert (verdict.state, verdict.shards[-1].required) == (State.COVERED, span(5, 24))


def test_days_far_from_each_other_are_judged_by_the_same_rules() -> None:
    """The first day of the epoch has a day before it for nobody."""
    assert day_scope(Day(0), 0, at(0)) == Interval(0, Day(0).end_ms)


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
