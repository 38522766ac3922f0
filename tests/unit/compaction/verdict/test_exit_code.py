"""Which exit code days end a command with."""

import pytest

from compaction.verdict.exit_code import DayEnd, FailOn, exit_code

CLEAN, UNKNOWN, DEFECTS = DayEnd("clean"), DayEnd("unknown"), DayEnd("defects")
HELD = DayEnd("unknown", is_done=False)


@pytest.mark.parametrize(
    ("days", "fail_on", "code"),
    [
        ([], "unknown", 0),
        ([CLEAN, CLEAN], "unknown", 0),
        ([CLEAN, UNKNOWN], "unknown", 4),
        ([UNKNOWN, DEFECTS, CLEAN], "unknown", 3),
        ([CLEAN, UNKNOWN], "defects", 0),
        ([UNKNOWN, DEFECTS], "defects", 3),
        ([CLEAN, HELD], "defects", 4),
        ([HELD, DEFECTS], "defects", 3),
        ([DayEnd("clean", is_done=False)], "defects", 4),
    ],
)
def test_the_worst_day_counts(days: list[DayEnd], fail_on: FailOn, code: int) -> None:
    """A defect always; what could not be proven unless told otherwise; what was not done always."""
    assert exit_code(days, fail_on) == code
