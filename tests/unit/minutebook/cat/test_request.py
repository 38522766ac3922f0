"""What `cat` is asked is checked before any request."""

from pathlib import Path

import pytest

from minutebook.cat.options import CatOptions
from minutebook.cat.request import CatRequest, checked_request
from minutebook.errors import SettingsError
from tests.unit.minutebook.cat.reading import NOON

NOW_MS = NOON * 60_000


def request(from_: str = "2026-11-20T11:00Z", to: str = "2026-11-20T11:10Z", **asked: object) -> CatRequest:
    """Check a request that is well but for what is given."""
    return checked_request(CatOptions(from_, to, **asked), NOW_MS)  # type: ignore[arg-type]  # of the options


@pytest.mark.parametrize(
    ("from_", "to"),
    [
        ("2026-11-20T11:00", "2026-11-20T11:10Z"),
        ("2026-11-20T11:10Z", "2026-11-20T11:10Z"),
        ("1999-01-01T00:00Z", "2026-11-20T11:10Z"),
        ("2026-11-21T00:00Z", "2026-11-21T01:00Z"),
        ("1969-12-31T23:59Z", "1970-01-01T00:01Z"),
        ("yesterday", "today"),
    ],
)
def test_a_span_that_is_none_is_refused(from_: str, to: str) -> None:
    """No zone, empty, ten years, in the future, before all time, words."""
    with pytest.raises(SettingsError):
        request(from_, to)


def test_minutes_are_those_that_the_span_touches() -> None:
    """A span that ends with a minute does not touch the next one; what lies ahead of the clock is not asked for."""
    assert request("2026-11-20T11:00:30Z", "2026-11-20T11:02:00Z").minutes == range(NOON - 60, NOON - 58)
    assert request("2026-11-20T11:00:30Z", "2026-11-20T11:02:00.001Z").minutes == range(NOON - 60, NOON - 57)
    assert request("2026-11-20T11:00Z", "2030-01-01T00:00Z").minutes == range(NOON - 60, NOON + 5)


def test_a_file_is_new_and_its_folder_is_there(tmp_path: Path) -> None:
    """Nothing is overwritten, and no folder made."""
    (tmp_path / "there").write_text("")
    with pytest.raises(SettingsError, match="exists"):
        request(out=tmp_path / "there")
    with pytest.raises(SettingsError, match="is not a folder"):
        request(out=tmp_path / "no" / "file")
    with pytest.raises(SettingsError, match="no stream"):
        request(form="parquet")
    with pytest.raises(SettingsError, match="not a shard id"):
        request(shard="../x")
    assert request(out=tmp_path / "new", form="parquet").out == tmp_path / "new"
