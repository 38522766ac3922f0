"""What a command of the nightly job is asked for: which days, and options that are judged before any I/O."""

import pytest

from compaction.job.checks import audit_level, event_id_path, requested_days
from compaction.job.context import AuditOptions
from compaction.job.request import AuditRequest, CompactRequest
from compaction.parquet.rows import ZSTD_LEVEL
from minutebook.errors import SettingsError
from minutebook.format.day import Day

TODAY = Day.parse("2026-03-01")
FILE = "any.properties"


def test_yesterday_is_the_utc_day_before() -> None:
    """A scheduler whose arguments never change asks for it; the month may have ended."""
    assert requested_days(AuditRequest(FILE, date="yesterday"), TODAY) == [Day.parse("2026-02-28")]


def test_a_range_may_end_with_a_word() -> None:
    """Both ends belong to it."""
    days = requested_days(CompactRequest(FILE, first="2026-02-27", last="today"), TODAY)
    assert [str(day) for day in days] == ["2026-02-27", "2026-02-28", "2026-03-01"]


@pytest.mark.parametrize("text", ["tomorrow", "", "2026-2-1", "2026-02-30", "Yesterday"])
def test_another_word_is_no_day(text: str) -> None:
    """The error shows what a day looks like."""
    with pytest.raises(SettingsError, match="not a day") as caught:
        requested_days(AuditRequest(FILE, date=text), TODAY)
    assert "2026-11-21, or yesterday" in (caught.value.next_step or "")


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        (AuditRequest(FILE), "no day is named"),
        (AuditRequest(FILE, date="today", first="today"), "--date cannot be given with --from or --to"),
        (CompactRequest(FILE, first="today"), "--from needs --to"),
        (CompactRequest(FILE, last="today"), "--to needs --from"),
    ],
)
def test_no_day_is_guessed(request_: AuditRequest | CompactRequest, sentence: str) -> None:
    """None, half a range, or both a day and a range is an error that says which of them it is."""
    with pytest.raises(SettingsError) as caught:
        requested_days(request_, TODAY)
    assert (str(caught.value), caught.value.next_step) == (sentence, "give --date D, or --from D and --to D")


@pytest.mark.parametrize(
    "request_",
    [AuditRequest(FILE, date="2027-03-01"), CompactRequest(FILE, first="today", last="2026-03-02")],
)
def test_a_day_in_the_future_is_refused(request_: AuditRequest | CompactRequest) -> None:
    """Nothing of it can be archived: neither clean, nor empty."""
    with pytest.raises(SettingsError, match="future") as caught:
        requested_days(request_, TODAY)
    assert caught.value.next_step


def test_a_range_does_not_run_backwards() -> None:
    """The error names both ends."""
    with pytest.raises(SettingsError, match="2026-03-01 to 2026-02-28"):
        requested_days(AuditRequest(FILE, first="today", last="yesterday"), TODAY)


def test_what_is_not_asked_for_is_what_the_code_does_by_itself() -> None:
    """The defaults of the command line are literals, as its help imports nothing heavy."""
    options = AuditOptions()
    assert AuditRequest().lookback_days == CompactRequest().lookback_days == options.lookback_days
    assert (AuditRequest().level, CompactRequest().max_repeats) == (options.level, options.max_repeats)
    assert CompactRequest().zstd_level == ZSTD_LEVEL


def test_level_inventory_has_no_lines_to_look_at() -> None:
    """The next step names the levels that have."""
    with pytest.raises(SettingsError, match="needs the lines") as caught:
        audit_level("inventory", "id")
    assert "--level keys or stream" in caught.value.next_step


@pytest.mark.parametrize("level", ["keys", "stream"])
def test_the_other_levels_take_an_event_id(level: str) -> None:
    """As it was given."""
    assert (audit_level(level, "event.id"), event_id_path("event.id")) == (level, "event.id")


@pytest.mark.parametrize("expression", ["event..id", "", "a[", "(" * 5000])
@pytest.mark.parametrize("is_needed", [False, True])
def test_a_path_that_is_none_is_refused(expression: str, *, is_needed: bool) -> None:
    """Exit code 2 and one line."""
    with pytest.raises(SettingsError, match="--event-id") as caught:
        event_id_path(expression, is_needed=is_needed)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)


def test_copies_cannot_be_left_out_without_an_id() -> None:
    """The id of the properties file is the consumer's, and is not used by itself."""
    with pytest.raises(SettingsError, match="--drop-producer-duplicates needs --event-id") as caught:
        event_id_path(None, is_needed=True)
    assert "--event-id event.id" in caught.value.next_step
