"""How a segment is joined to the one before it: one case for each row of the table."""

from typing import NamedTuple

import pytest

from minutebook.coverage.joints import Joint, joint_of
from minutebook.format.metadata import ChainStart, Predecessor
from minutebook.format.position import Position


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
