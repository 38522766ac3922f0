"""What a processor may claim, and when it must look."""

import pytest

from minutebook.coverage.continuity import (
    Base,
    Held,
    OldestHeld,
    first_from,
    is_mark_due,
    judge_birth,
    judge_continuity,
    must_state,
    read_until,
    spread_of,
    unborn_at,
    was_unborn,
)
from minutebook.format.position import Position
from minutebook.format.read_mark import BIRTH
from tests.unit.minutebook.coverage.scene import LOST, PROVEN, SHARD, UNPROVEN, at

BASE = Base(at(0), Position(5))
LONG_AFTER = at(500)


@pytest.mark.parametrize(("minutes", "proven"), [(0, True), (23 * 60 + 54, True), (23 * 60 + 55, False)])
def test_young_evidence_proves(*, minutes: int, proven: bool) -> None:
    """Kinesis keeps everything for a day; five minutes are left to clocks and requests."""
    assert (judge_continuity(BASE, at(0, minutes), Held()) is PROVEN) == proven


@pytest.mark.parametrize(
    ("base", "held", "proven"),
    [
        (BASE, Held(tail=True), True),
        (BASE, Held(), False),
        (BASE, Held(oldest=OldestHeld(Position(5), at(99))), True),
        (BASE, Held(oldest=OldestHeld(Position(6), at(99))), False),
        (BASE, Held(oldest=OldestHeld(Position(6), at(-1))), True),
        (Base(at(0)), Held(oldest=OldestHeld(Position(6), at(0, -2))), True),
        (Base(at(0)), Held(oldest=OldestHeld(Position(6), at(0, -1))), False),
        (Base(at(0)), Held(), False),
    ],
)
def test_a_record_that_is_still_held_proves(*, base: Base, held: Held, proven: bool) -> None:
    """One at or before the position, or one that surely came before what is to be proven."""
    assert (judge_continuity(base, LONG_AFTER, held) is PROVEN) == proven


def test_a_certain_loss_is_said() -> None:
    """Doubt is not."""
    assert judge_continuity(BASE, LONG_AFTER, Held(), is_lost=True) is LOST
    assert judge_continuity(BASE, LONG_AFTER, Held()) is UNPROVEN
    assert judge_birth(LONG_AFTER, is_lost=True) is LOST


@pytest.mark.parametrize(
    ("parents", "unborn", "proven"),
    [
        (None, None, False),
        (at(0), None, False),
        (at(0, 6), None, True),
        (None, at(0), False),
        (None, at(0, 6), True),
        (at(-9), at(0, 6), True),
    ],
)
def test_a_child_born_lately_has_lost_nothing(
    *,
    parents: int | None,
    unborn: int | None,
    proven: bool,
) -> None:
    """A parent was open, or ListShards did not name the child, less than a day ago."""
    assert (judge_birth(at(24), parents_open_ms=parents, unborn_ms=unborn) is PROVEN) == proven


@pytest.mark.parametrize(("minutes", "proven"), [(-30, True), (0, True), (4, True), (5, False), (600, False)])
def test_a_host_may_sleep_between_list_shards_and_the_read(*, minutes: int, proven: bool) -> None:
    """Five minutes at most: the time that was asked about stays where it was."""
    found = judge_birth(at(9, minutes), unborn_ms=unborn_at(at(9)))
    assert (found is PROVEN) == proven


@pytest.mark.parametrize(
    ("then", "now", "unborn"),
    [((), (SHARD,), True), ((SHARD,), (SHARD,), False), ((), (), False), ((SHARD,), (), False)],
)
def test_list_shards_shows_a_birth_by_naming_the_shard_now_alone(
    *,
    then: tuple[str, ...],
    now: tuple[str, ...],
    unborn: bool,
) -> None:
    """A server that ignores the filter proves nothing."""
    assert was_unborn(SHARD, then, now) == unborn


@pytest.mark.parametrize(
    ("minutes", "own", "states"), [(10, True, False), (10, False, True), (23 * 60 + 55, True, True)]
)
def test_only_behind_its_own_young_segment_a_segment_states_nothing(*, minutes: int, own: bool, states: bool) -> None:
    """Behind a mark, another's segment, or a day later it does."""
    assert must_state(BASE, at(0, minutes), follows_own_segment=own) == states


SPREAD = spread_of(SHARD)


def test_the_spread_is_the_same_everywhere_and_below_ten_minutes() -> None:
    """Python's own hash differs from process to process."""
    assert (spread_of("shardId-000000000000"), spread_of("shardId-000000000001")) == (
        SPREAD,
        spread_of("shardId-000000000001"),
    )
    assert 0 <= max(spread_of(f"shardId-{number:012d}") for number in range(500)) < 600_000


@pytest.mark.parametrize(
    ("last", "now", "due"),
    [
        (None, at(9), True),
        (at(9), at(9, 30), False),
        (at(9) - 1, at(9, 30), True),
        (at(9), at(10, 2) + 9999 + SPREAD, False),
        (at(9), at(10, 2) + 10_000 + SPREAD, True),
        (at(10), at(10, 2) + 10_000 + SPREAD, False),
        (at(-1, 50), at(0, 2) + SPREAD, False),
        (at(-1, 50), at(0, 2) + 10_000 + SPREAD, True),
        (at(0), at(0, 59), False),
        (at(-30), at(0), True),
    ],
)
def test_a_mark_is_due_for_each_full_hour_that_evidence_does_not_reach(
    *, last: int | None, now: int, due: bool
) -> None:
    """Some minutes behind it, midnight as any other; and at once where there is none, or where it is missed."""
    assert is_mark_due(SHARD, last, now, None) == due


@pytest.mark.parametrize(
    ("attempt", "due"), [(None, True), (at(9) - 59_999, False), (at(8, 59), True), (at(9, 1), True)]
)
def test_an_attempt_is_repeated_after_a_minute(*, attempt: int | None, due: bool) -> None:
    """A time that lies ahead is nobody's attempt."""
    assert is_mark_due(SHARD, None, at(9), attempt) == due


def test_evidence_begins_where_its_base_ends() -> None:
    """A child's first at its birth."""
    assert (first_from(BASE), first_from(None)) == (at(0), BIRTH)


@pytest.mark.parametrize(("since", "until"), [(BIRTH, at(8, 59)), (at(9, 1), at(9, 1))])
def test_a_read_reaches_to_a_minute_before_it_was_asked_for(since: int, until: int) -> None:
    """And no less far than what it stands on."""
    assert read_until(at(9), since) == until
