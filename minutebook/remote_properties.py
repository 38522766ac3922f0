"""The properties file of a job that has no folder of its own: on a platform it may lie at `s3://`.

    FILE                     a path, or s3://bucket/key; wins over MINUTEBOOK_PROPERTIES
    MINUTEBOOK_PROPERTIES    the same
    otherwise                what the environment holds (minutebook/properties_file.py)

It is read with the credentials of the process alone: what the file itself says of roles and endpoints is not known
before it is read. `MINUTEBOOK_S3_ENDPOINT` and the region of the environment count.
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
"""Reads an object by its `s3://` address; None where there is none."""
_BUDGET_SECONDS: Final = 60
_NEXT: Final = "name the properties file, as s3://bucket/key, and let the role read it (s3:GetObject)"
_ANY_REGION: Final = "us-east-1"
"""Where nobody names a region: S3 itself says then in which one a bucket lies, and is asked there."""


def is_remote(text: str) -> bool:
    """Tell an address on S3 from a path."""
    return text.startswith(("s3://", "s3a://", "s3n://"))


def read_job_properties(file: Path | str | None, environ: Mapping[str, str], fetch: Fetch) -> PropertiesFile:
    """Read the file that is named, wherever it lies, or what the environment holds instead.

    Raises:
        SettingsError: there is none, there are two, or it cannot be read.
        StoreUnavailable: S3 does not answer.
    """
    text = environ.get(TEXT_VARIABLE)
    named = environ.get(FILE_VARIABLE, "") if file is None and not text else str(file or "")
    if not is_remote(named):
        return read_settings(None if file is None else Path(file), environ)
    if text:
        raise SettingsError(f"{named} and {TEXT_VARIABLE} are both given", next_step="keep one of them")
    body = fetch(named, environ)
    if body is None:
        raise SettingsError(f"{named}: there is no such object", next_step=_NEXT)
    return with_variables(decode_properties(body, named), environ)


def fetch_properties(uri: str, environ: Mapping[str, str]) -> bytes | None:
    """Get the object at an address; see `Fetch`."""
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
        found = storage.get(f"{place.prefix}{name}")
    except StoreRefused as exc:
        raise SettingsError(f"{uri}: {exc}", next_step=_NEXT) from exc
    return None if found is None else found.body
