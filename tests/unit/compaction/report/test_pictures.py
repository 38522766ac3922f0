"""What the pictures of a report are drawn from: the days before, as published, and packed minutes of shards."""

import random
from array import array
from pathlib import Path
from random import Random
from statistics import median_high

import numpy as np
import pytest

from compaction.audit.shards.minutes import MinuteCounts, Minutes
from compaction.report.pictures import shown_minutes
from compaction.report.sketch import sketch
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
    key = _audit(number, audit)
    return f"dt={day}/_current.json", _POINTER.format(day=day, rows=100 + number, verdict=verdict, audit=key)


def _audit(number: int, name: str) -> str:
    return f"dt={DAY.shift(number)}/_manifest/{name}"


def test_each_day_is_as_it_was_published(tmp_path: Path) -> None:
    """Its rows and verdict, and what its audit found; a day without a pointer is not published."""
    audit = '{"findings": [{"severity": "defect"}, {"severity": "warning", "code": "x"}, {"severity": "warning"}]}'
    found = _trend(tmp_path, dict([_day(-1, "defects", "a.json"), (_audit(-1, "a.json"), audit)]))
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
                (_audit(-1, "bad.json"), '{"findings": 7}'),
                _day(0, "clean", "good.json"),
                (_audit(0, "good.json"), '{"findings": []}'),
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


_LONG = 2**31 - 1


def _counted(seed: int) -> MinuteCounts:
    """Return a shard that holds nothing in a third of its minutes, and was very late in some."""
    rng = random.Random(seed)
    records, lags = array("i", [0] * MINUTES_A_DAY), array("i", [-1] * MINUTES_A_DAY)
    for minute in range(MINUTES_A_DAY):
        if rng.random() < 2 / 3:
            records[minute] = rng.choice([0, rng.randrange(70_000), _LONG])
            lags[minute] = rng.choice([0, 7, rng.randrange(600), _LONG])
    return MinuteCounts(records, lags)


@pytest.fixture(scope="module")
def shards() -> dict[str, MinuteCounts]:
    """Return a handful of shards, two of them empty."""
    empty = MinuteCounts(array("i", [0] * MINUTES_A_DAY), array("i", [-1] * MINUTES_A_DAY))
    return {"none": empty, **{f"s{number}": _counted(number) for number in range(6)}, "nothing": empty}


def test_what_is_packed_comes_back(shards: dict[str, MinuteCounts]) -> None:
    """Every number, the largest too."""
    assert {name: Minutes.packed_of(of).counted() for name, of in shards.items()} == shards


def test_a_busy_shard_is_small() -> None:
    """Some 1,000 records a minute that come within 20 seconds: a driver has one of these for each shard."""
    rng = random.Random(1)
    records = array("i", [rng.randrange(900, 1_100) for _ in range(MINUTES_A_DAY)])
    lags = array("i", [rng.randrange(20, 200) for _ in range(MINUTES_A_DAY)])
    assert len(Minutes.packed_of(MinuteCounts(records, lags)).packed) < 3_500


def test_all_shards_count_and_few_are_kept(shards: dict[str, MinuteCounts]) -> None:
    """The shown ones by themselves, the others in one row; nothing is lost between them."""
    drawn = sketch({name: Minutes.packed_of(of) for name, of in shards.items()}, {"s1", "s4", "none"})
    assert set(drawn.records) == set(drawn.segments) == {"s1", "s4", "none"}
    assert drawn.records["s4"].tolist() == shards["s4"].records.tolist()
    assert drawn.segments["s1"].tolist() == [lag >= 0 for lag in shards["s1"].lag_tenths]
    assert drawn.rest.tolist() == [
        sum(shards[name].records[minute] for name in ("s0", "s2", "s3", "s5")) for minute in range(MINUTES_A_DAY)
    ]
    assert drawn.total.tolist() == [
        sum(of.records[minute] for of in shards.values()) for minute in range(MINUTES_A_DAY)
    ]


def test_delays_are_those_of_all_shards(shards: dict[str, MinuteCounts]) -> None:
    """Of those that hold something in the minute, shown or not; never below what a logarithmic scale can show."""
    drawn = sketch({name: Minutes.packed_of(of) for name, of in shards.items()}, {"s1"})
    for minute in range(MINUTES_A_DAY):
        lags = [max(1, of.lag_tenths[minute]) / 10 for of in shards.values() if of.lag_tenths[minute] >= 0]
        assert (minute in drawn.minutes) == bool(lags)
        expected = (max(lags), median_high(lags)) if lags else (np.nan, np.nan)
        assert (drawn.slowest[minute], drawn.middle[minute]) == pytest.approx(expected, nan_ok=True)


def test_a_day_without_shards_is_empty() -> None:
    """Nothing in, nothing out."""
    drawn = sketch({}, ())
    assert (drawn.minutes, drawn.records, drawn.total.sum()) == ([], {}, 0)
