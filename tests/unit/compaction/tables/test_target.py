"""What a table holds of a day: the manifest's files, and live parts of which the inventory names nothing."""

import random

import pytest

from compaction.tables.target import SegmentedPart, day_parts, target_generation

A = SegmentedPart("a", 3, {"1", "2", "3"})
B = SegmentedPart("b", 2, {"4", "5"})


def test_a_part_that_no_inventory_names_stays() -> None:
    """As it is."""
    assert day_parts([A, B], set()) == ((A, B), {})


def test_a_part_that_the_inventory_names_as_a_whole_leaves() -> None:
    """Its rows are in the files of the manifest."""
    assert day_parts([A, B], {"1", "2", "3", "x"}) == ((B,), {})


def test_a_part_that_is_named_in_part_is_cut_to_the_rest() -> None:
    """Not shown twice, not left out."""
    assert day_parts([A, B], {"2"}) == ((B,), {"a": frozenset({"1", "3"})})


def test_what_is_gone_leaves_as_what_is_named() -> None:
    """A zombie's segment that somebody deleted before the night listed the day."""
    assert day_parts([A, B], {"4"}, {"5", "1"}) == ((), {"a": frozenset({"2", "3"})})


@pytest.mark.parametrize("seed", range(20))
def test_each_segment_is_in_the_inventory_or_in_one_part_or_gone(seed: int) -> None:
    """Whatever the parts and the inventory are; applied to its own result the function changes nothing."""
    rng = random.Random(seed)
    keys = [f"{number:03}" for number in range(60)]
    parts, at = [], 0
    while at < len(keys):
        count = rng.randint(0, 7)
        parts.append(SegmentedPart(f"p{at}-{count}-{len(parts)}", count, frozenset(keys[at : at + count])))
        at += count
    covered, gone = set(rng.sample(keys, rng.randint(0, 60))), set(rng.sample(keys, rng.randint(0, 5)))
    of_day = day_parts(parts, covered, gone)
    shown = [key for part in of_day.stay for key in part.segments] + [
        key for rest in of_day.cut.values() for key in rest
    ]
    assert sorted(shown) == sorted({*keys} - covered - gone)
    again = [*of_day.stay, *(SegmentedPart(f"{key}'", len(rest), rest) for key, rest in of_day.cut.items())]
    assert day_parts(again, covered, gone) == (tuple(again), {})


def test_a_day_without_live_parts_has_the_name_of_its_generation() -> None:
    """Tables of before know that name; with live parts it says which."""
    assert target_generation("g", ()) == "g"
    assert target_generation("g", ("a", "b")) == target_generation("g", ("b", "a")) != target_generation("g", ("a",))
    assert target_generation("", ("a",)) != target_generation("g", ("a",))
