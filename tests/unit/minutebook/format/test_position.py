"""Positions and ranges."""

import pytest

from minutebook.errors import FormatError
from minutebook.format.position import Position, SequenceRange, is_sequence_number

LONG = 10**128


@pytest.mark.parametrize("position", [Position(0), Position(1, 2), Position(LONG, 10**18)])
def test_text_round_trip(position: Position) -> None:
    """What is written is read back."""
    assert Position.parse(str(position)) == position


@pytest.mark.parametrize(
    "text",
    ["", "1", ":", "1:", ":0", "01:0", "1:00", "+1:0", "-1:0", "1:-1", "1:0 ", " 1:0", "1:0\n", "\u0661:0", "1_0:0"],
)
def test_anything_else_is_refused(text: str) -> None:
    """Leading zeros, signs, blanks and other digits are errors, never another position."""
    with pytest.raises(FormatError):
        Position.parse(text)


def test_order_is_by_number_not_by_text() -> None:
    """9 lies before 10, and a sub-sequence number only decides within one sequence number."""
    assert Position(9) < Position(10) < Position(10, 1) < Position(11)


def test_a_range_holds_both_its_ends() -> None:
    """The interval is closed."""
    span = SequenceRange(Position(5), Position(7, 1))
    assert [Position(n) in span for n in (4, 5, 7, 8)] == [False, True, True, False]
    assert Position(7, 1) in span
    assert Position(7, 2) not in span


@pytest.mark.parametrize(
    ("text", "expected"), [("0", True), ("12", True), ("012", False), ("", False), ("1.0", False)]
)
def test_sequence_numbers_as_kinesis_writes_them(text: str, expected: bool) -> None:  # noqa: FBT001 - a table
    """Decimal, no leading zeros."""
    assert is_sequence_number(text) is expected


def test_a_sequence_number_has_at_most_129_digits() -> None:
    """Kinesis' pattern ends there."""
    assert is_sequence_number("9" * 129)
    assert not is_sequence_number("9" * 130)
