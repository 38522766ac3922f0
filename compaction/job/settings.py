"""The nightly job's settings, from the consumer's properties file."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from compaction.columns.decode.registered import SchemaPlace
from compaction.stream.kinesis import StreamAddress
from minutebook.archive_settings import ArchiveSettings, read_archive_settings, read_texts
from minutebook.errors import SettingsError
from minutebook.format.payload import NumberPaths
from minutebook.kcl_tables import LEASES, kcl_tables
from minutebook.properties_file import PropertiesFile, Source
from minutebook.published.generation import OUTPUT_FOLDER
from minutebook.remote_properties import Fetch, fetch_properties
from minutebook.store.places import StorePrefix, parse_place

LOOPBACK: Final = "127.0.0.1"
_YEAR: Final = re.compile(r"[0-9]{4}/")


@dataclass(frozen=True, kw_only=True)
class JobSettings(ArchiveSettings):
    """Where the archive, its stream and its lease table are, and defaults of options."""

    kinesis_endpoint: str | None
    dynamodb_endpoint: str | None
    lease_table: str
    """KCL's table of the application's leases."""
    path: str | None
    """The properties file, as the user named it: commands in findings repeat it. None: the environment was read."""
    columns: Path | None = None
    """The file of the payloads' columns."""
    glue_endpoint: str | None = None
    """Where the registry of schemas is; None: Glue in the stream's region."""
    event_time: str | None = None
    """The path of an event's time in its payload."""
    event_window: int | None = None
    """How many days before its arrival an event may lie."""
    numbers: NumberPaths | None = None
    """By what the consumer's watermarks know a producer's records."""
    linger_seconds: float = 5
    """How long processors wait behind a minute before they commit it."""
    metrics_host: str = LOOPBACK
    """The address at which a service serves its metrics."""
    stem: str = ""
    """The stem of the file, if it is one of a folder: `path` is the folder then."""
    metrics: str | None = None
    """`emf`: write each day's verdict to the log for CloudWatch, too."""

    @property
    def audit_command(self) -> str:
        """The command line that audits this archive, without options."""
        return self._command("audit")

    @property
    def compact_command(self) -> str:
        """The command line that publishes days of this archive, without options."""
        return self._command("compact")

    def _command(self, name: str) -> str:
        words = [*([] if self.path is None else [self.path]), *(["--stream", self.stem] if self.stem else [])]
        return " ".join(["minutebook", name, *map(shlex.quote, words)])

    @property
    def stream(self) -> StreamAddress:
        """The address of the stream."""
        return StreamAddress(self.stream_name, self.region, self.kinesis_endpoint, self.access)

    def schemas(self, out: StorePrefix) -> SchemaPlace:
        """Return where schemas of a registry are found for what is published at `out`."""
        return SchemaPlace(self.region, self.glue_endpoint, self.access, out)

    def output(self, uri: str | None) -> StorePrefix:
        """Return where days are published: at `uri`, or `_parquet/` beside the archive; raises SettingsError."""
        if uri is None:
            return StorePrefix(self.archive.address, f"{self.prefix}{OUTPUT_FOLDER}")
        return self.below(uri)

    def below(self, uri: str) -> StorePrefix:
        """Return the place at `uri`; of a stream of a folder its application's folder there; raises SettingsError."""
        place = self.place(uri)
        return place._replace(prefix=f"{place.prefix}{self.application_name}/") if self.stem else place

    def place(self, uri: str) -> StorePrefix:
        """Return the place at `uri`, whichever stream it is for; raises SettingsError."""
        return parse_place(uri, self.region, self.s3_endpoint, self.access, archive_bucket=self.bucket)


def check_apart(out: StorePrefix, archive: StorePrefix, *, option: str = "--out") -> None:
    """Raise SettingsError if `out` is among the raw segments: the prefix itself, or a year of it.

    A separate folder below the prefix is allowed: a LIST of a minute does not return it.
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


def load_job_settings(file: Source, environ: Mapping[str, str], fetch: Fetch = fetch_properties) -> JobSettings:
    """Read the properties file, which may be at `s3://`, or the environment; raises SettingsError with all errors."""
    texts = read_texts(file, environ, fetch)
    archive = read_archive_settings(texts, environ)
    sequence, key = texts.parsed("producerSequence"), texts.parsed("producerKey")
    columns = texts.parsed("columns")
    settings = JobSettings(
        **vars(archive),
        kinesis_endpoint=texts.values.get("kinesisEndpoint"),
        dynamodb_endpoint=texts.values.get("dynamoDBEndpoint"),
        lease_table=kcl_tables(archive.application_name, texts.values)[LEASES],
        path=_named(file),
        stem=file.stem if isinstance(file, PropertiesFile) else "",
        numbers=None if sequence is None else NumberPaths(sequence, key),
        metrics=texts.parsed("metrics"),
        glue_endpoint=texts.parsed("glueEndpoint"),
        columns=None if columns is None else Path(columns),
        event_time=texts.parsed("eventTime"),
        event_window=texts.parsed("eventWindow"),
        metrics_host=texts.parsed("metricsHost", LOOPBACK),
        linger_seconds=texts.parsed("lingerSeconds", 5.0),
    )
    texts.check()
    return settings


def _named(file: Source) -> str | None:
    """Return what a command line names: the file, or the folder that it is in."""
    return file.folder if isinstance(file, PropertiesFile) else None if file is None else str(file)
