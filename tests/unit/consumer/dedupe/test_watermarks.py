"""Producer watermarks: what is dropped, what doubt keeps, how the state travels."""

import random

import pytest

from consumer.dedupe.watermarks import MAX_INTERVALS, MAX_PRODUCERS, Watermarks
from minutebook.errors import FormatError


def taken(numbers: list[int], *, ordered: bool = False) -> list[bool]:
    """Return what one producer's numbers are judged as, one after the other."""
    state = Watermarks()
    return [state.take("p", number, ordered=ordered) for number in numbers]


def test_a_number_seen_before_is_a_duplicate() -> None:
    """The second copy is dropped, at once or much later."""
    assert taken([1, 2, 2, 3, 1]) == [True, True, False, True, False]


def test_a_number_below_the_watermark_that_was_never_seen_is_new() -> None:
    """PutRecords refused 3 and took 4; the retry of 3 comes late and is the only copy."""
    assert taken([1, 2, 4, 5, 3, 3]) == [True, True, True, True, True, False]


def test_a_number_before_the_first_one_seen_is_kept() -> None:
    """What came before the history is unknown: doubt keeps."""
    assert taken([500, 499, 499]) == [True, True, False]


def test_an_ordered_producers_late_number_is_a_duplicate() -> None:
    """With the promise of order, everything up to the watermark was seen."""
    assert taken([1, 2, 4, 3, 5], ordered=True) == [True, True, True, False, True]


def test_the_decisions_are_those_of_a_set_of_numbers() -> None:
    """While nothing is forgotten the intervals are exactly the set of what was seen."""
    rng = random.Random(7)
    numbers = [rng.randrange(MAX_INTERVALS * 2 - 1) for _ in range(5000)]
    seen: set[int] = set()
    expected = []
    for number in numbers:
        expected.append(number not in seen)
        seen.add(number)
    assert taken(numbers) == expected


def test_too_many_gaps_forget_the_oldest_numbers_only() -> None:
    """Forgotten numbers are kept when they come again; the younger ones are still dropped."""
    numbers = [2 * n for n in range(MAX_INTERVALS + 5)]
    state = Watermarks()
    assert all(state.take("p", number, ordered=False) for number in numbers)
    assert state.take("p", numbers[0], ordered=False)
    assert not state.take("p", numbers[-1], ordered=False)
    assert not state.take("p", numbers[-MAX_INTERVALS + 1], ordered=False)


def test_producers_do_not_disturb_each_other() -> None:
    """The same number of two producers is two events."""
    state = Watermarks()
    assert [state.take(who, 1, ordered=False) for who in ("a", "b", "a")] == [True, True, False]


def test_too_many_producers_forget_the_one_that_was_silent_longest() -> None:
    """Its numbers are kept when they come again: doubt keeps."""
    state = Watermarks()
    for number in range(MAX_PRODUCERS + 1):
        state.take(f"p{number}", 1, ordered=False)
    assert not state.take("p1", 1, ordered=False)
    assert state.take("p0", 1, ordered=False)


def test_the_state_survives_its_journey() -> None:
    """Encode and decode give a state that decides the same, as ASCII."""
    state = Watermarks()
    for number in (1, 2, 3, 7, 9):
        state.take("café", number, ordered=False)
    text = state.encode()
    assert text.isascii()
    again = Watermarks.decode(text)
    assert [again.take("café", number, ordered=False) for number in (3, 4, 9)] == [False, True, False]


def test_a_merged_shard_has_seen_what_both_parents_saw() -> None:
    """Union, not maximum: a gap of one parent may be filled by the other."""
    left, right = Watermarks(), Watermarks()
    for number in (1, 2, 5):
        left.take("p", number, ordered=False)
    for number in (3, 9):
        right.take("p", number, ordered=False)
    left.merge(right)
    assert [left.take("p", number, ordered=False) for number in (2, 3, 4, 5, 6, 9)] == [
        False,
        False,
        True,
        False,
        True,
        False,
    ]


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[1]", '[["p",[]]]', '[["p",[[2,1]]]]', '[["p",[[1,5],[3,9]]]]', '[["p",[[5,6],[1,2]]]]', "[" * 5000],
)
def test_a_damaged_state_is_an_error(text: str) -> None:
    """Never a default: a wrong state would drop originals."""
    with pytest.raises(FormatError):
        Watermarks.decode(text)
