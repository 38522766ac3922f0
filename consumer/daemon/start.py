"""Where KCL starts: settled once beside the archive, and written into the daemon's file before each of its starts.

A restarted daemon may find other lease rows, and a stored time that retention has passed meanwhile. So before each
start `archived.application.kcl_start` chooses the position that can open every present row.
"""

from collections.abc import Callable

import structlog

from consumer.archived import application
from consumer.leases.rows import LeaseTable
from consumer.settings.settings import LoadedSettings, Settings
from consumer.stream.port import StreamPort
from minutebook.aws.clients import make_s3_client
from minutebook.clock import Clock, new_id, new_random
from minutebook.compression import Compression
from minutebook.format.document import FORMAT
from minutebook.format.markers import ApplicationRecord
from minutebook.retry import Backoff
from minutebook.settings.values import start_text
from minutebook.store.retrying import RetryingStore
from minutebook.store.s3 import S3Store


def settle_start(settings: Settings, stream: StreamPort, clock: Clock) -> ApplicationRecord:
    """Settle the start with every other writer, by the record beside the archive (see `archived.application`)."""
    store = S3Store(make_s3_client(settings.region, settings.s3_endpoint, settings.access), settings.bucket)
    identity = stream.describe()
    now_ms = clock.now_ms()
    proposal = ApplicationRecord(
        format=FORMAT,
        stream_arn=identity.arn,
        stream_created_ms=identity.created_ms,
        application=settings.application_name,
        start=start_text(settings.start),
        start_at_ms=application.propose_start(settings.start, identity, settings.max_segment_age_seconds, now_ms),
        writer=new_id(),
        written_at_ms=now_ms,
    ).compressed(settings.compression or Compression.GZIP)
    backoff = Backoff(clock, new_random(), budget_seconds=settings.store_timeout_seconds)
    retrying = RetryingStore(store, lambda: backoff)
    record = application.settle_application(retrying, settings.prefix, identity, proposal)
    application.settle_first_shards(
        retrying, settings.prefix, stream, record, clock, new_id, service_ms=stream.service_ms()
    )
    application.warn_of_compression(record, settings.compression)
    if record.start != proposal.start:
        structlog.get_logger().warning(
            "start_settled_earlier",
            setting=proposal.start,
            stored=record.start,
            next_step="the archive keeps the start it was begun with; use a new prefix for another one",
        )
    return record


def as_settled(loaded: LoadedSettings, record: ApplicationRecord) -> LoadedSettings:
    """Return the processors' settings: with the stored compression, so that they do not warn of the difference."""
    if "compression" not in loaded.ours:
        return loaded
    return loaded._replace(ours={**loaded.ours, "compression": record.compression.value})


class StartChooser:
    """Chooses KCL's start before each start of the daemon; `write` writes the daemon's file with it."""

    def __init__(
        self,
        record: ApplicationRecord,
        stream: StreamPort,
        table: LeaseTable,
        write: Callable[[application.KclStart], None],
        clock: Clock,
    ) -> None:
        self._record = record
        self._stream = stream
        self._table = table
        self._write = write
        self._clock = clock
        self._chosen: application.KclStart | None = None

    def prepare(self) -> None:
        """Write the daemon's file for the present rows; raises the errors of stream, table and `write`."""
        start = self._choose()
        self._write(start)
        if start != self._chosen:
            structlog.get_logger().info(
                "start_settled", start=self._record.start, at_seconds=start.at_seconds, stream=self._record.stream_arn
            )
        self._chosen = start

    def _choose(self) -> application.KclStart:
        identity, now_ms = self._stream.describe(), self._clock.now_ms()
        plain = application.kcl_start(self._record, identity, now_ms)
        with_rows = application.kcl_start(self._record, identity, now_ms, has_timestamp_rows=True)
        if plain == with_rows:
            return plain
        rows = self._table.read()
        return with_rows if rows is not None and rows.has_timestamp_rows else plain
