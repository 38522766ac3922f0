"""What the pictures of a report are drawn from: the days before, as published, and packed minutes of shards."""

import io
import random
import re
from array import array
from pathlib import Path
from random import Random
from statistics import median_high

import matplotlib as mpl
import matplotlib.image
import msgspec
import numpy as np
import pytest

from compaction.audit.shards.minutes import MinuteCounts, Minutes
from compaction.report.page import render_page
from compaction.report.pictures import scope_minutes, shown_minutes
from compaction.report.png import Colour, png
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
from tests.fakes.day_results import at, broken_chain, day_result, shard_name, uncovered

DAY = Day.parse("2026-11-20")
_POINTER = """{{"format": 1, "day": "{day}", "generation": "g{day}", "manifest": "m/g.json", "rows": {rows},
 "verdict": "{verdict}", "writer": "w", "written_at": "t", "rules": {rules}, "audit": "{audit}"}}"""


def _trend(folder: Path, files: dict[str, str]) -> list[tuple[str, str | None, int, object, str]]:
    for key, text in files.items():
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    storage = RetryingStorage(DirectoryStorage(folder), lambda: Backoff(ManualClock(), Random(1), budget_seconds=1))
    trend = read_trend(storage, StorePrefix(Address(None, str(folder)), ""), DAY)
    assert [day.day for day in trend.days] == [str(DAY.shift(number)) for number in range(1 - DAYS, 1)]
    return [(*tuple(day)[1:4], day.note) for day in trend.days]  # type: ignore[misc]


def _day(number: int, verdict: str, audit: str, rules: int = 2) -> tuple[str, str]:
    day = str(DAY.shift(number))
    fields = {"day": day, "rows": 100 + number, "verdict": verdict, "audit": _audit(number, audit), "rules": rules}
    return f"dt={day}/_current.json", _POINTER.format(**fields)


def _audit(number: int, name: str) -> str:
    return f"dt={DAY.shift(number)}/_manifest/{name}"


def test_each_day_is_as_it_was_published(tmp_path: Path) -> None:
    """Its rows and verdict, and what its audit found; a day without a pointer is not published."""
    audit = '{"findings": [{"severity": "defect"}, {"severity": "warning", "code": "x"}, {"severity": "warning"}]}'
    found = _trend(tmp_path, dict([_day(-1, "defects", "a.json"), (_audit(-1, "a.json"), audit)]))
    assert found[-2:] == [("defects", 99, (1, 0, 2), ""), (None, 0, None, "")]


