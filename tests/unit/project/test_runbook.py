"""The runbook tells what to do about each event that operators alarm on."""

import re
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[3]
_EVENT = re.compile(r"^\| `([a-z_]+)` \| (?:error|warning) \|", re.MULTILINE)
_SECTION = re.compile(r"^## ([a-z_]+)$", re.MULTILINE)


def test_each_event_to_alarm_on_has_a_section() -> None:
    """Neither an event without a way out, nor a section about an event that nobody is told to look for."""
    alarms = _EVENT.findall((CHECKOUT / "docs/operations.md").read_text())
    sections = _SECTION.findall((CHECKOUT / "docs/runbook.md").read_text())
    assert len(alarms) > 10
    assert sorted(sections) == sorted(alarms)
