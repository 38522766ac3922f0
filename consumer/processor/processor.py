"""The record processor of one shard: KCL's callbacks, in the order that exactly-once needs.

    initialize          check where the chain ends
    process_records     take records, commit what is due, checkpoint if due; write read marks for a quiet shard
    shutdown_requested  commit the buffer, checkpoint
    shard_ended         commit the buffer, prove the end, mark it, checkpoint SHARD_END
    lease_lost          fall silent: send no request to any service any more

Only the loss of the lease is caught here. Every other exception ends the process, and the daemon and its supervisor
start it again from the last checkpoint.
"""

import random
from dataclasses import dataclass

import structlog

from consumer.dedupe.deduplicator import ClaimMap
from consumer.dedupe.table import DedupeTable
from consumer.evidence.read_marks import ReadMarks
from consumer.evidence.worker_lock import NoLock, WorkerLock
from consumer.pipe.messages import Initialize, LeaseLostMessage
from consumer.processor.archiver import Archiver
from consumer.processor.checkpoints import IntervalCheckpoints
from consumer.processor.dedupe_start import DedupeStarter
from consumer.processor.protocol import DeliveredBatch, ShutdownInput
from consumer.processor.retention import RetentionGuard, TimeLeft
from consumer.processor.sequence_store import SequenceStore
from consumer.processor.shard_end import ShardEndProof
from consumer.processor.shard_start import ShardStarter
from consumer.services import Services
from consumer.settings.settings import Settings
from consumer.stream.port import StreamPort
from minutebook.clock import Clock, IdSource, PauseCountingClock, numbered_ids
from minutebook.errors import DeliveryDoubt, LeaseLost
from minutebook.format.keys import check_shard_id
from minutebook.store.objects import ObjectStore

SHUTDOWN_SECONDS = 22.0
"""The time for a stop: `shutdownGraceMillis` is 25 s, a graceful hand-over waits 30 s."""
ANSWER_SECONDS = 7.0
"""How long a processor waits for an answer of S3 or Kinesis before it sends the request again.

At a stop, three PUTs fit into the time; one that hung before the stop leaves time for two. A PUT whose answer comes
later was applied or not: the next one is answered 412, or makes the segment.
"""
SHARD_END_BUDGET_SECONDS = 120.0
_NEAR_RETENTION_LOG_SECONDS = 60.0
_HEARTBEAT_SECONDS = 5.0
"""How often an idle shard writes a line of progress."""


class Progress:
    """Logs the progress of one shard for its supervisor. Times of records are epoch milliseconds.

    The lines have level debug: under a supervisor a processor writes them at any `minutebook.logLevel`, and the
    supervisor passes on only what that level allows. One is written before anything that may block for long, so that
    the supervisor knows what a hanging processor holds.
    """

    def __init__(self, shard_id: str, clock: Clock) -> None:
        self._clock = clock
        self._oldest_ms: int | None = None
        self._state_at: float | None = None
        self._written_at = clock.monotonic()
        self._buffer_bytes = 0
        self._log = structlog.get_logger().bind(shard=shard_id)

    def received(self, arrival_ms: int) -> None:
        """Log the arrival of a batch's first record, before the batch is processed."""
        if self._oldest_ms is None:
            self._oldest_ms = arrival_ms
            self._log_state(0, None)
            self._state_at = None

    def lives(self) -> None:
        """Log a heartbeat in a long call, at most every 5 s, so that the supervisor does not report a hang."""
        if self._clock.monotonic() - self._written_at >= _HEARTBEAT_SECONDS:
            self._write(self._buffer_bytes, None)

    def settled(self, oldest_ms: int | None, buffer_bytes: int, behind_ms: int | None = None) -> None:
        """Log what is held at the end of a call: the oldest arrival (None: nothing), and the number of bytes.

        `behind_ms` is how far the call was behind the stream's tip, if the daemon knows.
        """
        now = self._clock.monotonic()
        if oldest_ms != self._oldest_ms or self._state_at is None or now - self._state_at >= _HEARTBEAT_SECONDS:
            self._oldest_ms = oldest_ms
            self._log_state(buffer_bytes, behind_ms)

    def _log_state(self, buffer_bytes: int, behind_ms: int | None) -> None:
        self._state_at, self._buffer_bytes = self._clock.monotonic(), buffer_bytes
        self._write(buffer_bytes, behind_ms)

    def _write(self, buffer_bytes: int, behind_ms: int | None) -> None:
        self._written_at = self._clock.monotonic()
        self._log.debug("progress", oldest_ms=self._oldest_ms, buffer_bytes=buffer_bytes, behind_ms=behind_ms)


