"""Intervals of time."""

import pytest

from minutebook.coverage.intervals import Interval, difference, gaps, union


def of(*pairs: tuple[int, int]) -> tuple[Interval, ...]:
    """Return intervals."""
    return tuple(Interval(*pair) for pair in pairs)


@pytest.mark.parametrize(
    ("given", "merged"),
    [
        (of(), of()),
        (of((1, 1), (3, 2)), of()),
        (of((5, 7), (1, 2)), of((1, 2), (5, 7))),
        (of((1, 3), (3, 5)), of((1, 5))),
        (of((1, 9), (2, 3), (8, 10)), of((1, 10))),
    ],
)
def test_a_union_is_disjoint_and_in_order(given: tuple[Interval, ...], merged: tuple[Interval, ...]) -> None:
    """Intervals that touch are one; empty ones are none."""
    assert union(given) == merged


@pytest.mark.parametrize(
    ("given", "taken", "left"),
    [
        (of((1, 9)), of(), of((1, 9))),
        (of((1, 9)), of((3, 5), (4, 6)), of((1, 3), (6, 9))),
        (of((1, 9)), of((0, 9)), of()),
        (of((1, 3), (5, 7)), of((2, 6)), of((1, 2), (6, 7))),
    ],
)
def test_a_difference_holds_what_is_not_taken(
    given: tuple[Interval, ...], taken: tuple[Interval, ...], left: tuple[Interval, ...]
) -> None:
    """Cut at both ends, in the middle, or whole."""
    assert difference(given, taken) == left


@pytest.mark.parametrize(
    ("covered", "open_times"),
    [
        (of(), of((2, 8))),
        (of((2, 8)), of()),
        (of((0, 9)), of()),
        (of((0, 2), (8, 9)), of((2, 8))),
        (of((0, 3), (4, 5), (7, 9)), of((3, 4), (5, 7))),
        (of((3, 8)), of((2, 3))),
        (of((2, 7)), of((7, 8))),
    ],
)
def test_gaps_are_what_is_left_open(covered: tuple[Interval, ...], open_times: tuple[Interval, ...]) -> None:
    """Of the whole from 2 to 8."""
    assert tuple(gaps(covered, Interval(2, 8))) == open_times


def test_intervals_that_touch_have_no_time_in_common() -> None:
    """The one holds its last time, the other begins behind it."""
    assert not Interval(1, 2).overlaps(Interval(2, 3))
    assert Interval(1, 3).overlaps(Interval(2, 3))
