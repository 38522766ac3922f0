"""Options about producer duplicates are judged before any I/O."""

from pathlib import Path

import pytest

from archive.errors import SettingsError
from compaction.job.request import AuditRequest, CompactRequest

FILE = Path("my.properties")


def test_level_inventory_has_no_lines_to_look_at() -> None:
    """The next step names the levels that have."""
    with pytest.raises(SettingsError, match="needs the lines") as caught:
        AuditRequest(FILE, level="inventory", event_id="id").checked_level()
    assert "--level keys or stream" in caught.value.next_step


@pytest.mark.parametrize("level", ["keys", "stream"])
def test_the_other_levels_take_an_event_id(level: str) -> None:
    """As it was given."""
    request = AuditRequest(FILE, level=level, event_id="event.id")
    assert (request.checked_level(), request.checked_event_id()) == (level, "event.id")


@pytest.mark.parametrize("expression", ["event..id", "", "a[", "(" * 5000])
@pytest.mark.parametrize("request_", [AuditRequest, CompactRequest])
def test_a_path_that_is_none_is_refused(request_: type[AuditRequest] | type[CompactRequest], expression: str) -> None:
    """Exit code 2 and one line."""
    with pytest.raises(SettingsError, match="--event-id") as caught:
        request_(FILE, event_id=expression).checked_event_id()
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)


def test_copies_cannot_be_left_out_without_an_id() -> None:
    """The id of the properties file is the consumer's, and is not used by itself."""
    with pytest.raises(SettingsError, match="by what are they recognised") as caught:
        CompactRequest(FILE, drop_producer_duplicates=True).checked_event_id()
    assert "--event-id event.id" in caught.value.next_step
