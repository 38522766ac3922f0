"""Which part of a day the report's pictures show."""

import pytest

from compaction.report.pictures import shown_minutes
from compaction.verdict.findings import Code, Finding, finding
from minutebook.format.day import MINUTES_A_DAY, Day

DAY = Day.parse("2026-11-20")


def _at(*minutes: str) -> list[Finding]:
    return [finding(Code.BROKEN_CHAIN, "a gap", shard="s", minute=f"2026-11-{minute}Z") for minute in minutes]


@pytest.mark.parametrize(
    ("minutes", "shown"),
    [
        (["20T15:07"], range(15 * 60, 16 * 60)),
        (["20T00:00", "20T05:59"], range(6 * 60)),
        (["20T23:59"], range(23 * 60, MINUTES_A_DAY)),
        (["20T00:00", "20T06:00"], range(MINUTES_A_DAY)),
        ([], range(MINUTES_A_DAY)),
        (["19T23:59", "20T15:07"], range(15 * 60, 16 * 60)),
    ],
)
def test_a_few_hours_are_drawn_large(minutes: list[str], shown: range) -> None:
    """Whole hours around what there is, up to six; else the whole day. Other days do not count."""
    assert shown_minutes(DAY, {}, _at(*minutes)) == shown
