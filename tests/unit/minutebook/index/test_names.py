"""The archive's names: which days and hours hold something, what lies in them, and at what price."""

from itertools import islice

import pytest

from minutebook.format.day import Day
from minutebook.format.position import Position
from minutebook.index.names import ArchiveIndex, nearest
from tests.fakes.archive_scene import PREFIX, MemoryScene

A, B = "shardId-000000000000", "shardId-000000000001"
TODAY = Day.parse("2026-11-21")
NOON = TODAY.first_minute + 720
HOUR, DAY = 60, 1440


@pytest.fixture
def scene() -> MemoryScene:
    """Return an empty archive."""
    return MemoryScene()


def index(scene: MemoryScene) -> ArchiveIndex:
    """Return its index."""
    return ArchiveIndex(scene.retrying, PREFIX)


def test_days_that_hold_something_are_found_outward_from_a_day(scene: MemoryScene) -> None:
    """In both directions, that day included; empty years, months and days are passed over."""
    scene.chain(A, [NOON - 400 * DAY, NOON - 3 * DAY, NOON, NOON + 45 * DAY, NOON + 800 * DAY])
    found = index(scene)
    assert list(found.days(TODAY, -1)) == [TODAY.shift(days) for days in (0, -3, -400)]
    assert list(found.days(TODAY, 1)) == [TODAY.shift(days) for days in (0, 45, 800)]
    assert list(found.days(TODAY.shift(1), 1)) == [TODAY.shift(days) for days in (45, 800)]
    assert list(found.days(TODAY.shift(-1), -1)) == [TODAY.shift(days) for days in (-3, -400)]


def test_the_nearest_days_cost_a_list_for_each_level(scene: MemoryScene) -> None:
    """However many years there are; and a level is listed once in a search."""
    scene.chain(A, range(NOON - 900 * DAY, NOON, DAY))
    found = index(scene)
    assert len(list(islice(found.days(TODAY, -1), 15))) == 15
    assert len(list(islice(found.days(TODAY, 1), 15))) == 0
    assert scene.store.requests["LIST"] == 3


@pytest.mark.parametrize(
    "foreign", ["2026/13/01/00/00/x", "2026/1/1/x", "notes/2026/x", "2026/11/xx/x", "20x6/01/01/x"]
)
def test_folders_that_only_look_like_days_are_none(scene: MemoryScene, foreign: str) -> None:
    """Others may put what they like below the prefix."""
    scene.chain(A, [NOON])
    scene.bucket.place(f"{PREFIX}{foreign}", b"")
    assert list(index(scene).days(Day(0), 1)) == [TODAY]


def test_hours_are_walked_backwards_through_those_that_hold_something(scene: MemoryScene) -> None:
    """Down to a minute, over empty days."""
    scene.chain(A, [NOON - 3 * DAY, NOON - DAY, NOON - DAY + HOUR, NOON, NOON + HOUR])
    hours = list(index(scene).hours_back(NOON, NOON - 2 * DAY))
    assert [hour.first_minute for hour in hours] == [NOON, NOON - DAY + HOUR, NOON - DAY]


def test_the_segment_at_a_position_is_found_in_any_day(scene: MemoryScene) -> None:
    """In an older one than its neighbours, too: two more days are looked at behind the first candidate."""
    lasts = scene.chain(A, [NOON - 3 * DAY, NOON, NOON - 2 * DAY, NOON + 1])
    scene.chain(B, [NOON - DAY])
    found = index(scene).nearest_at(A, lasts[2], TODAY.shift(1), TODAY.shift(-9))
    assert found is not None
    assert found.minute == NOON - 2 * DAY
    assert index(scene).nearest_at(A, lasts[0], TODAY.shift(1), TODAY.shift(-2)) is None


def test_the_nearest_of_names_is_that_with_the_greatest_first_position(scene: MemoryScene) -> None:
    """Up to each position; before the first one there is none."""
    lasts = scene.chain(A, [NOON, NOON + 1])
    names = index(scene).in_period(TODAY)
    assert [name.minute for name in nearest(names, [*lasts, Position(0)])] == [NOON, NOON + 1]
