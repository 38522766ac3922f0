"""The location and the owner of an archive, read from the consumer's properties file.

`minutebook consume` validates the whole file; readers of the archive parse only the properties below. The environment
overrides `minutebook.*` as it does for the consumer.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from minutebook.aws.access import ACCESS_PROPERTIES, Access, read_access
from minutebook.errors import SettingsError
from minutebook.owner import StreamOwner, parse_stream_arn
from minutebook.properties_file import Source
from minutebook.remote_properties import Fetch, fetch_properties, read_job_properties
from minutebook.store.places import StorePrefix
from minutebook.store.storage import Address
from minutebook.wording import ITEM

_OURS: Final = "minutebook."
_NAMES: Final = ("bucket", "prefix", "s3Endpoint", *ACCESS_PROPERTIES)


@dataclass(frozen=True, kw_only=True)
class ArchiveSettings:
    """Bucket and prefix of the archive, its stream and application. `prefix` is empty or ends in `/`."""

    stream_name: str
    application_name: str
    region: str
    bucket: str
    prefix: str
    s3_endpoint: str | None
    access: Access
    account: str
    """The stream's account if the file names the stream by its ARN; else empty."""

    @property
    def owner(self) -> StreamOwner:
        """The stream that the archive must belong to."""
        return StreamOwner(self.stream_name, self.region, self.account)

    @property
    def archive(self) -> StorePrefix:
        """The store and prefix of the segments."""
        return StorePrefix(Address(self.bucket, "", self.region, self.s3_endpoint, self.access), self.prefix)


class SettingsTexts(NamedTuple):
    """The texts of the file and the environment, by name. Parsers append to `errors`."""

    values: Mapping[str, str]
    errors: list[str]
    source: str

    @property
    def ours(self) -> dict[str, str]:
        """The values of `minutebook.*`, by their names without it."""
        return {name.removeprefix(_OURS): text for name, text in self.values.items() if name.startswith(_OURS)}

    def check(self) -> None:
        """Raise SettingsError with all errors at once."""
        if self.errors:
            raise SettingsError(
                ITEM.join([f"{self.source}: {len(self.errors)} error(s) in the settings", *self.errors]),
                next_step="correct the names; minutebook doctor checks the whole file",
            )


def load_archive_settings(
    file: Source, environ: Mapping[str, str], fetch: Fetch = fetch_properties
) -> ArchiveSettings:
    """Read the settings from a file, which may lie at `s3://`, or the environment; SettingsError names all errors."""
    texts = read_texts(file, environ, fetch)
    settings = read_archive_settings(texts, environ)
    texts.check()
    return settings


def read_texts(file: Source, environ: Mapping[str, str], fetch: Fetch, names: Sequence[str] = ()) -> SettingsTexts:
    """Read the texts; environment variables override the properties of an archive and those in `names`."""
    properties = read_job_properties(file, environ, fetch)
    values = dict(properties.values)
    for name in (*_NAMES, *names):
        variable = "MINUTEBOOK_" + re.sub(r"(?=[A-Z])", "_", name).upper()
        if environ.get(variable):
            values[f"{_OURS}{name}"] = environ[variable]
    return SettingsTexts(values, list(properties.override_errors), properties.source)


def read_archive_settings(texts: SettingsTexts, environ: Mapping[str, str]) -> ArchiveSettings:
    """Parse the archive's settings; call `texts.check()` before using them."""
    values, errors = texts.values, texts.errors
    arn = parse_stream_arn(values.get("streamArn", ""))
    stream = values.get("streamName") or (arn.name if arn else "")
    region = (
        values.get("regionName")
        or (arn.region if arn else "")
        or environ.get("AWS_REGION")
        or environ.get("AWS_DEFAULT_REGION", "")
    )
    prefix = values.get("minutebook.prefix", "")
    required = {
        "streamName (or streamArn)": stream,
        "applicationName": values.get("applicationName"),
        "regionName": region,
        "minutebook.bucket": values.get("minutebook.bucket"),
    }
    errors += [f"{name} is missing" for name, value in required.items() if not value]
    access = read_access(texts.ours, errors)
    if arn and region != arn.region:
        errors.append(f"regionName={region}, and streamArn lies in {arn.region}: remove regionName")
    if prefix and not prefix.endswith("/"):
        errors.append(f"minutebook.prefix must end in '/': write {prefix}/")
    return ArchiveSettings(
        stream_name=stream,
        application_name=values.get("applicationName", ""),
        region=region,
        bucket=values.get("minutebook.bucket", ""),
        prefix=prefix,
        s3_endpoint=values.get("minutebook.s3Endpoint"),
        access=access,
        account=arn.account if arn else "",
    )
