"""Sequence numbers that are looked at together: the same is refused as if each were looked at by itself."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.pipe.pieces import make_piece
from minutebook.errors import DeliveryDoubt
from minutebook.format.position import is_sequence_number
from minutebook.format.record import Record

USUAL = 4968 * 10**52
ODD = ["", "0", "01", "-1", "+1", " 1", "1 ", "1,2", "1_0", "1\n", "\u0661", "\u00b2", "a", "9" * 129]


def records(*places: tuple[str, int]) -> list[Record]:
    """Return records at these places."""
    return [Record(number, sub, "k", 1_795_256_161_000, b"") for number, sub in places]


def near(number: str) -> st.SearchStrategy[str]:
    """Draw texts that are as long as a number, and differ from it in one place."""
    marks = st.sampled_from("0123456789,;-+ _a\n\u0661\u00b2")
    return st.builds(lambda at, mark: number[:at] + mark + number[at + 1 :], st.integers(0, len(number) - 1), marks)


NUMBERS = st.one_of(
    st.integers(0, 20).map(lambda more: str(USUAL + more)),
    st.integers(0, 200).map(str),
    near(str(USUAL)),
    near("1234"),
    st.sampled_from(ODD),
)


@given(st.lists(st.tuples(NUMBERS, st.integers(0, 2)), max_size=5))
def test_what_is_refused_and_what_ascends_is_what_each_says_by_itself(places: list[tuple[str, int]]) -> None:
    """A piece that says that it ascends does so; nothing is asked of one that does not say it."""
    if not all(is_sequence_number(number) for number, _ in places):
        with pytest.raises(DeliveryDoubt, match="not a sequence number"):
            make_piece(records(*places))
        return
    piece = make_piece(records(*places))
    positions = [record.position for record in piece.records]
    if piece.ascends:
        assert all(before < behind for before, behind in itertools.pairwise(positions))
    if {len(number) for number, _ in places} in ({1}, {4}, {56}) and "0" not in dict(places):
        assert piece.ascends == (positions == sorted(set(positions)))


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("at", [0, 1, 2])
def test_one_odd_number_among_usual_ones_is_named(odd: str, at: int) -> None:
    """Wherever it stands."""
    numbers = [str(USUAL + n) for n in range(3)]
    numbers[at] = odd
    if is_sequence_number(odd):
        assert not make_piece(records(*[(number, 0) for number in numbers])).ascends
        return
    with pytest.raises(DeliveryDoubt) as refused:
        make_piece(records(*[(number, 0) for number in numbers]))
    assert repr(odd) in str(refused.value)


@pytest.mark.parametrize(
    "numbers", [("12", "34,5", "6"), ("1", "2,3", "4"), ("11", "2", "333"), ("111", "22", "3"), ("10", "01")]
)
def test_commas_and_lengths_that_only_add_up_are_no_usual_numbers(numbers: tuple[str, ...]) -> None:
    """The text of all of them could be cut in another way."""
    places = [(number, 0) for number in numbers]
    if all(is_sequence_number(number) for number in numbers):
        assert not make_piece(records(*places)).ascends
    else:
        with pytest.raises(DeliveryDoubt):
            make_piece(records(*places))


def test_user_records_of_one_aggregate_ascend_by_their_numbers_in_it() -> None:
    """They share a sequence number."""
    assert make_piece(records((str(USUAL), 0), (str(USUAL), 1), (str(USUAL + 1), 0))).ascends
    assert not make_piece(records((str(USUAL), 1), (str(USUAL), 1))).ascends
    assert not make_piece(records((str(USUAL), 1), (str(USUAL), 0))).ascends
    assert make_piece(records((str(USUAL), 7))).ascends
    assert not make_piece([]).records
