"""Which segments become rows before a night has judged them."""

from collections.abc import Mapping
from typing import Any, Final

import pytest

from compaction.follow.choosing import choose, objection
from compaction.inventory.segments import Disorder, ListedSegment, SegmentFacts, make_row
from minutebook.format.keys import segment_key, slot_folder
from minutebook.format.metadata import ChainStart
from minutebook.format.position import Position
from minutebook.format.record import Record
from minutebook.format.segment import SegmentWriter
from minutebook.store.objects import ListedObject

SHARD: Final = "shardId-000000000000"
MINUTE: Final = 29_000_000


def _segment(first: int, last: int, minute: int = MINUTE) -> tuple[ListedSegment, SegmentFacts]:
    made = SegmentWriter(SHARD, minute)
    made.extend([Record(str(number), 0, "k", minute * 60_000, b"x") for number in range(first, last + 1)])
    metadata = made.metadata(after=ChainStart("TRIM_HORIZON"), writer=f"w{first}")
    key = segment_key("raw/", SHARD, minute, Position(first))
    low, high = Position(first), Position(last)
    facts = SegmentFacts(key, metadata.encode(), lines=last - first + 1, first=low, last=high, low=low, high=high)
    return make_row("raw/", ListedObject(key, 9, "e", 0)), facts


def test_sound_segments_are_rows_whatever_lies_between_them() -> None:
    """Gaps and unproven links say nothing against the records that are there."""
    read = [_segment(1, 3), _segment(50, 60), _segment(4, 4, MINUTE + 1)]
    assert len(choose(read, {}).rows) == 3


def test_of_two_that_overlap_the_first_one_is_shown() -> None:
    """And the other one is named, with it."""
    one, two = _segment(1, 5), _segment(5, 9)
    chosen = choose([two, one], {})
    assert [row.key for row in chosen.rows] == [one[0].key]
    assert [(left.row.key, one[0].key in left.reason, left.is_passing) for left in chosen.left_out] == [
        (two[0].key, True, False)
    ]


def test_one_that_overlaps_what_is_shown_already_is_left_out() -> None:
    """Though it begins before it."""
    one, shown = _segment(1, 5), _segment(4, 9)
    slots = {slot_folder(shown[0].key): {shown[0].key: (Position(4), Position(9))}}
    assert choose([one], slots).rows == ()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"problem": "line 3 does not parse"}, "line 3"),
        ({"problem": "it is not the object that was listed", "changed": True}, "not the object"),
        ({"metadata": None}, "none of Minutebook's metadata"),
        ({"metadata": {"minutebook-format": "1"}}, "is missing"),
        ({"lines": 2}, "holds 2 lines"),
        ({"disorder": Disorder(1, 0)}, "order"),
        ({"disorder": Disorder(0, 1)}, "order"),
        ({"wrong_minute": 1}, "another minute"),
        ({"wrong_shard": 1}, "another minute or shard"),
        ({"high": Position(9)}, "outside of the range"),
    ],
)
def test_what_a_night_would_call_a_defect_is_no_row(changes: Mapping[str, Any], reason: str) -> None:
    """It is named with its reason; what has changed under the reader is read again."""
    row, facts = _segment(1, 3)
    broken = facts._replace(**changes)
    assert reason in objection(row, broken)
    [left] = choose([(row, broken)], {}).left_out
    assert left.is_passing == broken.changed


def test_a_copy_at_another_key_is_no_row() -> None:
    """Its records are those of the original."""
    row, facts = _segment(1, 3)
    elsewhere = make_row("raw/", ListedObject(segment_key("raw/", SHARD, MINUTE, Position(2)), 9, "e", 0))
    assert objection(elsewhere, facts) == "its metadata belongs at another key"
    assert objection(row, facts) == ""
