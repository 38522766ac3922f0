"""What a verdict is about: a whole day, or the day so far."""

import pytest

from compaction.job.scope import SETTLED_MS, is_settled, judged_scope, parse_so_far, scope_end
from minutebook.errors import SettingsError
from minutebook.format.day import Day
from minutebook.format.markers import ApplicationRecord

DAY = Day.parse("2026-11-20")
HOUR = 3_600_000
NOON = DAY.begin_ms + 12 * HOUR


def application(start_at_ms: int | None, created_ms: int = 1) -> ApplicationRecord:
    """Return a record."""
    return ApplicationRecord(
        format=1,
        stream_arn="a",
        stream_created_ms=created_ms,
        application="a",
        start="s",
        start_at_ms=start_at_ms,
        writer="w",
        written_at_ms=DAY.shift(9).begin_ms,
    )


def test_a_day_is_settled_twenty_minutes_after_its_end() -> None:
    """A record that arrived at its end can be archived by then."""
    assert not is_settled(DAY, DAY.end_ms + SETTLED_MS - 1)
    assert is_settled(DAY, DAY.end_ms + SETTLED_MS)


@pytest.mark.parametrize(
    ("start_at_ms", "created_ms", "refused"),
    [
        (DAY.end_ms, 1, True),
        (DAY.end_ms - 1, 1, False),
        (None, DAY.end_ms, True),
        (None, DAY.begin_ms, False),
        (DAY.begin_ms, DAY.end_ms, False),
    ],
)
def test_a_day_before_the_application_is_refused(start_at_ms: int | None, created_ms: int, *, refused: bool) -> None:
    """Its start, or the stream's creation where it began with the oldest record; not the time of writing."""
    later_ms = DAY.shift(2).begin_ms
    if not refused:
        scope = judged_scope(DAY, application(start_at_ms, created_ms), later_ms)
        assert scope == (max(DAY.begin_ms, start_at_ms or created_ms), DAY.end_ms)
        return
    with pytest.raises(SettingsError, match="before this archive begins"):
        judged_scope(DAY, application(start_at_ms, created_ms), later_ms)


def test_an_archive_without_a_record_has_no_beginning() -> None:
    """The audit says that the record is missing."""
    assert judged_scope(DAY, None, NOON, NOON) == (DAY.begin_ms, NOON)


def test_a_day_in_the_future_is_refused() -> None:
    """There is nothing of it: an archive without a record of it is not clean."""
    with pytest.raises(SettingsError, match="lies in the future"):
        judged_scope(DAY, application(None), DAY.begin_ms - 1)


def test_a_part_of_a_day_before_the_application_is_refused() -> None:
    """The day is the archive's, and nothing of it so far."""
    with pytest.raises(SettingsError, match="the part of 2026-11-20 up to"):
        judged_scope(DAY, application(NOON), NOON + HOUR, NOON)


@pytest.mark.parametrize(
    ("text", "until_ms"),
    [
        (None, None),
        ("now", "covered"),
        ("2026-11-20T10:00Z", DAY.begin_ms + 10 * HOUR),
        ("2026-11-20T10:00:30+00:00", DAY.begin_ms + 10 * HOUR + 30_000),
        ("2026-11-20T12:00:00.000Z", NOON),
    ],
)
def test_the_end_of_a_day_so_far(text: str | None, until_ms: int | str | None) -> None:
    """The last covered hour, or the time that is named."""
    assert parse_so_far(text, NOON) == until_ms


@pytest.mark.parametrize(
    "text", ["2026-11-20T12:01Z", "2026-11-20T10:00", "2026-11-20T10:00+01:00", "noon", "10:00Z"]
)
def test_another_end_is_refused(text: str) -> None:
    """The future, local times, and what is no time."""
    with pytest.raises(SettingsError, match=r"not a time|future"):
        parse_so_far(text, NOON)


@pytest.mark.parametrize(
    ("so_far_ms", "now_ms", "end_ms"),
    [
        (None, NOON, None),
        (NOON + 59_999, NOON + HOUR, NOON),
        (NOON, DAY.end_ms + 9 * HOUR, NOON),
        (DAY.end_ms + 1, DAY.end_ms + 2, DAY.end_ms),
        (DAY.end_ms, DAY.end_ms + SETTLED_MS, None),
        (DAY.end_ms + SETTLED_MS, DAY.end_ms + SETTLED_MS + 1, None),
    ],
)
def test_where_a_scope_ends(so_far_ms: int | None, now_ms: int, end_ms: int | None) -> None:
    """At a whole minute; a settled day is whole when nothing of it lies behind the time."""
    assert scope_end(DAY, so_far_ms, now_ms) == end_ms


@pytest.mark.parametrize("so_far_ms", [DAY.begin_ms - 1, DAY.begin_ms, DAY.begin_ms + 59_999])
def test_a_scope_without_a_minute_is_refused(so_far_ms: int) -> None:
    """There is nothing to judge."""
    with pytest.raises(SettingsError, match="no minute of 2026-11-20"):
        scope_end(DAY, so_far_ms, NOON)
