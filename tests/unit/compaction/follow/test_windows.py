"""What of a day a tick lists, and when it comes."""

import pytest

from compaction.follow.windows import Listed, after_list, complete_ms, first_minute, next_tick_ms
from minutebook.format.day import Day
from minutebook.format.minute import MINUTE_MS

DAY = Day.parse("2026-11-20")
HOUR = 60 * MINUTE_MS


def _at(hour: int, minute: int) -> int:
    return DAY.begin_ms + hour * HOUR + minute * MINUTE_MS + 8_000


def _minute(now_ms: int, listed: Listed) -> int:
    return first_minute(DAY, now_ms, listed) - DAY.first_minute


def test_a_tick_lists_ten_minutes_three_hours_or_the_day() -> None:
    """The day at the start and each hour, three hours each tenth minute."""
    listed, minutes = Listed(), []
    for minute in range(65):
        now_ms = _at(5, minute)
        first = first_minute(DAY, now_ms, listed)
        minutes.append((now_ms - DAY.begin_ms) // MINUTE_MS - (first - DAY.first_minute))
        listed = after_list(DAY, now_ms, first, listed)
    assert minutes[:12] == [300, *[10] * 9, 180, 10]
    assert [minute for minute, back in enumerate(minutes) if back > 180] == [0, 60]
    assert sum(back == 180 for back in minutes) == 5


def test_what_a_failed_list_has_missed_is_listed_by_the_next() -> None:
    """After forty minutes without a store."""
    listed = Listed(_at(5, 10), _at(5, 49), _at(5, 5))
    assert _minute(_at(5, 50), listed) == 5 * 60 + 1


def test_a_clock_that_was_ahead_is_no_reason_to_list_less() -> None:
    """LISTs that began later than now: the whole day is listed."""
    ahead = Listed(_at(9, 10), _at(9, 10), _at(9, 10))
    assert _minute(_at(5, 20), ahead) == 0
    assert _minute(_at(9, 5), ahead) == 0


def test_yesterday_is_listed_across_midnight() -> None:
    """And not when the minutes lie behind it."""
    known = Listed(_at(23, 59), _at(23, 59), _at(24, 0))
    assert _minute(_at(24, 1), known) == 23 * 60 + 50
    assert first_minute(DAY, _at(24, 40), Listed(_at(24, 39), _at(24, 39), _at(24, 0))) not in DAY


@pytest.mark.parametrize(
    ("now", "expected"), [(0, 8_000), (7_999, 8_000), (8_000, 68_000), (61_000, 68_000), (68_001, 128_000)]
)
def test_a_tick_begins_behind_the_minute_and_the_linger(now: int, expected: int) -> None:
    """Three seconds behind it."""
    assert next_tick_ms(DAY.begin_ms + now, 60_000, 5_000) == DAY.begin_ms + expected


@pytest.mark.parametrize(
    ("before", "boundary", "begins", "expected"),
    [
        (0, 50, 10, 50),  # at the start: all of the day was listed
        (0, 5, 10, 0),  # the boundary lies before the first day
        (50, 70, 40, 70),  # the poll reaches back to what was known
        (50, 70, 60, 50),  # what came between may be missing
        (50, 40, 10, 50),  # it never goes back
    ],
)
def test_a_table_is_complete_as_far_as_polls_join(before: int, boundary: int, begins: int, expected: int) -> None:
    """The first day begins at 10."""
    assert complete_ms(before, boundary, begins, 10) == expected
