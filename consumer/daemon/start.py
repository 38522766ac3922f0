"""Where KCL starts: agreed on once beside the archive, and put into the daemon's file before each of its starts.

A daemon that is started again may find other lease rows than the one before it, and a stored time that has run out of
retention meanwhile: what opens every row that is there now is decided now (`archived.application.kcl_start`).
"""

from collections.abc import Callable
from pathlib import Path

import structlog

from consumer.archived.application import (
    KclStart,
    kcl_start,
    propose_start,
    settle_application,
    settle_first_shards,
    warn_of_compression,
)
from consumer.daemon.properties import write_effective
from consumer.leases.rows import LeaseTable
from consumer.settings.settings import LoadedSettings, Settings
from consumer.settings.values import start_text
from consumer.stream.kinesis import KinesisStream
from consumer.stream.port import StreamPort
from minutebook.aws.clients import make_kinesis_client, make_s3_client
from minutebook.clock import Clock, new_id, new_random
from minutebook.compression import Compression
from minutebook.format.document import FORMAT
from minutebook.format.markers import ApplicationRecord
from minutebook.retry import Backoff
from minutebook.store.retrying import RetryingStore
from minutebook.store.s3 import S3Store


def stream_of(settings: Settings, clock: Clock) -> KinesisStream:
    """Return the stream of these settings."""
    return KinesisStream(
        lambda: make_kinesis_client(settings.region, settings.kinesis_endpoint, settings.access),
        settings.stream_name,
        clock,
        new_random(),
    )


def settle_start(settings: Settings, stream: StreamPort, clock: Clock) -> ApplicationRecord:
    """Agree with every other writer on the start, by the record beside the archive (see `archived.application`)."""
    store = S3Store(make_s3_client(settings.region, settings.s3_endpoint, settings.access), settings.bucket)
    identity = stream.describe()
    now_ms = clock.now_ms()
    proposal = ApplicationRecord(
        format=FORMAT,
        stream_arn=identity.arn,
        stream_created_ms=identity.created_ms,
        application=settings.application_name,
        start=start_text(settings.start),
        start_at_ms=propose_start(settings.start, identity, settings.max_segment_age_seconds, now_ms),
        writer=new_id(),
        written_at_ms=now_ms,
    ).compressed(settings.compression or Compression.GZIP)
    backoff = Backoff(clock, new_random(), budget_seconds=settings.store_timeout_seconds)
    retrying = RetryingStore(store, lambda: backoff)
    record = settle_application(retrying, settings.prefix, identity, proposal)
    settle_first_shards(retrying, settings.prefix, stream, record, clock, new_id, service_ms=stream.service_ms())
    warn_of_compression(record, settings.compression)
    if record.start != proposal.start:
        structlog.get_logger().warning(
            "start_settled_earlier",
            setting=proposal.start,
            stored=record.start,
            next_step="the archive keeps the start it was begun with; use a new prefix for another one",
        )
    return record


def as_settled(loaded: LoadedSettings, record: ApplicationRecord) -> LoadedSettings:
    """Return what processors are told: what is stored, for none of them to report the difference again."""
    if "compression" not in loaded.ours:
        return loaded
    return loaded._replace(ours={**loaded.ours, "compression": record.compression.value})


class DaemonFile:
    """The daemon's properties file, written anew before each start; `values_from` makes it of KCL's start."""

    def __init__(self, path: Path, values_from: Callable[[KclStart], dict[str, str]]) -> None:
        self.path = path
        self._values_from = values_from

    def write(self, start: KclStart) -> None:
        """Write it.

        Raises:
            SettingsError: it cannot be written.
        """
        write_effective(self.path, self._values_from(start))


class StartChooser:
    """Chooses KCL's start before each start of the daemon."""

    def __init__(
        self, record: ApplicationRecord, stream: StreamPort, table: LeaseTable, file: DaemonFile, clock: Clock
    ) -> None:
        self._record = record
        self._stream = stream
        self._table = table
        self._file = file
        self._clock = clock
        self._chosen: KclStart | None = None

    def prepare(self) -> None:
        """Write the daemon's file for the start that the rows ask for now.

        Raises:
            StreamUnavailable, StreamRefused, TableUnavailable, TableRefused: it cannot be known.
            SettingsError: the file cannot be written.
        """
        start = self._choose()
        self._file.write(start)
        if start != self._chosen:
            structlog.get_logger().info(
                "start_settled", start=self._record.start, at_seconds=start.at_seconds, stream=self._record.stream_arn
            )
        self._chosen = start

    def _choose(self) -> KclStart:
        identity, now_ms = self._stream.describe(), self._clock.now_ms()
        plain = kcl_start(self._record, identity, now_ms)
        with_rows = kcl_start(self._record, identity, now_ms, has_timestamp_rows=True)
        if plain == with_rows:
            return plain
        rows = self._table.read()
        return with_rows if rows is not None and rows.has_timestamp_rows else plain
