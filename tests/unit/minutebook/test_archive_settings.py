"""What whoever reads an archive takes from the properties file."""

from pathlib import Path

import pytest

from compaction.job.settings import load_job_settings
from consumer.settings.settings import load_settings
from minutebook.archive_settings import load_archive_settings
from minutebook.aws.access import PLAIN
from minutebook.errors import SettingsError
from minutebook.owner import StreamOwner
from minutebook.store.places import StorePrefix
from minutebook.store.storage import Address

ARN = "arn:aws:kinesis:eu-west-1:123456789012:stream/flights"


def _file(folder: Path, *lines: str) -> Path:
    path = folder / "my.properties"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_where_it_is_and_whose(tmp_path: Path) -> None:
    """The stream's ARN says name, region and account; the environment wins over the file's lines."""
    lines = (f"streamArn = {ARN}", "applicationName = app", "minutebook.bucket = bucket", "minutebook.prefix = old/")
    settings = load_archive_settings(_file(tmp_path, *lines), {"MINUTEBOOK_PREFIX": "raw/"})
    assert settings.owner == StreamOwner("flights", "eu-west-1", "123456789012")
    assert settings.archive == StorePrefix(Address("bucket", "", "eu-west-1", None, PLAIN), "raw/")


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    """With the file's name and how many there are."""
    path = _file(tmp_path, f"streamArn = {ARN}", "regionName = us-east-1", "minutebook.prefix = raw")
    with pytest.raises(SettingsError) as caught:
        load_archive_settings(path, {})
    first, *rest = str(caught.value).splitlines()
    assert first == f"{path}: 4 error(s) in the settings"
    for text in ("applicationName is missing", "minutebook.bucket is missing", "lies in eu-west-1", "write raw/"):
        assert sum(text in line for line in rest) == 1


@pytest.mark.parametrize("line", ["minutebook.metrics = statsd", "minutebook.eventWindow = a week"])
def test_what_only_the_night_uses_is_the_nights_to_refuse(tmp_path: Path, line: str) -> None:
    """`cat` reads an archive whatever the job would be told."""
    path = _file(tmp_path, f"streamArn = {ARN}", "applicationName = app", "minutebook.bucket = bucket", line)
    assert load_archive_settings(path, {}).bucket == "bucket"
    with pytest.raises(SettingsError, match="must be"):
        load_job_settings(path, {})


@pytest.mark.parametrize(
    ("lines", "environ", "told"),
    [
        (
            ("minutebook.prefx = raw/",),
            {},
            "minutebook.prefx is not a setting of KCL or Minutebook: did you mean m",
        ),
        (("prefix = raw/",), {}, "prefix is not a setting of KCL or Minutebook: did you mean minutebook.prefix?"),
        (("minutebook.prefix = a//b/",), {}, "minutebook.prefix must be folders of letters"),
        (("minutebook.prefix = raw/",), {"MINUTEBOOK_PREFIX": ""}, "MINUTEBOOK_PREFIX is empty: give it a value, or"),
        ((), {"MINUTEBOOK_PREFX": "raw/"}, "MINUTEBOOK_PREFX is not a setting: did you mean MINUTEBOOK_PREFIX?"),
        ((), {"MINUTEBOOK_PREFIX": "raw"}, "MINUTEBOOK_PREFIX must end in '/'"),
        (("kinesisEndpoint = localhost:1",), {}, "kinesisEndpoint must be an address such as"),
    ],
)
def test_the_consumer_and_the_readers_refuse_the_same(
    tmp_path: Path, lines: tuple[str, ...], environ: dict[str, str], told: str
) -> None:
    """A reader that passes over a misspelled prefix looks at another archive than the workers write."""
    path = _file(tmp_path, f"streamArn = {ARN}", "applicationName = app", "minutebook.bucket = bucket", *lines)
    for load in (load_archive_settings, load_job_settings, load_settings):
        with pytest.raises(SettingsError) as caught:
            load(path, environ)
        assert told in str(caught.value)
