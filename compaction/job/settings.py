"""What the nightly job takes from the properties file of the consumer: where the archive is, and whose it is.

The file is checked by `minutebook consume`; here only the names that the job needs are read, the rest is left alone.
The environment overrides `minutebook.*` as it does there.
"""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from archive.access import ACCESS_PROPERTIES, Access, read_access
from archive.errors import SettingsError
from archive.store.places import StorePrefix, parse_place
from archive.store.storage import Address
from compaction.inventory.owner import StreamOwner, parse_stream_arn
from compaction.job.properties import Fetch, fetch_properties, read_job_properties
from compaction.stream.kinesis import StreamAddress

_OURS: Final = "minutebook."
_FOLDER: Final = "_parquet"
_OVERRIDES: Final = {
    f"{_OURS}{name}": "MINUTEBOOK_" + re.sub(r"(?=[A-Z])", "_", name).upper()
    for name in (
        "bucket",
        "prefix",
        "s3Endpoint",
        "metrics",
        "columns",
        "eventTime",
        "eventWindow",
        *ACCESS_PROPERTIES,
    )
}


_YEAR: Final = re.compile(r"[0-9]{4}/")


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
    access: Access
    account: str
    """The stream's account, where the file names it by its ARN; else empty."""
    path: str | None
    """The file as it was given: the commands in findings name it. None: the environment holds the settings."""
    columns: Path | None = None
    """The file of the payloads' columns."""
    event_time: str | None = None
    """Where the time of an event is in its payload."""
    event_window: int | None = None
    """How many days before its arrival an event may lie."""
    metrics: str | None = None
    """`emf`: the verdict of each day is told to CloudWatch, too."""

    @property
    def audit_command(self) -> str:
        """What a person types to audit this archive, up to its options."""
        return " ".join(["minutebook", "audit", *([] if self.path is None else [shlex.quote(self.path)])])

    @property
    def owner(self) -> StreamOwner:
        """The stream that the archive must belong to."""
        return StreamOwner(self.stream_name, self.region, self.account)

    @property
    def stream(self) -> StreamAddress:
        """Where the stream is."""
        return StreamAddress(self.stream_name, self.region, self.kinesis_endpoint, self.access)

    @property
    def archive(self) -> StorePrefix:
        """Where the segments are."""
        return StorePrefix(Address(self.bucket, "", self.region, self.s3_endpoint, self.access), self.prefix)

    def output(self, uri: str | None) -> StorePrefix:
        """Return where days are published: `_parquet/` beside the archive unless `uri` says; raises SettingsError."""
        if uri is None:
            return StorePrefix(self.archive.address, f"{self.prefix}{_FOLDER}/")
        return parse_place(uri, self.region, self.s3_endpoint, self.access, archive_bucket=self.bucket)


def check_apart(out: StorePrefix, archive: StorePrefix, *, option: str = "--out") -> None:
    """Raise SettingsError where something would be written among the raw segments: below the prefix, or a minute.

    A folder of its own below the prefix is well: a LIST of a minute does not see it.
    """
    if out.address != archive.address or not out.prefix.startswith(archive.prefix):
        return
    below = out.prefix.removeprefix(archive.prefix)
    if not below or _YEAR.match(below):
        raise SettingsError(
            f"{option} is where the raw segments are: s3://{archive.address.bucket}/{out.prefix}",
            next_step="name a folder of its own"
            + ("; without --out it is _parquet/ beside them" * (option == "--out")),
        )


def load_job_settings(
    file: Path | str | None, environ: Mapping[str, str], fetch: Fetch = fetch_properties
) -> JobSettings:
    """Read the file, which may lie at `s3://`, or what the environment holds instead.

    Raises:
        SettingsError: it cannot be read, or a name that the job needs is missing; all of them at once.
        StoreUnavailable: it lies on S3, and S3 does not answer.
    """
    found = read_job_properties(file, environ, fetch)
    values = dict(found.values)
    for name, variable in _OVERRIDES.items():
        if environ.get(variable):
            values[name] = environ[variable]
    arn = parse_stream_arn(values.get("streamArn", ""))
    stream = values.get("streamName") or (arn.name if arn else "")
    region = (
        values.get("regionName")
        or (arn.region if arn else "")
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
    errors = [*found.override_errors, *(f"{name} is missing" for name, value in needed.items() if not value)]
    ours = {name.removeprefix(_OURS): text for name, text in values.items() if name.startswith(_OURS)}
    access = read_access(ours, errors)
    if arn and region != arn.region:
        errors.append(f"regionName={region}, and streamArn lies in {arn.region}: remove regionName")
    if ours.get("metrics") not in {None, "emf"}:
        errors.append(f"minutebook.metrics must be emf, not {ours['metrics']!r}")
    if not ours.get("eventWindow", "0").isdecimal():
        errors.append(f"minutebook.eventWindow must be a number of days, not {ours['eventWindow']!r}")
    if prefix and not prefix.endswith("/"):
        errors.append(f"minutebook.prefix must end in '/': write {prefix}/")
    if errors:
        raise SettingsError(
            "\n  - ".join([f"{found.source}: {len(errors)} error(s) in the settings", *errors]),
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
        access=access,
        account=arn.account if arn else "",
        path=None if file is None else str(file),
        metrics=ours.get("metrics"),
        columns=Path(values["minutebook.columns"]) if values.get("minutebook.columns") else None,
        event_time=ours.get("eventTime") or None,
        event_window=int(ours["eventWindow"]) if ours.get("eventWindow") else None,
    )
