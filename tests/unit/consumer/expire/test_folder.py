"""`expire` of a folder: where a stream's days are published, and what its row says."""

from pathlib import Path

import pytest

from consumer.expire.command import ExpiredDays, end_of_stream, place_of
from minutebook.errors import SettingsError
from minutebook.properties_file import PropertiesFile
from tests.fakes.expire_scene import ExpireScene
from tests.fakes.world import settings

OF_A_FOLDER = PropertiesFile({}, (), "orders.properties", folder="streams", stem="orders")


def test_a_stream_of_a_folder_is_published_where_compact_publishes_it(tmp_path: Path) -> None:
    """Below its application at --published; without it beside its archive."""
    ours = settings(application_name="orders-app", bucket="events", prefix="orders/")
    given = place_of(str(tmp_path), ours, OF_A_FOLDER)
    assert (given.address.root, given.prefix) == (str(tmp_path), "orders-app/")
    beside = place_of(None, ours, OF_A_FOLDER)
    assert (beside.address.bucket, beside.prefix) == ("events", "orders/_parquet/")


def test_a_single_stream_must_say_where(tmp_path: Path) -> None:
    """What is deleted rests on what is found there."""
    assert place_of(str(tmp_path), settings(), tmp_path / "my.properties").prefix == ""
    with pytest.raises(SettingsError, match="--published is missing"):
        place_of(None, settings(), tmp_path / "my.properties")


def test_a_row_counts_the_days_and_names_the_first_that_was_refused() -> None:
    """6 where one was refused; the others are expired all the same."""
    done = end_of_stream(ExpiredDays(3), apply=True)
    assert (done.exit_code, done.outcome) == (0, "3 day(s) expired")
    refused = end_of_stream(ExpiredDays(0, ("2026-10-01: not published", "2026-09-30: unknown")), apply=False)
    assert refused.exit_code == 6
    assert refused.outcome.split("\n  - ") == [
        "0 day(s) would be expired",
        "2026-10-01: not published; and 1 more day(s)",
    ]


def test_nothing_to_expire_is_no_refusal() -> None:
    """An archive that is young."""
    assert ExpireScene().expire(older_than="400d")[0] == 0
