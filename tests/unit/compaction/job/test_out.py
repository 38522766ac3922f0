"""Days are published beside the raw segments, or anywhere else, and never among them."""

import pytest

from compaction.job.settings import check_apart, load_job_settings
from consumer.settings.settings import load_settings
from minutebook.aws.access import Access
from minutebook.errors import SettingsError
from minutebook.store.places import StorePrefix, parse_place
from minutebook.store.storage import Address

ARCHIVE = StorePrefix(Address("archive", "", "us-east-1", None), "raw/")


@pytest.mark.parametrize("uri", ["s3://archive/raw", "s3a://archive/raw/", "s3://archive/raw/2026/11/21"])
def test_among_the_segments_is_refused(uri: str) -> None:
    """The next step names a place that is right."""
    with pytest.raises(SettingsError, match="where the raw segments are") as caught:
        check_apart(parse_place(uri, "us-east-1", None), ARCHIVE)
    assert "_parquet/" in caught.value.next_step


@pytest.mark.parametrize(
    "uri", ["s3://archive/raw/_parquet/", "s3://archive/raw/tables", "s3://minutebook/", "s3://other/raw/", "raw"]
)
def test_any_other_place_is_well(uri: str) -> None:
    """Also a folder of its own below the prefix: no LIST of a minute sees it."""
    check_apart(parse_place(uri, "us-east-1", None), ARCHIVE)


ACCESS = Access("123456789012", "alias/archive", "STANDARD_IA", (("team", "data"),))


def test_what_is_published_is_written_as_the_archive_is() -> None:
    """Key, class and tags; the owner is the archive's bucket's, and nobody has said whose another one is."""
    beside, other = (
        parse_place(uri, "us-east-1", None, ACCESS, archive_bucket="archive").address.access
        for uri in ("s3://archive/tables", "s3://other/tables")
    )
    assert (beside, other) == (ACCESS, ACCESS._replace(expected_bucket_owner=None))


def test_among_the_segments_is_refused_with_an_owner_too() -> None:
    """Two addresses of one bucket are equal."""
    archive = ARCHIVE._replace(address=ARCHIVE.address._replace(access=ACCESS))
    with pytest.raises(SettingsError, match="where the raw segments are"):
        check_apart(parse_place("s3://archive/raw", "us-east-1", None, ACCESS, archive_bucket="archive"), archive)


def test_the_job_reads_the_same_names_as_the_consumer() -> None:
    """By file or variable; what is wrong with them is said with the rest."""
    environ = {
        "MINUTEBOOK_STREAM_NAME": "flights",
        "MINUTEBOOK_APPLICATION_NAME": "flights-archive",
        "MINUTEBOOK_REGION_NAME": "eu-west-1",
        "MINUTEBOOK_BUCKET": "archive",
        "MINUTEBOOK_EXPECTED_BUCKET_OWNER": "123456789012",
        "MINUTEBOOK_KMS_KEY_ID": "alias/archive",
        "MINUTEBOOK_STORAGE_CLASS": "STANDARD_IA",
        "MINUTEBOOK_OBJECT_TAGS": "team=data",
    }
    assert load_job_settings(None, environ).archive.address.access == ACCESS == load_settings(None, environ).access
    with pytest.raises(SettingsError, match="storageClass must be one of"):
        load_job_settings(None, {**environ, "MINUTEBOOK_STORAGE_CLASS": "COLD"})
