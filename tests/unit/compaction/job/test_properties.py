"""A properties file that lies on S3."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from compaction.job.settings import JobSettings, load_job_settings
from minutebook.errors import SettingsError
from minutebook.remote_properties import fetch_properties

URI = "s3://code/night/my.properties"
BODY = b"streamName = s\napplicationName = a\nregionName = eu-west-1\nminutebook.bucket = b\n"


def _load(
    body: bytes | None, file: str | None = URI, environ: Mapping[str, str] | None = None
) -> tuple[JobSettings, list[str]]:
    asked = []

    def fetch(uri: str, _environ: Mapping[str, str]) -> bytes | None:
        asked.append(uri)
        return body

    return load_job_settings(file, environ or {}, fetch), asked


def test_it_is_read_where_it_lies() -> None:
    """Variables win over its lines, and findings name it."""
    settings, asked = _load(BODY, environ={"MINUTEBOOK_STREAM_NAME": "mine"})
    assert (settings.stream_name, settings.bucket, asked) == ("mine", "b", [URI])
    assert settings.audit_command == f"minutebook audit {URI}"


def test_the_environment_may_name_it() -> None:
    """And what is given wins over it."""
    environ = {"MINUTEBOOK_PROPERTIES": URI}
    assert _load(BODY, None, environ)[1] == [URI]
    assert _load(BODY, "s3a://other/p", environ)[1] == ["s3a://other/p"]


def test_a_text_in_the_environment_wins_over_a_name_there() -> None:
    """As it does for a file of this machine."""
    settings, asked = _load(None, None, {"MINUTEBOOK_PROPERTIES": URI, "MINUTEBOOK_PROPERTIES_TEXT": BODY.decode()})
    assert (settings.bucket, asked) == ("b", [])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (None, "there is no such object"),
        (b" \n", "is empty"),
        (b"\xef\xbb\xbfa = b\n", "with a byte order mark"),
        (b"streamName = s\n", "3 error(s) in the settings"),
        (BODY + b"minutebook.metrics = statsd\n", "minutebook.metrics must be emf, not 'statsd'"),
    ],
)
def test_what_is_wrong_with_it_names_it(body: bytes | None, message: str) -> None:
    """As with a file of this machine."""
    with pytest.raises(SettingsError) as caught:
        _load(body)
    assert message in str(caught.value)
    assert URI in str(caught.value)


def test_two_sources_are_refused() -> None:
    """One of them would be ignored."""
    with pytest.raises(SettingsError, match="are both given"):
        _load(BODY, environ={"MINUTEBOOK_PROPERTIES_TEXT": "a = b"})


@pytest.mark.parametrize("uri", ["s3://code", "s3://code/", "s3:///key"])
def test_an_address_without_a_key_is_refused(uri: str) -> None:
    """Before any request."""
    with pytest.raises(SettingsError):
        fetch_properties(uri, {})


def test_a_path_is_a_path(tmp_path: Path) -> None:
    """Nothing is fetched."""
    (tmp_path / "p").write_bytes(BODY)
    settings, asked = _load(None, str(tmp_path / "p"))
    assert (settings.bucket, asked) == ("b", [])
