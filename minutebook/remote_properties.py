"""Read a properties file that may lie at `s3://`, for jobs on a platform without a folder of their own.

FILE, and MINUTEBOOK_PROPERTIES, may be a path or s3://bucket/key; otherwise see minutebook/properties_file.py. S3 is
asked with the credentials of the process, `MINUTEBOOK_S3_ENDPOINT` and the region of the environment: the roles and
endpoints that the file names are not known yet.
"""

from collections.abc import Callable, Mapping
from typing import Final

from minutebook.errors import SettingsError, StoreRefused
from minutebook.properties_file import (
    FILE_VARIABLE,
    TEXT_VARIABLE,
    PropertiesFile,
    Source,
    decode_properties,
    read_settings,
    with_variables,
)
from minutebook.store.places import open_retrying, parse_place
from minutebook.store.retrying import RetryingStorage

Fetch = Callable[[str, Mapping[str, str]], bytes | None]
"""Reads an object by its `s3://` address; None if there is none."""
_BUDGET_SECONDS: Final = 60
_NEXT: Final = "name the properties file, as s3://bucket/key, and let the role read it (s3:GetObject)"
_REMOTE: Final = ("s3://", "s3a://", "s3n://")
_ANY_REGION: Final = "us-east-1"
"""If no region is configured: S3 redirects the client to the region of the bucket."""


def is_remote(named: str) -> bool:
    """Return whether a text is an address on S3."""
    return named.startswith(_REMOTE)


def read_job_properties(file: Source, environ: Mapping[str, str], fetch: Fetch) -> PropertiesFile:
    """Read the settings of a job; raises SettingsError as `read_settings`, StoreUnavailable if S3 does not answer."""
    if isinstance(file, PropertiesFile):
        return file
    text = environ.get(TEXT_VARIABLE)
    named = environ.get(FILE_VARIABLE, "") if file is None and not text else str(file or "")
    if not is_remote(named):
        return read_settings(file, environ)
    if text:
        raise SettingsError(f"{named} and {TEXT_VARIABLE} are both given", next_step="keep one of them")
    body = fetch(named, environ)
    if body is None:
        raise SettingsError(f"{named}: there is no such object", next_step=_NEXT)
    return with_variables(decode_properties(body, named), environ)


def fetch_properties(uri: str, environ: Mapping[str, str]) -> bytes | None:
    """Read an object from S3; see `Fetch`."""
    folder, _, name = uri.rpartition("/")
    storage, prefix = _opened(folder, environ)
    if not name:
        raise SettingsError(f"{uri} names no object", next_step=_NEXT)
    try:
        stored = storage.get(f"{prefix}{name}")
    except StoreRefused as exc:
        raise SettingsError(f"{uri}: {exc}", next_step=_NEXT) from exc
    return None if stored is None else stored.body


def list_properties(uri: str, environ: Mapping[str, str]) -> list[str]:
    """Return the addresses of the objects directly below `s3://bucket/folder/`."""
    storage, prefix = _opened(uri.rstrip("/"), environ)
    try:
        listed = storage.list_objects(prefix)
        names = [row.key.removeprefix(prefix) for row in listed]
    except StoreRefused as exc:
        raise SettingsError(f"{uri}: {exc}", next_step="let the role list the folder (s3:ListBucket)") from exc
    return [f"{uri}{name}" for name in names if name and "/" not in name]


def _opened(folder: str, environ: Mapping[str, str]) -> tuple[RetryingStorage, str]:
    region = next(
        (
            environ[name]
            for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "MINUTEBOOK_REGION_NAME")
            if environ.get(name)
        ),
        _ANY_REGION,
    )
    place = parse_place(folder, region, environ.get("MINUTEBOOK_S3_ENDPOINT"))
    if place.address.bucket is None:
        raise SettingsError(f"{folder} names no object", next_step=_NEXT)
    return open_retrying(place.address, _BUDGET_SECONDS), place.prefix
