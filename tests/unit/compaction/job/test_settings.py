"""The job's settings: a properties file here or on S3, and where days are published, never among the segments."""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from compaction.commands.audit_and_compact import _checkpoints
from compaction.job.settings import JobSettings, check_apart, load_job_settings
from consumer.leases.table import lease_table_of
from consumer.settings.settings import load_settings, load_with_kcl
from minutebook.aws import clients
from minutebook.aws.access import Access
from minutebook.clock import SystemClock, new_random
from minutebook.errors import SettingsError
from minutebook.format.payload import NumberPaths
from minutebook.remote_properties import fetch_properties
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


def test_the_lease_table_is_the_one_that_the_consumer_uses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a name of its own; what is in it counts as the application's. One of the application's name may be old."""
    file = tmp_path / "my.properties"
    file.write_bytes(BODY)
    assert load_job_settings(file, {}).lease_table == "app"
    file.write_bytes(BODY + b"tableName = leases\n")
    settings, asked = load_job_settings(file, {}), list[str]()

    def scan(**request: Any) -> dict[str, Any]:  # noqa: ANN401 - as botocore's
        asked.append(request["TableName"])
        return {"Items": []}

    monkeypatch.setattr(clients, "make_dynamodb_client", lambda *_: SimpleNamespace(scan=scan))
    assert (_checkpoints(settings).application, asked) == ("app", ["leases"])
    loaded = load_with_kcl(file, {})
    assert lease_table_of(loaded, SystemClock(), new_random()).name == "leases"


URI = "s3://code/night/my.properties"
BODY = b"streamName = s\napplicationName = app\nregionName = eu-west-1\nminutebook.bucket = bucket\n"


def load(
    body: bytes | None, file: str | None = URI, environ: Mapping[str, str] | None = None
) -> tuple[JobSettings, list[str]]:
    """Load settings from S3, where this body lies; returns the addresses that were asked for, too."""
    asked = []

    def fetch(uri: str, _environ: Mapping[str, str]) -> bytes | None:
        asked.append(uri)
        return body

    return load_job_settings(file, environ or {}, fetch), asked


def test_it_is_read_where_it_lies() -> None:
    """Variables win over its lines, and findings name it."""
    settings, asked = load(BODY, environ={"MINUTEBOOK_STREAM_NAME": "mine"})
    assert (settings.stream_name, settings.bucket, asked) == ("mine", "bucket", [URI])
    assert settings.audit_command == f"minutebook audit {URI}"


def test_the_environment_may_name_it() -> None:
    """And what is given wins over it."""
    environ = {"MINUTEBOOK_PROPERTIES": URI}
    assert load(BODY, None, environ)[1] == [URI]
    assert load(BODY, "s3a://other/p", environ)[1] == ["s3a://other/p"]


def test_a_text_in_the_environment_wins_over_a_name_there() -> None:
    """As it does for a file of this machine."""
    settings, asked = load(None, None, {"MINUTEBOOK_PROPERTIES": URI, "MINUTEBOOK_PROPERTIES_TEXT": BODY.decode()})
    assert (settings.bucket, asked) == ("bucket", [])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (None, "there is no such object"),
        (b" \n", "is empty"),
        (b"\xef\xbb\xbfa = b\n", "with a byte order mark"),
        (b"streamName = s\n", "3 error(s) in the settings"),
        (BODY + b"minutebook.metrics = statsd\n", "minutebook.metrics must be one of emf, not 'statsd'"),
    ],
)
def test_what_is_wrong_with_it_names_it(body: bytes | None, message: str) -> None:
    """As with a file of this machine."""
    with pytest.raises(SettingsError) as caught:
        load(body)
    assert message in str(caught.value)
    assert URI in str(caught.value)


def test_two_sources_are_refused() -> None:
    """One of them would be ignored."""
    with pytest.raises(SettingsError, match="are both given"):
        load(BODY, environ={"MINUTEBOOK_PROPERTIES_TEXT": "a = b"})


@pytest.mark.parametrize("uri", ["s3://code", "s3://code/", "s3:///key"])
def test_an_address_without_a_key_is_refused(uri: str) -> None:
    """Before any request."""
    with pytest.raises(SettingsError):
        fetch_properties(uri, {})


def test_a_path_is_a_path(tmp_path: Path) -> None:
    """Nothing is fetched."""
    (tmp_path / "p").write_bytes(BODY)
    settings, asked = load(None, str(tmp_path / "p"))
    assert (settings.bucket, asked) == ("bucket", [])


def test_the_paths_of_numbers_are_the_consumers() -> None:
    """By them the night compares what watermarks dropped; wrong ones are named with the other errors."""
    assert load(BODY)[0].numbers is None
    one = BODY + b"minutebook.producerSequence = seq\n"
    assert load(one)[0].numbers == NumberPaths("seq")
    assert load(one + b"minutebook.producerKey = a.b\n")[0].numbers == NumberPaths("seq", "a.b")
    with pytest.raises(SettingsError, match=r"(?s)producerKey is not a JMESPath.*metrics must be one of emf"):
        load(one + b"minutebook.metrics = x\nminutebook.producerKey = [[\n")
