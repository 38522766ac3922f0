"""What whoever reads an archive takes from the properties file."""

from pathlib import Path

import pytest

from compaction.job.settings import load_job_settings
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
    lines = (f"streamArn = {ARN}", "applicationName = a", "minutebook.bucket = b", "minutebook.prefix = old/")
    settings = load_archive_settings(_file(tmp_path, *lines), {"MINUTEBOOK_PREFIX": "raw/"})
    assert settings.owner == StreamOwner("flights", "eu-west-1", "123456789012")
    assert settings.archive == StorePrefix(Address("b", "", "eu-west-1", None, PLAIN), "raw/")


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
    path = _file(tmp_path, f"streamArn = {ARN}", "applicationName = a", "minutebook.bucket = b", line)
    assert load_archive_settings(path, {}).bucket == "b"
    with pytest.raises(SettingsError, match="must be"):
        load_job_settings(path, {})
