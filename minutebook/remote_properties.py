"""Read a properties file that may lie at `s3://`, for jobs on a platform without a folder of their own.

FILE, and MINUTEBOOK_PROPERTIES, may be a path or s3://bucket/key; otherwise see minutebook/properties_file.py. S3 is
asked with the credentials of the process, `MINUTEBOOK_S3_ENDPOINT` and the region of the environment: the roles and
endpoints that the file names are not known yet.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from minutebook.errors import SettingsError, StoreRefused
from minutebook.properties_file import (
    FILE_VARIABLE,
    TEXT_VARIABLE,
    PropertiesFile,
    decode_properties,
    read_settings,
    with_variables,
)
from minutebook.store.places import open_retrying, parse_place

Fetch = Callable[[str, Mapping[str, str]], bytes | None]
"""Reads an object by its `s3://` address; None if there is none."""
_BUDGET_SECONDS: Final = 60
_NEXT: Final = "name the properties file, as s3://bucket/key, and let the role read it (s3:GetObject)"
_ANY_REGION: Final = "us-east-1"
"""If no region is configured: S3 redirects the client to the region of the bucket."""


def read_job_properties(file: Path | str | None, environ: Mapping[str, str], fetch: Fetch) -> PropertiesFile:
    """Read the settings of a job; raises SettingsError as `read_settings`, StoreUnavailable if S3 does not answer."""
    text = environ.get(TEXT_VARIABLE)
    named = environ.get(FILE_VARIABLE, "") if file is None and not text else str(file or "")
    if not named.startswith(("s3://", "s3a://", "s3n://")):
        return read_settings(None if file is None else Path(file), environ)
    if text:
        raise SettingsError(f"{named} and {TEXT_VARIABLE} are both given", next_step="keep one of them")
    body = fetch(named, environ)
    if body is None:
        raise SettingsError(f"{named}: there is no such object", next_step=_NEXT)
    return with_variables(decode_properties(body, named), environ)


def fetch_properties(uri: str, environ: Mapping[str, str]) -> bytes | None:
    """Read an object from S3; see `Fetch`."""
    folder, _, name = uri.rpartition("/")
    region = next(
        (
            environ[name]
            for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "MINUTEBOOK_REGION_NAME")
            if environ.get(name)
        ),
        _ANY_REGION,
    )
    place = parse_place(folder, region, environ.get("MINUTEBOOK_S3_ENDPOINT"))
    if place.address.bucket is None or not name:
        raise SettingsError(f"{uri} names no object", next_step=_NEXT)
    storage = open_retrying(place.address, _BUDGET_SECONDS)
    try:
        stored = storage.get(f"{place.prefix}{name}")
    except StoreRefused as exc:
        raise SettingsError(f"{uri}: {exc}", next_step=_NEXT) from exc
    return None if stored is None else stored.body