class ShardProcessor:
    """kclpy's v3 interface for one shard. All I/O is passed in."""

    version = 3

    def __init__(
        self,
        settings: Settings,
        store: ObjectStore,
        stream: StreamPort,
        clock: Clock,
        rng: random.Random,
        new_id: IdSource,
        dedupe_table: DedupeTable | None = None,
        map_claims: ClaimMap | None = None,
        lock: WorkerLock | None = None,
    ) -> None:
        self._lock = lock or NoLock()
        self._dedupe_table = dedupe_table
        self._map_claims = map_claims
        # A process serves one shard once: readers of a segment compare its writer id with that of its predecessor.
        # Every age, budget and interval of a processor counts pauses of its machine.
        self._services = Services(settings, store, stream, PauseCountingClock(clock), rng, numbered_ids(new_id()))
        self._shard: _Shard | None = None
        self._silent = False

    def initialize(self, initialize_input: Initialize) -> None:
        """Check the stream, the archive and the checkpoint; `shard_start` says what is refused."""
        shard_id = check_shard_id(initialize_input.shard_id)
        services = self._services
        starter = ShardStarter(services, shard_id)
        asked_at = services.clock.monotonic()
        start = starter.start(initialize_input.sequence_number, initialize_input.sub_sequence_number or 0)
        sequences = SequenceStore(services, shard_id, start.compression)
        retention = RetentionGuard(
            services, shard_id, start.identity, asked_at=asked_at, is_young=start.evidence.is_young
        )
        dedupe = None
        if self._dedupe_table is not None:
            opener = DedupeStarter(
                services,
                self._dedupe_table,
                shard_id,
                lambda: retention.retention_ms,
                self._map_claims,
                compression=start.compression,
            )
            dedupe = opener.open(start.chain.tail)
        progress = Progress(shard_id, services.clock)
        self._shard = _Shard(
            Archiver(
                services,
                shard_id,
                sequences,
                start.chain,
                start.evidence,
                identity=start.identity,
                begun=start.begun,
                dedupe=dedupe,
                on_chain_start=starter.mark_start,
                on_piece=progress.lives,
            ),
            IntervalCheckpoints(services, shard_id, last=start.chain.archived_through),
            ShardEndProof(services, start.evidence),
            retention,
            ReadMarks(services, start.evidence, self._lock),
            progress,
        )
        structlog.get_logger().info(
            "shard_opened",
            shard=shard_id,
            after=str(start.chain.tail),
            continuity=start.chain.continuity,
            covered_until_ms=start.evidence.until_ms,
            arn=start.identity.arn,
        )

    def process_records(self, process_records_input: DeliveredBatch) -> None:
        """Take a batch. When this returns, every record of it is committed or held."""
        if self._silent:
            return
        shard = self._opened()
        archiver = shard.archiver
        delivery = process_records_input.delivery
        first, behind_ms = delivery.first, delivery.millis_behind_latest
        received_at = self._services.clock.monotonic()
        if first is not None:
            archiver.check_arrival(first.position, first.arrival_ms)
            shard.progress.received(first.arrival_ms)
        # Also without records: after an outage longer than retention, "caught up" proves nothing.
        if archiver.chain.is_unbroken or archiver.delivered is not None:
            shard.retention.check_unbroken(archiver.reached)
        left = None
        if first is not None:
            shard.retention.check_delivery(first)
            shard.retention.refresh()
            left = shard.retention.time_left(first.arrival_ms)
            shard.warn(left, self._services.clock.monotonic())
            archiver.take(delivery, received_at)
        shard.retention.caught_up(behind_ms, received_at, left)
        archiver.tick(is_fed=first is not None, near_retention=left is not None and left.is_near)
        shard.progress.settled(*archiver.held, behind_ms)
        try:
            shard.checkpoints.offer(process_records_input.checkpointer, archiver.chain.tail, archiver.delivered)
        except LeaseLost as exc:
            self._fall_silent(str(exc))
            return
        if first is not None or not archiver.is_empty:
            shard.read_marks.stop()
        else:
            shard.read_marks.tick(archiver.chain.tail)

    def lease_lost(self, _lease_lost_input: LeaseLostMessage) -> None:
        """Drop the held records. The new owner reads them again from the checkpoint."""
        self._fall_silent("KCL says that the lease is lost")

    def shutdown_requested(self, shutdown_requested_input: ShutdownInput) -> None:
        """Commit the held records and checkpoint them, within the daemon's grace period."""
        if self._silent:
            return
        shard = self._opened()
        deadline = self._services.clock.monotonic() + SHUTDOWN_SECONDS
        # The last attempt begins so early that its answer, or its time-out, comes within the time.
        shard.archiver.commit(
            "shutdown",
            budget_seconds=min(SHUTDOWN_SECONDS - ANSWER_SECONDS, self._services.settings.store_timeout_seconds),
        )
        shard.progress.settled(*shard.archiver.held)
        try:
            shard.checkpoints.now(
                shutdown_requested_input.checkpointer,
                shard.archiver.chain.tail,
                shard.archiver.delivered,
                budget_seconds=deadline - self._services.clock.monotonic(),
            )
        except LeaseLost as exc:
            self._fall_silent(str(exc))

    def shard_ended(self, shard_ended_input: ShutdownInput) -> None:
        """Commit the held records, prove the end, write its marker, checkpoint SHARD_END.

        KCL repeats the call for ever if it is answered without that checkpoint, so every error is raised, except for
        a lost lease: its new owner ends the shard, and KCL then stops calling.
        """
        if self._silent:
            return
        shard = self._opened()
        shard.archiver.commit("shard_end")
        archiver = shard.archiver
        unbroken = archiver.chain.is_unbroken and shard.retention.is_unbroken(archiver.reached)
        shard.end_proof.mark_end(archiver.chain.tail, unbroken=unbroken)
        try:
            shard.checkpoints.shard_end(shard_ended_input.checkpointer, budget_seconds=SHARD_END_BUDGET_SECONDS)
        except LeaseLost as exc:
            self._fall_silent(str(exc))

    def _opened(self) -> "_Shard":
        if self._shard is None:
            raise DeliveryDoubt(
                "the daemon sent work before initialize",
                next_step="compare the versions of amazon-kclpy and of its jars",
            )
        return self._shard

    def _fall_silent(self, reason: str) -> None:
        dropped = 0 if self._shard is None else self._shard.archiver.drop()
        if not self._silent:
            structlog.get_logger().info(
                "lease_lost",
                shard=None if self._shard is None else self._shard.archiver.shard_id,
                reason=reason,
                dropped=dropped,
            )
        self._silent = True


@dataclass
class _Shard:
    """The parts of an opened shard."""

    archiver: Archiver
    checkpoints: IntervalCheckpoints
    end_proof: ShardEndProof
    retention: RetentionGuard
    read_marks: ReadMarks
    progress: Progress
    warned_at: float | None = None

    def warn(self, left: TimeLeft, now: float) -> None:
        """Log, at most once a minute, that the stream is about to trim records that are still being delivered."""
        if not left.is_near or (self.warned_at is not None and now - self.warned_at < _NEAR_RETENTION_LOG_SECONDS):
            return
        self.warned_at = now
        structlog.get_logger().error(
            "near_retention",
            shard=self.archiver.shard_id,
            left_seconds=left.left_ms // 1000,
            next_step="raise the stream's retention now; the reader is about to lose records to trimming",
        )
