"""Days are published beside the raw segments, or anywhere else, and never among them."""

import pytest

from archive.errors import SettingsError
from archive.store.places import StorePrefix, parse_place
from archive.store.storage import Address
from compaction.job.settings import check_apart

ARCHIVE = StorePrefix(Address("archive", "", "us-east-1", None), "raw/")


@pytest.mark.parametrize("uri", ["s3://archive/raw", "s3a://archive/raw/", "s3://archive/raw/2026/11/21"])
def test_among_the_segments_is_refused(uri: str) -> None:
    """The next step names a place that is right."""
    with pytest.raises(SettingsError, match="where the raw segments are") as caught:
        check_apart(parse_place(uri, "us-east-1", None), ARCHIVE)
    assert "_parquet/" in caught.value.next_step


@pytest.mark.parametrize(
    "uri", ["s3://archive/raw/_parquet/", "s3://archive/raw/tables", "s3://archive/", "s3://other/raw/", "raw"]
)
def test_any_other_place_is_well(uri: str) -> None:
    """Also a folder of its own below the prefix: no LIST of a minute sees it."""
    check_apart(parse_place(uri, "us-east-1", None), ARCHIVE)
