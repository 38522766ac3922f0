"""Which days a command of the nightly job is asked for."""

from pathlib import Path

import pytest

from archive.errors import SettingsError
from archive.format.day import Day
from compaction.job.request import AuditRequest, CompactRequest

TODAY = Day.parse("2026-03-01")
FILE = Path("any.properties")


def test_yesterday_is_the_utc_day_before() -> None:
    """A scheduler whose arguments never change asks for it; the month may have ended."""
    assert AuditRequest(FILE, date="yesterday").days(TODAY) == [Day.parse("2026-02-28")]


def test_a_range_may_end_with_a_word() -> None:
    """Both ends belong to it."""
    days = CompactRequest(FILE, first="2026-02-27", last="today").days(TODAY)
    assert [str(day) for day in days] == ["2026-02-27", "2026-02-28", "2026-03-01"]


@pytest.mark.parametrize("text", ["tomorrow", "", "2026-2-1", "2026-02-30", "Yesterday"])
def test_another_word_is_no_day(text: str) -> None:
    """The error shows what a day looks like."""
    with pytest.raises(SettingsError, match="not a day") as caught:
        AuditRequest(FILE, date=text).days(TODAY)
    assert "2026-11-21, or yesterday" in (caught.value.next_step or "")


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        (AuditRequest(FILE), "which day?"),
        (AuditRequest(FILE, date="today", first="today"), "--date is one day, and --from and --to are others"),
        (CompactRequest(FILE, first="today"), "--from needs --to"),
        (CompactRequest(FILE, last="today"), "--to needs --from"),
    ],
)
def test_no_day_is_guessed(request_: AuditRequest | CompactRequest, sentence: str) -> None:
    """None, half a range, or both a day and a range is an error that says which of them it is."""
    with pytest.raises(SettingsError) as caught:
        request_.days(TODAY)
    assert (str(caught.value), caught.value.next_step) == (sentence, "give --date D, or --from D and --to D")


@pytest.mark.parametrize(
    "request_",
    [AuditRequest(FILE, date="2027-03-01"), CompactRequest(FILE, first="today", last="2026-03-02")],
)
def test_a_day_in_the_future_is_refused(request_: AuditRequest | CompactRequest) -> None:
    """Nothing of it can be archived: neither clean, nor empty."""
    with pytest.raises(SettingsError, match="future") as caught:
        request_.days(TODAY)
    assert caught.value.next_step


def test_a_range_does_not_run_backwards() -> None:
    """The error names both ends."""
    with pytest.raises(SettingsError, match="2026-03-01 to 2026-02-28"):
        AuditRequest(FILE, first="today", last="yesterday").days(TODAY)
