"""The nightly job's settings, from the consumer's properties file."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import jmespath

from compaction.columns.decode.registered import SchemaPlace
from compaction.stream.kinesis import StreamAddress
from minutebook.archive_settings import ArchiveSettings, read_archive_settings, read_texts
from minutebook.errors import SettingsError
from minutebook.format.payload import NumberPaths, ProducerNumbers
from minutebook.kcl_tables import LEASES, kcl_tables
from minutebook.properties_file import PropertiesFile, Source
from minutebook.published.generation import OUTPUT_FOLDER
from minutebook.remote_properties import Fetch, fetch_properties
from minutebook.store.places import StorePrefix, parse_place

LOOPBACK: Final = "127.0.0.1"
_NAMES: Final = (
    "metrics",
    "columns",
    "eventTime",
    "eventWindow",
    "producerSequence",
    "producerKey",
    "lingerSeconds",
    "metricsHost",
    "glueEndpoint",
)
_SECONDS: Final = re.compile(r"[0-9]{1,3}(\.[0-9]+)?", re.ASCII)
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
    texts = read_texts(file, environ, fetch, _NAMES)
    archive = read_archive_settings(texts, environ)
    ours = texts.ours
    if ours.get("metrics") not in {None, "emf"}:
        texts.errors.append(f"minutebook.metrics must be emf, not {ours['metrics']!r}")
    if not ours.get("eventWindow", "0").isdecimal():
        texts.errors.append(f"minutebook.eventWindow must be a number of days, not {ours['eventWindow']!r}")
    if _SECONDS.fullmatch(ours.get("lingerSeconds", "5")) is None:
        texts.errors.append(f"minutebook.lingerSeconds must be a number of seconds, not {ours['lingerSeconds']!r}")
    numbers = NumberPaths(ours["producerSequence"], ours.get("producerKey")) if ours.get("producerSequence") else None
    try:
        ProducerNumbers(numbers or NumberPaths("a"))
    except (jmespath.exceptions.JMESPathError, RecursionError) as exc:
        reason = " ".join(str(exc).split())
        texts.errors.append(f"minutebook.producerSequence, producerKey: not JMESPath expressions: {reason}")
    texts.check()
    return JobSettings(
        **vars(archive),
        kinesis_endpoint=texts.values.get("kinesisEndpoint"),
        dynamodb_endpoint=texts.values.get("dynamoDBEndpoint"),
        lease_table=kcl_tables(archive.application_name, texts.values)[LEASES],
        path=_named(file),
        stem=file.stem if isinstance(file, PropertiesFile) else "",
        numbers=numbers,
        metrics=ours.get("metrics"),
        glue_endpoint=ours.get("glueEndpoint") or None,
        columns=Path(ours["columns"]) if ours.get("columns") else None,
        event_time=ours.get("eventTime") or None,
        event_window=int(ours["eventWindow"]) if ours.get("eventWindow") else None,
        metrics_host=ours.get("metricsHost") or LOOPBACK,
        linger_seconds=float(ours.get("lingerSeconds", "5")),
    )


def _named(file: Source) -> str | None:
    """Return what a command line names: the file, or the folder that it is in."""
    return file.folder if isinstance(file, PropertiesFile) else None if file is None else str(file)
