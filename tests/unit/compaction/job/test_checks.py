"""Options about producer duplicates are judged before any I/O."""

import pytest

from compaction.job.checks import audit_level, event_id_path
from minutebook.errors import SettingsError


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
