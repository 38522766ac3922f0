"""Addresses of stores: parse one from options or settings, and open it once per process."""

import functools
from pathlib import Path
from typing import NamedTuple

from minutebook.aws.access import PLAIN, Access
from minutebook.aws.clients import make_s3_client
from minutebook.errors import SettingsError
from minutebook.retry import backoff_within
from minutebook.store.directory_storage import DirectoryStorage
from minutebook.store.retrying import RetryingStorage
from minutebook.store.s3_storage import S3Storage
from minutebook.store.storage import Address, Storage


class StorePrefix(NamedTuple):
    """A store and a prefix of its keys, which is empty or ends in `/`."""

    address: Address
    prefix: str


def parse_place(
    text: str, region: str, endpoint: str | None, access: Access = PLAIN, *, archive_bucket: str = ""
) -> StorePrefix:
    """Parse `s3://bucket/folder` (or `s3a://`, `s3n://`), or the path of a local directory; raises SettingsError.

    The expected bucket owner in `access` applies to the archive's bucket alone.
    """
    scheme, separator, rest = text.partition("://")
    if not separator:
        if not text:
            raise SettingsError("the address is empty", next_step="name a directory, or s3://bucket/folder")
        return StorePrefix(Address(None, str(Path(text).absolute())), "")
    if scheme == "file":
        return StorePrefix(Address(None, str(Path(rest).absolute())), "")
    bucket, _, folder = rest.partition("/")
    if scheme not in {"s3", "s3a", "s3n"} or not bucket:
        raise SettingsError(
            f"not an address of objects: {text!r}", next_step="name a directory, or s3://bucket/folder"
        )
    folder = folder.strip("/")
    if bucket != archive_bucket:
        access = access._replace(expected_bucket_owner=None)
    return StorePrefix(Address(bucket, "", region, endpoint, access), f"{folder}/" if folder else "")


@functools.lru_cache(maxsize=8)
def open_storage(address: Address) -> Storage:
    """Return the store at an address; one client per process and address."""
    if address.bucket is None:
        return DirectoryStorage(Path(address.root))
    return S3Storage(make_s3_client(address.region, address.endpoint, address.access), address.bucket)


def open_retrying(address: Address, budget_seconds: float) -> RetryingStorage:
    """Return the store at an address; each request is retried for up to `budget_seconds`."""
    return RetryingStorage(open_storage(address), backoff_within(budget_seconds))
