"""The days before a report's: read from what is published, never in the report's way, and drawn."""

from pathlib import Path
from random import Random

import pytest

from compaction.report.pictures import shown_minutes
from compaction.report.trend import DAYS, read_trend
from compaction.verdict.findings import Code, Finding, finding
from minutebook.format.day import MINUTES_A_DAY, Day
from minutebook.retry import Backoff
from minutebook.store.directory_storage import DirectoryStorage
from minutebook.store.places import StorePrefix
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import Address
from tests.fakes.clock import ManualClock

DAY = Day.parse("2026-11-20")
_POINTER = """{{"format": 1, "day": "{day}", "generation": "g{day}", "manifest": "m/g.json", "rows": {rows},
 "verdict": "{verdict}", "writer": "w", "written_at": "t", "audit": "{audit}"}}"""


def _trend(folder: Path, files: dict[str, str]) -> list[tuple[str, str | None, int, object, str]]:
    for key, text in files.items():
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    storage = RetryingStorage(DirectoryStorage(folder), lambda: Backoff(ManualClock(), Random(1), budget_seconds=1))
    trend = read_trend(storage, StorePrefix(Address(None, str(folder)), ""), DAY)
    assert [day.day for day in trend.days] == [str(DAY.shift(number)) for number in range(1 - DAYS, 1)]
    return [(*tuple(day)[1:4], day.note) for day in trend.days]  # type: ignore[misc]


def _day(number: int, verdict: str, audit: str) -> tuple[str, str]:
    day = str(DAY.shift(number))
    return f"dt={day}/_current.json", _POINTER.format(day=day, rows=100 + number, verdict=verdict, audit=audit)


def test_each_day_is_as_it_was_published(tmp_path: Path) -> None:
    """Its rows and verdict, and what its audit found; a day without a pointer is not published."""
    audit = '{"findings": [{"severity": "defect"}, {"severity": "warning", "code": "x"}, {"severity": "warning"}]}'
    found = _trend(tmp_path, dict([_day(-1, "defects", "a.json"), ("a.json", audit)]))
    assert found[-2:] == [("defects", 99, (1, 0, 2), ""), (None, 0, None, "")]


def test_what_cannot_be_read_says_why(tmp_path: Path) -> None:
    """A pointer of a later version, an audit that is gone or damaged: the others are shown."""
    found = _trend(
        tmp_path,
        dict(
            [
                (f"dt={DAY.shift(-3)}/_current.json", '{"format": 9}'),
                _day(-2, "clean", "gone.json"),
                _day(-1, "clean", "bad.json"),
                ("bad.json", '{"findings": 7}'),
                _day(0, "clean", "good.json"),
                ("good.json", '{"findings": []}'),
            ]
        ),
    )
    assert "format 9 is not known here" in found[-4][3]
    assert found[-3] == ("clean", 98, None, "its audit is gone")
    assert found[-2][3].startswith("its audit does not parse")
    assert found[-1] == ("clean", 100, (0, 0, 0), "")


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
