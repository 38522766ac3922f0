"""Local times of named zones, in UTC: far from now, around changes, and one by one as zoneinfo has them."""

import datetime as dt
import random
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from compaction.columns.fitting import fit
from compaction.columns.types import parse_type
from compaction.columns.zones import NoSuchTimeError, in_utc, is_zone, not_there

Local = dt.datetime
ZONES = (
    "Europe/Berlin",
    "America/New_York",
    "America/Santiago",
    "Australia/Lord_Howe",
    "Africa/Casablanca",
    "Asia/Kolkata",
)


def utc(zone: str, *local: str | None, fold: str = "") -> list[str | None]:
    """Return local times in UTC."""
    times = pa.array(
        [None if text is None else dt.datetime.fromisoformat(text) for text in local], pa.timestamp("us")
    )
    found = in_utc(zone, fold, times)
    assert found.type == pa.timestamp("us", "UTC")
    return [None if time is None else time.replace(tzinfo=None).isoformat(sep=" ") for time in found.to_pylist()]


@pytest.mark.parametrize(
    ("zone", "local", "expected"),
    [
        # Files list no change after 2037; Arrow takes winter's offset for these summers.
        ("Europe/Berlin", "2037-07-20 11:00:00", "2037-07-20 09:00:00"),
        ("Europe/Berlin", "2038-07-20 11:00:00", "2038-07-20 09:00:00"),
        ("America/New_York", "2500-07-20 11:00:00", "2500-07-20 15:00:00"),
        ("Europe/Berlin", "9999-12-31 23:59:59.999999", "9999-12-31 22:59:59.999999"),
        # Local mean time, to the second, and a change of 28 s in April 1893.
        ("Europe/Berlin", "0001-01-02 00:00:00", "0001-01-01 23:06:32"),
        ("Europe/Berlin", "1893-03-31 23:59:59", "1893-03-31 23:06:31"),
        # A day of 47 half hours, and one that begins at one.
        ("Australia/Lord_Howe", "2026-10-04 01:59:59", "2026-10-03 15:29:59"),
        ("Australia/Lord_Howe", "2026-10-04 02:30:00", "2026-10-03 15:30:00"),
        ("America/Santiago", "2026-09-06 01:00:00", "2026-09-06 04:00:00"),
    ],
)
def test_the_rules_of_a_zone_hold_in_all_years(zone: str, local: str, expected: str) -> None:
    """From local mean time to the years for which files list no changes."""
    assert utc(zone, local) == [expected]


def test_times_of_a_day_with_a_change_are_read_one_by_one() -> None:
    """Beside nulls, and days without one."""
    local = ["2026-10-25 01:59:59", None, "2026-10-25 02:00:00", "2026-10-25 03:00:00", "2026-07-01 00:00:00"]
    first = ["2026-10-24 23:59:59", None, "2026-10-25 00:00:00", "2026-10-25 02:00:00", "2026-06-30 22:00:00"]
    assert utc("Europe/Berlin", *local, fold="earlier") == first
    assert utc("Europe/Berlin", *local, fold="later") == [*first[:2], "2026-10-25 01:00:00", *first[3:]]


@pytest.mark.parametrize(
    ("zone", "local", "fold"),
    [
        ("Europe/Berlin", "2026-10-25 02:30:00", ""),
        ("Europe/Berlin", "2026-03-29 02:30:00", "earlier"),
        ("Europe/Berlin", "2026-03-29 02:30:00", "later"),
        ("Europe/Berlin", "2038-03-28 02:00:00", ""),
        ("America/Santiago", "2026-09-06 00:00:00", ""),
        ("America/Santiago", "2026-04-04 23:59:59", ""),
        ("Pacific/Apia", "2011-12-30 12:00:00", ""),
    ],
)
def test_a_time_that_is_not_there_or_there_twice_is_refused(zone: str, local: str, fold: str) -> None:
    """Also at midnight, and where a whole day was left out."""
    with pytest.raises(NoSuchTimeError):
        utc(zone, "2026-07-01 00:00:00", local, fold=fold)


def test_the_rows_of_times_that_are_not_there_are_told() -> None:
    """Of one that is there twice it depends on whether the type says which."""
    texts = ["2026-07-01 00:00:00", None, "2026-03-29 02:30:00", "2026-10-25 02:30:00", "2026-10-25 03:00:00"]
    times = pa.array([None if text is None else Local.fromisoformat(text) for text in texts], pa.timestamp("us"))
    assert not_there("Europe/Berlin", "", times) == [2, 3]
    assert not_there("Europe/Berlin", "later", times) == [2]


def test_a_column_of_many_hours_that_are_not_there_is_read_in_one_go() -> None:
    """Beside dates that no calendar has, which hide none of them."""
    texts = ["2026-03-29T02:30:00", "2026-07-01T00:00:00", "noon"] * 200
    fitted = fit(parse_type("timestamp in Europe/Berlin"), texts)
    assert (len(fitted.misfits), fitted.array.null_count) == (400, 400)
    assert {each.what for (each,) in fitted.misfits.values()} == {
        '"2026-03-29T02:30:00" is not there in Europe/Berlin',
        '"noon" is not timestamp in Europe/Berlin',
    }


@pytest.mark.parametrize("zone", ZONES)
def test_each_time_is_that_of_zoneinfo(zone: str) -> None:
    """Of any year, and within three hours of changes."""
    source = random.Random(1)
    near = [_change(zone, year) for year in (1916, 1980, 2026, 2038, 2100)]
    times = [when + dt.timedelta(minutes=source.randrange(-180, 180)) for when in near for _ in range(40)]
    times += [Local(1, 1, 2) + dt.timedelta(seconds=source.randrange(9_997 * 31_556_952)) for _ in range(400)]
    good = [when for when in times if _is_there(zone, when)]
    found = in_utc(zone, "later", pa.array(good, pa.timestamp("us"))).to_pylist()
    assert found == [when.replace(tzinfo=ZoneInfo(zone), fold=1).astimezone(dt.UTC) for when in good]


def _change(zone: str, year: int) -> Local:
    """Return a local time near a change in a year, or its middle where it has none."""
    days = [Local(year, 1, 1) + dt.timedelta(days=number) for number in range(364)]
    hours = (day + dt.timedelta(hours=number) for day in days for number in range(24))
    first = days[0].replace(tzinfo=ZoneInfo(zone)).utcoffset()
    return next((hour for hour in hours if hour.replace(tzinfo=ZoneInfo(zone)).utcoffset() != first), days[180])


def _is_there(zone: str, when: Local) -> bool:
    there = when.replace(tzinfo=ZoneInfo(zone), fold=1)
    return there.astimezone(dt.UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None) == when


@pytest.mark.parametrize("name", ["Europe", "Europe/Atlantis", "../passwd", "/etc/passwd", ""])
def test_what_is_no_zone(name: str) -> None:
    """Folders and files elsewhere are none."""
    assert not is_zone(name)
    assert is_zone("UTC")
