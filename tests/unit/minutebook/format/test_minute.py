"""Minutes of arrival times, in keys and in metadata."""

import pytest

from minutebook.errors import FormatError, SettingsError
from minutebook.format.minute import (
    MINUTE_MS,
    minute_of,
    minute_path,
    minute_text,
    parse_iso_time,
    parse_minute_path,
    parse_minute_text,
)

MINUTE = 29_920_936


@pytest.mark.parametrize(
    ("arrival_ms", "text"), [(1_795_256_160_000, "10:16"), (1_795_256_219_999, "10:16"), (1_795_256_220_000, "10:17")]
)
def test_a_minute_holds_its_first_millisecond_and_not_its_end(arrival_ms: int, text: str) -> None:
    """The minute of an arrival time is rounded down, in UTC."""
    assert minute_text(minute_of(arrival_ms)) == f"2026-11-21T{text}Z"


@pytest.mark.parametrize("minute", [0, 1, MINUTE, minute_of(253_402_300_799_999)])
def test_round_trip(minute: int) -> None:
    """Both forms are read back, from 1970 to 9999."""
    assert parse_minute_path(minute_path(minute)) == minute
    assert parse_minute_text(minute_text(minute)) == minute


@pytest.mark.parametrize("arrival_ms", [-1, 253_402_300_800_000, 2**63])
def test_years_outside_1970_to_9999_are_refused(arrival_ms: int) -> None:
    """No stream stamps them."""
    with pytest.raises(FormatError):
        minute_of(arrival_ms)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-11-21T10:16",
        "2026-11-21 10:16Z",
        "2026-13-01T00:00Z",
        "2026-02-29T00:00Z",
        "2026-11-21T24:00Z",
        "1969-12-31T23:59Z",
        "2026-11-21T10:16Z\n",
    ],
)
def test_what_is_no_minute_is_refused(text: str) -> None:
    """Calendar and shape are checked."""
    with pytest.raises(FormatError):
        parse_minute_text(text)


def test_the_path_sorts_like_time() -> None:
    """Every part has its fixed width."""
    minutes = [0, 59, 60, 1439, 1440, MINUTE]
    assert sorted(map(minute_path, minutes)) == [minute_path(minute) for minute in minutes]


@pytest.mark.parametrize("text", ["0001-01-01T00:00+14:00", "1969-12-31T23:59:59Z", "9999-12-31T23:59:59-00:01"])
def test_a_time_outside_of_the_calendar_is_refused(text: str) -> None:
    """Another zone may bring it there, and nothing that is made of it would be a time."""
    with pytest.raises(SettingsError, match="is outside the years 1970 to 9999"):
        parse_iso_time(text)
    assert parse_iso_time("9999-12-31T23:59:59.999Z") + 1 == parse_iso_time("9999-12-31T23:59Z") + MINUTE_MS
