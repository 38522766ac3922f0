"""A verdict is true of the archive as of a time: a reader sees which, and can refuse one that is too old."""

import datetime as dt
import json
from pathlib import Path
from typing import Final

import pytest

from minutebook.clock import SystemClock
from minutebook.errors import DayNotPublished, FormatError, SettingsError
from minutebook.format.minute import iso_time
from minutebook.reader import published, read
from tests.fakes.published_day import published_objects

DAY: Final = "2026-11-20"
_HOUR_MS: Final = 3_600_000
AGE: Final = dt.timedelta(hours=2)


def place(root: Path, verdict: str = "clean", **fields: object) -> Path:
    """Publish a day whose audit has these fields; return the path of that audit."""
    for key, body in published_objects("", DAY, [], "g", verdict).items():
        path = root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    audit = root / f"dt={DAY}" / "_manifest" / "g-w.audit.json"
    audit.write_text(json.dumps({"verdict": verdict, "equation": {"compacted": 7}, "more": [1], **fields}))
    return audit


def ago(hours: float) -> str:
    """Return the time so many hours ago."""
    return iso_time(SystemClock().now_ms() - int(hours * _HOUR_MS))


@pytest.mark.parametrize(
    ("fields", "judged_from"),
    [
        (
            {"basis": {"judged_from": "2026-11-21T00:21:00.000Z", "x": 1}, "audited_at": "2026-11-21T01:00:00.000Z"},
            21,
        ),
        ({"basis": None, "audited_at": "2026-11-21T00:22:00.000Z"}, 22),
        ({"basis": {}, "audited_at": "2026-11-21T00:22:00.000Z"}, 22),
        ({"audited_at": "2026-11-21T00:22:00.000Z"}, 22),
        ({}, None),
    ],
)
def test_a_day_says_as_of_when_its_verdict_is_true(
    tmp_path: Path, fields: dict[str, object], judged_from: int | None
) -> None:
    """The time before the first listing; of an earlier version, when its audit ended; or nothing."""
    place(tmp_path, **fields)
    [day] = published(str(tmp_path), DAY, DAY).days
    expected = None if judged_from is None else f"2026-11-21T00:{judged_from}:00.000Z"
    assert (day.verdict, day.judged_from, day.until) == ("clean", expected, None)


def test_a_verdict_that_is_too_old_counts_as_unknown(tmp_path: Path) -> None:
    """A day is read with that verdict, or is an error, or left out with the reason."""
    place(tmp_path, basis={"judged_from": ago(2.1)}, audited_at=ago(0))
    uri = str(tmp_path)

    assert [day.verdict for day in published(uri, DAY, DAY, max_age=AGE).days] == ["unknown"]
    with pytest.raises(DayNotPublished, match=r"its verdict is unknown: clean as of .*Z, older than 2:00:00"):
        read(uri, DAY, DAY, verdicts=("clean",), max_age=AGE)
    left = published(uri, DAY, DAY, verdicts=("clean",), max_age=AGE, missing="skip")
    assert left.days == ()
    assert "older than" in left.left_out[0][1]


def test_a_verdict_that_is_young_enough_stands(tmp_path: Path) -> None:
    """So does any verdict where no age is given."""
    audit = place(tmp_path, basis={"judged_from": ago(1.9)})
    assert [day.verdict for day in published(str(tmp_path), DAY, DAY, max_age=AGE).days] == ["clean"]
    fields = json.loads(audit.read_text()) | {"basis": {"judged_from": ago(9999)}}
    audit.write_text(json.dumps(fields))
    assert [day.verdict for day in published(str(tmp_path), DAY, DAY).days] == ["clean"]


def test_a_verdict_of_an_unknown_time_is_too_old(tmp_path: Path) -> None:
    """And says so."""
    place(tmp_path)
    with pytest.raises(DayNotPublished, match="clean as of no known time"):
        published(str(tmp_path), DAY, DAY, verdicts=("clean",), max_age=AGE)


def test_defects_do_not_grow_old(tmp_path: Path) -> None:
    """What was wrong is not unknown by waiting."""
    place(tmp_path, "defects", basis={"judged_from": ago(9999)})
    assert [day.verdict for day in published(str(tmp_path), DAY, DAY, max_age=AGE).days] == ["defects"]


def test_a_verdict_whose_audit_is_gone_is_unknown(tmp_path: Path) -> None:
    """Its rows are what they are."""
    place(tmp_path).unlink()
    [day] = published(str(tmp_path), DAY, DAY).days
    assert (day.verdict, day.judged_from, day.rows) == ("unknown", None, 7)


@pytest.mark.parametrize(
    "body", ["", "{}", "[]", '{"verdict":"clean"}', '{"verdict":"fine","equation":{"compacted":7}}']
)
def test_a_damaged_audit_is_named(tmp_path: Path, body: str) -> None:
    """With what makes it again."""
    place(tmp_path).write_text(body)
    with pytest.raises(FormatError, match=r"_manifest/g-w\.audit\.json does not parse") as caught:
        published(str(tmp_path), DAY, DAY)
    assert "minutebook compact" in caught.value.next_step


def test_a_pointer_whose_audit_says_something_else_is_named(tmp_path: Path) -> None:
    """One of the two is of another time: neither is taken for true."""
    audit = place(tmp_path)
    audit.write_text(audit.read_text().replace('"clean"', '"defects"'))
    with pytest.raises(FormatError, match=r"_current\.json says clean, and its audit .* says defects"):
        published(str(tmp_path), DAY, DAY)


@pytest.mark.parametrize("time", ["soon", "2026-11-21T00:00:00", "2026-11-21"])
def test_a_time_that_is_none_is_named(tmp_path: Path, time: str) -> None:
    """Nothing is guessed of a time without its zone."""
    place(tmp_path, basis={"judged_from": time})
    with pytest.raises(FormatError, match="not a time with its zone"):
        published(str(tmp_path), DAY, DAY)


@pytest.mark.parametrize("age", [dt.timedelta(), dt.timedelta(-1), 5])
def test_an_age_is_a_time_span(tmp_path: Path, age: dt.timedelta) -> None:
    """Whoever writes a number meant hours, or days, or seconds."""
    with pytest.raises(SettingsError, match="is not an age"):
        published(str(tmp_path), DAY, DAY, max_age=age)
