"""Every alarm of `minutebook follow`, by promtool, over two tables of one application, of which one is in trouble."""

from pathlib import Path
from typing import Final

import pytest
from ruamel.yaml import YAML

from tests.alarms.promtool import MISSING, RULES, find_promtool, firing

END: Final = 600
BREAKS: Final = 40
_GAUGES: Final = ("rows_until_timestamp_seconds", "table_complete_until_timestamp_seconds", "segments_left_out")
_WELL: Final = (f"-60+60x{END}", f"-600+60x{END}", f"0x{END}")
"""A poll a minute ago, complete until ten minutes ago, and nothing left out."""


def _frozen(ago: int) -> str:
    return f"{-ago}+60x{BREAKS} {60 * BREAKS - ago}x{END - BREAKS}"


TROUBLES: Final = {
    "MinutebookFollowGone": ((f"-60+60x{BREAKS} stale", f"-600+60x{BREAKS} stale", f"0x{BREAKS} stale"), 8),
    "MinutebookTableBehind": ((_frozen(60), *_WELL[1:]), 12),
    "MinutebookTableIncomplete": ((_WELL[0], _frozen(600), _WELL[2]), 37),
    "MinutebookSegmentsLeftOut": ((*_WELL[:2], f"0x{BREAKS} 2x{END - BREAKS}"), 18),
}


@pytest.fixture(scope="module", autouse=True)
def promtool() -> None:
    """Fail where promtool is missing: rules that nobody evaluated must not look like evaluated ones."""
    if find_promtool() is None:
        pytest.fail(MISSING, pytrace=False)


def _series(table: str, values: tuple[str, ...]) -> dict[str, str]:
    labels = f'application="orders-archive",instance="{table}:9102",table="{table}"'
    return {f"minutebook_{name}{{{labels}}}": each for name, each in zip(_GAUGES, values, strict=True)}


@pytest.mark.parametrize("name", TROUBLES)
def test_an_alarm_fires_for_the_table_in_trouble_and_for_it_alone(tmp_path: Path, name: str) -> None:
    """No other alarm of tables fires, either; and before the trouble none does."""
    values, after = TROUBLES[name]
    series = _series("events.raw", values) | _series("events.fine", _WELL)
    before, during = firing(tmp_path, series, (BREAKS - 1, BREAKS + after))
    about = [(alarm["alertname"], alarm.get("application"), alarm.get("table")) for alarm in (*before, *during)]
    # Here no stream is heard of at all.
    assert [alarm for alarm in about if alarm[0] != "MinutebookGone"] == [(name, "orders-archive", "events.raw")]


def test_a_table_that_was_never_up_to_date_is_behind(tmp_path: Path) -> None:
    """Its time is 0; what it is complete until is not known, and no alarm about it."""
    series = _series("events.raw", (f"0x{END}", f"0x{END}", f"0x{END}"))
    [alarms] = firing(tmp_path, series, (BREAKS,))
    assert {alarm["alertname"] for alarm in alarms} - {"MinutebookGone"} == {"MinutebookTableBehind"}


def test_there_is_a_trouble_for_each_alarm() -> None:
    """One that nobody tried may never fire; a page on a telephone shows its summary, which names the table."""
    rules = YAML(typ="safe", pure=True).load(RULES)["groups"][1]["rules"]
    assert {rule["alert"] for rule in rules} == TROUBLES.keys()
    assert all(rule["annotations"]["summary"].startswith("{{ $labels.table }}") for rule in rules)
