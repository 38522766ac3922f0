"""Objects whose ids are compared have numbers of their own, in the order of day, shard and position, or none."""

import pytest

from compaction.audit.collecting import check_room
from compaction.event_ids.rows import NUMBERS, IdCollector, IdOrder
from minutebook.errors import SafetyRefusal


def test_days_of_more_objects_than_numbers_are_refused() -> None:
    """Before a line is read."""
    check_room(NUMBERS)
    with pytest.raises(SafetyRefusal, match="hold 4,294,967,297 objects"):
        check_room(NUMBERS + 1)


@pytest.mark.parametrize(
    "order", [IdOrder("n", 4, 1, room=2), IdOrder("n", 0, 1).of([3, 9]), IdOrder("n", NUMBERS - 2, 1)]
)
def test_a_task_with_more_objects_than_numbers_is_refused(order: IdOrder) -> None:
    """Its last objects would have the numbers of the next task's first ones, or none that fits."""
    IdCollector(order, ["a", "b"])
    with pytest.raises(SafetyRefusal, match="a task has 3 objects"):
        IdCollector(order, ["a", "b", "c"])


def test_numbers_that_do_not_follow_each_other_are_said_one_by_one() -> None:
    """Others by the first of them, however many they are."""
    order = IdOrder("n", 0, 1)
    assert order.of([7, 8, 9]) == IdOrder("n", 7, 1, room=3)
    assert [order.of([7, 9, 10]).number_at(place) for place in range(3)] == [7, 9, 10]
