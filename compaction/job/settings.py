"""What the nightly job takes from the properties file of the consumer: where the archive is, and whose it is.

The file is checked by `minutebook consume`; here only the names that the job needs are read, the rest is left alone.
The environment overrides `minutebook.*` as it does there.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from archive.errors import SettingsError
from archive.properties_file import read_properties
from archive.store.places import StorePrefix
from archive.store.storage import Address

_ARN: Final = re.compile(r"arn:[^:]+:kinesis:([^:]+):[0-9]+:stream/([a-zA-Z0-9_.-]+)")
_OVERRIDES: Final = {
    "minutebook.bucket": "MINUTEBOOK_BUCKET",
    "minutebook.prefix": "MINUTEBOOK_PREFIX",
    "minutebook.s3Endpoint": "MINUTEBOOK_S3_ENDPOINT",
}


class JobSettings(NamedTuple):
    """Where the archive, its stream and its lease table are. `prefix` is empty or ends in `/`."""

    stream_name: str
    application_name: str
    region: str
    bucket: str
    prefix: str
    s3_endpoint: str | None
    kinesis_endpoint: str | None
    dynamodb_endpoint: str | None
    source: str
    """The file's path as it was given: the commands in findings name it."""

    @property
    def archive(self) -> StorePrefix:
        """Where the segments are."""
        return StorePrefix(Address(self.bucket, "", self.region, self.s3_endpoint), self.prefix)


def load_job_settings(path: Path, environ: Mapping[str, str]) -> JobSettings:
    """Read the file.

    Raises:
        SettingsError: it cannot be read, or a name that the job needs is missing; all of them at once.
    """
    values = dict(read_properties(path).values)
    for name, variable in _OVERRIDES.items():
        if environ.get(variable):
            values[name] = environ[variable]
    arn = _ARN.fullmatch(values.get("streamArn", ""))
    stream = values.get("streamName") or (arn[2] if arn else "")
    region = (
        values.get("regionName")
        or (arn[1] if arn else "")
        or environ.get("AWS_REGION")
        or environ.get("AWS_DEFAULT_REGION", "")
    )
    prefix = values.get("minutebook.prefix", "")
    needed = {
        "streamName (or streamArn)": stream,
        "applicationName": values.get("applicationName"),
        "regionName": region,
        "minutebook.bucket": values.get("minutebook.bucket"),
    }
    errors = [f"{name} is missing" for name, value in needed.items() if not value]
    if prefix and not prefix.endswith("/"):
        errors.append(f"minutebook.prefix must end in '/': write {prefix}/")
    if errors:
        raise SettingsError(
            "\n  - ".join([f"{path}: {len(errors)} error(s) in the settings", *errors]),
            next_step="correct the names; minutebook doctor checks the whole file",
        )
    return JobSettings(
        stream_name=stream,
        application_name=values["applicationName"],
        region=region,
        bucket=values["minutebook.bucket"],
        prefix=prefix,
        s3_endpoint=values.get("minutebook.s3Endpoint"),
        kinesis_endpoint=values.get("kinesisEndpoint"),
        dynamodb_endpoint=values.get("dynamoDBEndpoint"),
        source=str(path),
    )
