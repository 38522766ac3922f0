"""The location and the owner of an archive, read from the consumer's properties file.

Names are those that `minutebook consume` knows, and an unknown one is an error here, too: with a misspelled prefix a
reader would look at another archive. Readers parse the properties that they use. The environment overrides
`minutebook.*` as it does for the consumer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from minutebook.aws.access import Access, read_access
from minutebook.errors import SettingsError
from minutebook.owner import StreamOwner, parse_stream_arn
from minutebook.properties_file import Source
from minutebook.remote_properties import Fetch, fetch_properties, read_job_properties
from minutebook.settings.kcl_properties import refuse
from minutebook.settings.names import OUR_PROPERTIES, OURS, is_known, overrides, unknown
from minutebook.store.places import StorePrefix
from minutebook.store.storage import Address
from minutebook.wording import ITEM

_KCL: Final = ("streamName", "applicationName", "regionName", "kinesisEndpoint", "dynamoDBEndpoint", "tableName")
"""The properties of KCL that readers of the archive use."""


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
    """The texts of the file and the environment, by name; `variables` are those that come from the environment.

    Parsers append to `errors`.
    """

    values: Mapping[str, str]
    errors: list[str]
    source: str
    variables: Mapping[str, str]

    @property
    def ours(self) -> dict[str, str]:
        """The values of `minutebook.*`, by their names without it."""
        return {name.removeprefix(OURS): text for name, text in self.values.items() if name.startswith(OURS)}

    def parsed(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - of the property's type
        """Return the value of `minutebook.<name>`; the default where it is not set, or does not parse."""
        where = OURS + name
        if where not in self.values:
            return default
        try:
            return OUR_PROPERTIES[name](self.values[where])
        except ValueError as exc:
            self.errors.append(f"{self.variables.get(where, where)} {exc}")
            return default

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


def read_texts(file: Source, environ: Mapping[str, str], fetch: Fetch) -> SettingsTexts:
    """Read the texts; environment variables override the properties of the file. Names that are none are errors."""
    properties = read_job_properties(file, environ, fetch)
    texts, errors = overrides(environ)
    errors = [*properties.errors, *properties.override_errors, *errors]
    errors += [unknown(name) for name in properties.values if not is_known(name)]
    values = dict(properties.values) | {OURS + name: text for name, (_, text) in texts.items()}
    errors += filter(None, [refuse(name, values[name]) for name in _KCL if name in values])
    return SettingsTexts(values, errors, properties.source, {OURS + name: of for name, (of, _) in texts.items()})


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
    prefix = texts.parsed("prefix", "")
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
    return ArchiveSettings(
        stream_name=stream,
        application_name=values.get("applicationName", ""),
        region=region,
        bucket=texts.parsed("bucket", ""),
        prefix=prefix,
        s3_endpoint=texts.parsed("s3Endpoint"),
        access=access,
        account=arn.account if arn else "",
    )
