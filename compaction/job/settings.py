"""What the nightly job takes from the properties file of the consumer, beside what says where the archive is."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from compaction.stream.kinesis import StreamAddress
from minutebook.archive_settings import ArchiveSettings, read_archive_settings, read_texts
from minutebook.errors import SettingsError
from minutebook.remote_properties import Fetch, fetch_properties
from minutebook.store.places import StorePrefix, parse_place

_FOLDER: Final = "_parquet"
_NAMES: Final = ("metrics", "columns", "eventTime", "eventWindow")
_YEAR: Final = re.compile(r"[0-9]{4}/")


@dataclass(frozen=True, kw_only=True)
class JobSettings(ArchiveSettings):
    """Where the archive, its stream and its lease table are."""

    kinesis_endpoint: str | None
    dynamodb_endpoint: str | None
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
    def stream(self) -> StreamAddress:
        """Where the stream is."""
        return StreamAddress(self.stream_name, self.region, self.kinesis_endpoint, self.access)

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
    texts = read_texts(file, environ, fetch, _NAMES)
    archive = read_archive_settings(texts, environ)
    ours = texts.ours
    if ours.get("metrics") not in {None, "emf"}:
        texts.errors.append(f"minutebook.metrics must be emf, not {ours['metrics']!r}")
    if not ours.get("eventWindow", "0").isdecimal():
        texts.errors.append(f"minutebook.eventWindow must be a number of days, not {ours['eventWindow']!r}")
    texts.check()
    return JobSettings(
        **vars(archive),
        kinesis_endpoint=texts.values.get("kinesisEndpoint"),
        dynamodb_endpoint=texts.values.get("dynamoDBEndpoint"),
        path=None if file is None else str(file),
        metrics=ours.get("metrics"),
        columns=Path(ours["columns"]) if ours.get("columns") else None,
        event_time=ours.get("eventTime") or None,
        event_window=int(ours["eventWindow"]) if ours.get("eventWindow") else None,
    )
