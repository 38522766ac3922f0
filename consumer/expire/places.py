"""The places that `minutebook expire` reaches beside the archive's own store: what is published, and the deletes."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from archive.aws import is_passing_code, make_s3_client
from archive.errors import OutcomeUnknown, SettingsError, StoreRefused
from archive.store.objects import StoredObject
from archive.store.published import Reader
from archive.store.s3 import S3Store, translate

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_SCHEMES: Final = frozenset({"s3", "s3a", "s3n"})


class PublishedPlace(NamedTuple):
    """Where the nightly job publishes: a reader, and the folder below it (empty, or ending in `/`)."""

    reader: Reader
    root: str


def open_published(text: str, region: str, endpoint: str | None) -> PublishedPlace:
    """Open `s3://bucket/folder` or the path of a directory, as `minutebook compact --out` names it.

    Raises:
        SettingsError: neither.
    """
    scheme, separator, rest = text.partition("://")
    if not separator or scheme == "file":
        folder = Path(rest if separator else text)
        if not text or not folder.is_dir():
            raise SettingsError(f"there is no directory {text!r}", next_step="name what compact was given as --out")
        return PublishedPlace(DirectoryReader(folder), "")
    bucket, _, folder_name = rest.partition("/")
    if scheme not in _SCHEMES or not bucket:
        raise SettingsError(f"cannot read {text!r}", next_step="name a directory, or s3://bucket/folder")
    folder_name = folder_name.strip("/")
    return PublishedPlace(S3Store(make_s3_client(region, endpoint), bucket), f"{folder_name}/" if folder_name else "")


class DirectoryReader:
    """A local directory whose files are the objects; implements `archive.store.published.Reader`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, key: str) -> StoredObject | None:
        """Read a file; its ETag is the MD5 of its bytes."""
        try:
            body = (self._folder / key).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as exc:
            raise StoreRefused(f"{key}: {exc}", next_step="look at the permissions of the directory") from exc
        return StoredObject(body, f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"', {})


class S3Deleter:
    """Deletes objects of one bucket; implements `consumer.expire.apply.Deleter`."""

    def __init__(self, client: "S3Client", bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def delete(self, keys: Sequence[str]) -> None:
        """Send one DeleteObjects; its answer names each key that was not deleted."""
        what = f"DELETE {keys[0]} and {len(keys) - 1} more"
        try:
            answer = self._client.delete_objects(
                Bucket=self._bucket, Delete={"Objects": [{"Key": key} for key in keys], "Quiet": True}
            )
        except (ClientError, BotoCoreError) as exc:
            raise translate(exc, what) from exc
        for error in answer.get("Errors", []):
            code, sentence = error.get("Code", ""), f"DELETE {error.get('Key')}: {error.get('Code')}"
            if is_passing_code(code):
                raise OutcomeUnknown(sentence)
            raise StoreRefused(sentence, next_step="grant s3:DeleteObject to whoever runs minutebook expire")
