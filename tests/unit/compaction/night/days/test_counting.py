"""What a night's metrics count of its rows: each is an alarm of its own."""

import msgspec
import pytest

from compaction.night.days.run import DayRow, count_due, row_of_error
from compaction.night.days.stop import BudgetSpent, Stopped
from compaction.night.due import WorkFailed
from compaction.report.metric_line import NightMetrics
from minutebook.errors import SafetyRefusal, StoreUnavailable
from minutebook.format.day import Day

DAY = Day.parse("2026-11-20")
SOUND = DayRow(day=str(DAY), state="already", verdict="clean", pointer="clean", done=("nothing",), table="not asked")


@pytest.mark.parametrize(
    "row",
    [
        SOUND,
        msgspec.structs.replace(SOUND, pointer="accepted", verdict="defects"),
        msgspec.structs.replace(SOUND, pointer="expired"),
        msgspec.structs.replace(SOUND, table="same"),
        msgspec.structs.replace(SOUND, table="mended"),
    ],
)
def test_a_day_that_needs_nobody_is_not_counted(row: DayRow) -> None:
    """Clean, accepted or expired, and in the table if there is one."""
    assert not any(count_due([row]))


@pytest.mark.parametrize(
    "row",
    [
        msgspec.structs.replace(SOUND, pointer="unknown", verdict="unknown"),  # exit code 0 with --fail-on defects
        msgspec.structs.replace(SOUND, pointer="defects", exit_code=3),
        msgspec.structs.replace(SOUND, pointer="none", state="held", exit_code=4),
        msgspec.structs.replace(SOUND, pointer="expired", exit_code=4),  # objects came after it was expired
        row_of_error(DAY, StoreUnavailable("503")),
        row_of_error(DAY, SafetyRefusal("gone")),
    ],
)
def test_a_day_that_is_neither_clean_nor_accepted_is_open(row: DayRow) -> None:
    """Also one that failed: whether readers see what is true of it, this night does not know."""
    assert count_due([SOUND, row]) == NightMetrics(days_open=1)


@pytest.mark.parametrize("error", [BudgetSpent("spent"), Stopped("asked to end")])
def test_a_day_that_was_not_begun_is_left(error: Stopped) -> None:
    """By the budget, or by a signal; nothing is known of it."""
    assert count_due([SOUND, row_of_error(DAY, error)]) == NightMetrics(days_left=1)


def test_a_day_that_was_left_and_is_not_clean_any_more_is_open_and_left() -> None:
    """Its verdict was in doubt: readers see it unknown until a night has the time to judge it."""
    row = row_of_error(DAY, WorkFailed(BudgetSpent("spent"), "its verdict was withdrawn", is_withdrawn=True))
    assert (row.state, row.exit_code, row.pointer, row.done) == ("left", 4, "unknown", ("withdrawn",))
    assert count_due([SOUND, row]) == NightMetrics(days_open=1, days_left=1)


def test_a_day_that_the_table_lacks_is_counted_by_itself() -> None:
    """What readers of the pointer see is right; the code of the table's error makes the day no open one."""
    held = msgspec.structs.replace(SOUND, table="held", exit_code=2)
    away = msgspec.structs.replace(SOUND, table="away", exit_code=5)
    both = msgspec.structs.replace(away, pointer="unknown", exit_code=5)
    assert count_due([SOUND, held, away, both]) == NightMetrics(days_open=1, days_not_in_table=3)
    assert count_due([msgspec.structs.replace(SOUND, table="same")]).days_not_in_table == 0


def test_days_before_the_window_stay_counted() -> None:
    """The alarm does not go off because a day has become two weeks old; one whose turn it was counts by its row."""
    older = [DAY.shift(-20), DAY.shift(-15)]
    assert count_due([SOUND], older) == NightMetrics(days_open=2)
    defects = msgspec.structs.replace(SOUND, day=str(older[0]), pointer="defects", exit_code=3)
    mended = msgspec.structs.replace(SOUND, day=str(older[1]), done=("published",))
    assert count_due([SOUND, defects, mended], older) == NightMetrics(days_open=1)
