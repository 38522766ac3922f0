"""The nightly job's settings, from the consumer's properties file."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import jmespath

from compaction.stream.kinesis import StreamAddress
from minutebook.archive_settings import ArchiveSettings, read_archive_settings, read_texts
from minutebook.errors import SettingsError
from minutebook.format.payload import NumberPaths, ProducerNumbers
from minutebook.remote_properties import Fetch, fetch_properties
from minutebook.store.places import StorePrefix, parse_place

_FOLDER: Final = "_parquet"
_NAMES: Final = ("metrics", "columns", "eventTime", "eventWindow", "producerSequence", "producerKey")
_YEAR: Final = re.compile(r"[0-9]{4}/")


@dataclass(frozen=True, kw_only=True)
class JobSettings(ArchiveSettings):
    """Where the archive, its stream and its lease table are, and defaults of options."""

    kinesis_endpoint: str | None
    dynamodb_endpoint: str | None
    path: str | None
    """The properties file, as the user named it: commands in findings repeat it. None: the environment was read."""
    columns: Path | None = None
    """The file of the payloads' columns."""
    event_time: str | None = None
    """The path of an event's time in its payload."""
    event_window: int | None = None
    """How many days before its arrival an event may lie."""
    numbers: NumberPaths | None = None
    """By what the consumer's watermarks know a producer's records."""
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
        return " ".join(["minutebook", name, *([] if self.path is None else [shlex.quote(self.path)])])

    @property
    def stream(self) -> StreamAddress:
        """The address of the stream."""
        return StreamAddress(self.stream_name, self.region, self.kinesis_endpoint, self.access)

    def output(self, uri: str | None) -> StorePrefix:
        """Return where days are published: at `uri`, or `_parquet/` beside the archive; raises SettingsError."""
        if uri is None:
            return StorePrefix(self.archive.address, f"{self.prefix}{_FOLDER}/")
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


def load_job_settings(
    file: Path | str | None, environ: Mapping[str, str], fetch: Fetch = fetch_properties
) -> JobSettings:
    """Read the properties file, which may be at `s3://`, or the environment; raises SettingsError with all errors."""
    texts = read_texts(file, environ, fetch, _NAMES)
    archive = read_archive_settings(texts, environ)
    ours = texts.ours
    if ours.get("metrics") not in {None, "emf"}:
        texts.errors.append(f"minutebook.metrics must be emf, not {ours['metrics']!r}")
    if not ours.get("eventWindow", "0").isdecimal():
        texts.errors.append(f"minutebook.eventWindow must be a number of days, not {ours['eventWindow']!r}")
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
        path=None if file is None else str(file),
        numbers=numbers,
        metrics=ours.get("metrics"),
        columns=Path(ours["columns"]) if ours.get("columns") else None,
        event_time=ours.get("eventTime") or None,
        event_window=int(ours["eventWindow"]) if ours.get("eventWindow") else None,
    )