def test_what_cannot_be_read_says_why(tmp_path: Path) -> None:
    """A pointer of a later version, an audit that is gone, damaged or another one: the others are shown.

    A clean verdict that nothing bears out counts as unknown, as it does for readers.
    """
    found = _trend(
        tmp_path,
        dict(
            [
                _day(-5, "clean", "other.json"),
                (_audit(-5, "other.json"), '{"findings": [], "verdict": "defects"}'),
                _day(-4, "clean", "old.json", rules=1),
                (_audit(-4, "old.json"), '{"findings": []}'),
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
    assert found[-6] == ("unknown", 95, None, "its pointer says clean, and its audit defects")
    assert found[-5] == ("unknown", 96, (0, 0, 0), "")
    assert found[-3] == ("unknown", 98, None, "its audit is gone")
    assert found[-2][3].startswith("its audit does not parse")
    assert found[-1] == ("clean", 100, (0, 0, 0), "")


def _at(*minutes: str) -> list[Finding]:
    return [finding(Code.BROKEN_CHAIN, "a gap", shard="s", minute=f"2026-11-{minute}Z") for minute in minutes]


WHOLE = range(MINUTES_A_DAY)
_HOUR = 60


@pytest.mark.parametrize(
    ("minutes", "shown"),
    [
        (["20T15:07"], range(15 * _HOUR, 15 * _HOUR + 10)),
        (["20T15:07", "20T15:51"], range(15 * _HOUR, 16 * _HOUR)),
        (["20T15:57", "20T16:57"], range(15 * _HOUR, 17 * _HOUR)),
        (["20T00:00", "20T05:59"], range(6 * _HOUR)),
        (["20T23:59"], range(23 * _HOUR + 50, MINUTES_A_DAY)),
        (["20T02:00", "20T16:00"], range(2 * _HOUR, 17 * _HOUR)),
        (["20T01:00", "20T22:00"], WHOLE),
        ([], WHOLE),
        (["19T23:59", "20T15:07"], range(15 * _HOUR, 15 * _HOUR + 10)),
    ],
)
def test_the_axis_fits_what_there_is(minutes: list[str], shown: range) -> None:
    """Whole hours around it, or tens of minutes; nearly all of a day is the whole day. Other days do not count."""
    assert shown_minutes(DAY, WHOLE, (), _at(*minutes)) == shown


def test_an_emptiness_that_is_not_proven_is_shown() -> None:
    """It is the news: from the last data to the end of what nothing proves. A warning of a time is not."""
    data = [9 * _HOUR, 10 * _HOUR]
    assert shown_minutes(DAY, WHOLE, data, [uncovered(0, at(11), at(18))]) == range(9 * _HOUR, 18 * _HOUR)
    assert shown_minutes(DAY, WHOLE, data, [uncovered(0, at(11), at(18), "warning")]) == range(9 * _HOUR, 11 * _HOUR)


@pytest.mark.parametrize(
    ("begins", "until", "scope"),
    [
        ("2026-11-20T00:00:00.000Z", "2026-11-20T14:00:00.000Z", range(14 * _HOUR)),
        ("2026-11-20T20:10:43.000Z", "2026-11-20T20:20:00.000Z", range(20 * _HOUR + 10, 20 * _HOUR + 20)),
        ("2026-11-20T10:01:30.000Z", "2026-11-21T00:00:00.000Z", range(10 * _HOUR + 1, MINUTES_A_DAY)),
        ("", "", WHOLE),
    ],
)
def test_the_axis_ends_with_what_is_judged(begins: str, until: str, scope: range) -> None:
    """A day so far, and an application's first day."""
    judged = msgspec.structs.replace(day_result(1).audit.scope, begins=begins, until=until)
    assert scope_minutes(DAY, judged) == scope
    shown = shown_minutes(DAY, scope, [*scope], _at("20T23:59", "20T00:00"))
    assert shown == (range(10 * _HOUR, MINUTES_A_DAY) if scope.start == 10 * _HOUR + 1 else scope)


def test_a_png_holds_its_pixels() -> None:
    """Its size, its colours, and rows that another decoder reads."""
    pixels = np.array([[0, 1, 2], [2, 1, 0]], dtype=np.uint8)
    made = png(pixels, [Colour(0, 0, 0, 0), Colour(1, 2, 3), Colour(4, 5, 6, 7)])
    assert made == png(pixels.copy(), [Colour(0, 0, 0, 0), Colour(1, 2, 3), Colour(4, 5, 6, 7)])
    read = mpl.image.imread(io.BytesIO(made))
    assert (read[0] * 255).round().astype(int).tolist() == [[0, 0, 0, 0], [1, 2, 3, 255], [4, 5, 6, 7]]


def test_more_marks_than_a_page_holds_are_fewer_and_stay_in_their_rows() -> None:
    """Every minute of 40 shards is broken and unproven: the page stays small, and each row has its marks."""
    findings = [broken_chain(shard, at(0, minute)) for shard in range(40) for minute in range(0, MINUTES_A_DAY, 3)]
    findings += [
        uncovered(shard, at(0, minute), at(0, minute + 1)) for shard in range(40) for minute in range(0, 1440, 5)
    ]
    page = render_page(day_result(40, findings))
    rows = set(re.findall(r'href="#mark-defect" x="[^"]+" y="([^"]+)"', page))
    assert len(rows) >= 40
    assert page.count("<use") < 5_000
    assert len(page.encode()) < 600_000


def test_all_shards_of_a_large_stream_are_in_its_overview() -> None:
    """Each line holds the quietest of its shards, so that no gap is lost."""
    result = day_result(1_000, gaps=[(501, at(12), at(13))])
    drawn = sketch(result.minutes, ())
    assert drawn.overview.quietest.shape == (500, 144)
    assert drawn.overview.lines[shard_name(501)] == 250
    empty = np.argwhere(drawn.overview.quietest == 0)
    assert empty.tolist() == [[250, column] for column in range(72, 78)]


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
