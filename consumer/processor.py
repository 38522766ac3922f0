"""The record processor of one shard: KCL's callbacks, in the order that exactly-once needs.

    initialize          check where the chain stands
    process_records     take records, commit what is due, then perhaps checkpoint
    shutdown_requested  commit what is held, checkpoint
    shard_ended         commit what is held, prove the end, mark it, checkpoint SHARD_END
    lease_lost          fall silent: no request to any service, now or later

Nothing is caught here but the loss of the lease. Every other exception leaves the process, and the daemon and its
supervisor start it again from the last checkpoint.
"""

import math
import random

import structlog

from archive.clock import Clock, IdSource
from archive.errors import DeliveryDoubt, LeaseLost, StreamUnavailable
from archive.keys import check_shard_id
from archive.position import Position
from archive.store import ObjectStore
from consumer.archiver import Archiver, Limits
from consumer.checkpoints import IntervalCheckpoints
from consumer.dedupe_start import DedupeStarter
from consumer.dedupe_table import DedupeTable
from consumer.multilang import Batch, Closing, Initialize
from consumer.multilang import LeaseLost as LeaseLostMessage
from consumer.ports import Ports
from consumer.sequence_store import SequenceStore
from consumer.settings import Settings
from consumer.shard_end import ShardEnder
from consumer.shard_start import ShardStarter
from consumer.stream import SURELY_KEPT_MS, Stream, StreamIdentity

SHUTDOWN_SECONDS = 22.0
"""What a stop may take: `shutdownGraceMillis` is 25 s, a graceful hand-over waits 30 s."""
SHARD_END_BUDGET_SECONDS = 120.0
RETENTION_MARGIN_SECONDS = 300.0
FLIGHT_SECONDS = 900.0
"""A PUT may arrive so long after it was sent: S3 refuses a signature that is older (RequestTimeTooSkewed)."""
_RETENTION_REREAD_SECONDS = 3600.0
_NEAR_RETENTION_LOG_SECONDS = 60.0


class ShardProcessor:
    """kclpy's v3 interface for one shard. All I/O comes in as arguments."""

    version = 3

    def __init__(
        self,
        settings: Settings,
        store: ObjectStore,
        stream: Stream,
        clock: Clock,
        rng: random.Random,
        new_id: IdSource,
        dedupe_table: DedupeTable | None = None,
    ) -> None:
        self._dedupe_table = dedupe_table
        self._ports = Ports(settings, store, stream, clock, rng, new_id)
        self._shard: _Shard | None = None
        self._silent = False

    def initialize(self, initialize_input: Initialize) -> None:
        """Check the stream, the archive and the checkpoint; see `consumer.shard_start` for what is refused."""
        shard_id = check_shard_id(initialize_input.shard_id)
        settings, store, stream, clock, rng, new_id = self._ports
        starter = ShardStarter(self._ports, shard_id)
        start = starter.start(initialize_input.sequence_number, initialize_input.sub_sequence_number or 0)
        sequences = SequenceStore(
            store, settings.prefix, shard_id, clock, rng, budget_seconds=settings.store_timeout_seconds
        )
        dedupe = None
        if self._dedupe_table is not None:
            dedupe = DedupeStarter(self._ports, self._dedupe_table, shard_id, start.identity).open(start.tail)
        archiver = Archiver(
            shard_id,
            sequences,
            start.tail,
            _limits(settings),
            clock,
            new_id,
            dedupe=dedupe,
            on_chain_start=starter.mark_start,
            continuity=start.continuity,
        )
        checkpoints = IntervalCheckpoints(
            clock,
            rng,
            shard_id,
            interval_seconds=settings.checkpoint_interval_seconds,
            budget_seconds=settings.store_timeout_seconds,
            last=start.tail if isinstance(start.tail, Position) else None,
        )
        ender = ShardEnder(self._ports, shard_id)
        retention = _RetentionWatch(stream, clock, shard_id, start.identity, settings.max_segment_age_seconds)
        self._shard = _Shard(archiver, checkpoints, ender, retention)
        structlog.get_logger().info(
            "shard_opened", shard=shard_id, after=str(start.tail), continuity=start.continuity, arn=start.identity.arn
        )

    def process_records(self, process_records_input: Batch) -> None:
        """Take a batch. Returns only when every record of it is committed or held; raises otherwise."""
        if self._silent:
            return
        shard = self._opened()
        archiver = shard.archiver
        records = process_records_input.records
        received_at = self._ports.clock.monotonic()
        # At every call: one without records that says "caught up" is no proof after an outage longer than retention.
        if archiver.is_unbroken or archiver.delivered is not None:
            shard.retention.check_unbroken(archiver.delivered or archiver.last)
        if records:
            archiver.write_through = shard.retention.is_near(records[0].arrival_ms)
            archiver.take(records)
        shard.retention.caught_up(process_records_input.millis_behind_latest, received_at)
        archiver.tick(records=len(records))
        try:
            shard.checkpoints.offer(process_records_input.checkpointer, archiver.tail, archiver.delivered)
        except LeaseLost as exc:
            self._fall_silent(str(exc))

    def lease_lost(self, _lease_lost_input: LeaseLostMessage) -> None:
        """Drop what is held. The new owner reads it again from the checkpoint."""
        self._fall_silent("KCL says that the lease is lost")

    def shutdown_requested(self, shutdown_requested_input: Closing) -> None:
        """Commit what is held and checkpoint it, within the grace that the daemon gives."""
        if self._silent:
            return
        shard = self._opened()
        deadline = self._ports.clock.monotonic() + SHUTDOWN_SECONDS
        shard.archiver.commit(
            "shutdown", budget_seconds=min(SHUTDOWN_SECONDS, self._ports.settings.store_timeout_seconds)
        )
        try:
            shard.checkpoints.now(
                shutdown_requested_input.checkpointer,
                shard.archiver.tail,
                shard.archiver.delivered,
                budget_seconds=deadline - self._ports.clock.monotonic(),
            )
        except LeaseLost as exc:
            self._fall_silent(str(exc))

    def shard_ended(self, shard_ended_input: Closing) -> None:
        """Commit what is held, prove the end, write its marker, checkpoint SHARD_END.

        Answering without that checkpoint would make KCL ask for ever, so whatever prevents it is raised.
        """
        shard = self._opened()
        if self._silent:
            raise DeliveryDoubt(
                "KCL reports the end of a shard whose lease is lost",
                next_step="nothing was checkpointed; the owner of the lease ends the shard",
            )
        shard.archiver.commit("shard_end")
        archiver = shard.archiver
        unbroken = archiver.is_unbroken and shard.retention.is_unbroken(archiver.delivered or archiver.last)
        shard.ender.mark_end(archiver.tail, unbroken=unbroken)
        shard.checkpoints.shard_end(shard_ended_input.checkpointer, budget_seconds=SHARD_END_BUDGET_SECONDS)

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


class _Shard:
    """What one opened shard is made of."""

    def __init__(
        self, archiver: Archiver, checkpoints: IntervalCheckpoints, ender: ShardEnder, retention: "_RetentionWatch"
    ) -> None:
        self.archiver = archiver
        self.checkpoints = checkpoints
        self.ender = ender
        self.retention = retention


class _RetentionWatch:
    """Tells when the reader comes close to what retention trims.

    A writer's buffer must be younger than what has been trimmed already: else its slot's records could be
    re-read by nobody. Close to the edge every call commits what it brought.
    """

    def __init__(
        self, stream: Stream, clock: Clock, shard_id: str, identity: StreamIdentity, max_segment_age_seconds: float
    ) -> None:
        self._stream = stream
        self._clock = clock
        self._retention_ms = identity.retention_ms
        self._margin_ms = int((max_segment_age_seconds + FLIGHT_SECONDS + RETENTION_MARGIN_SECONDS) * 1000)
        self._shard_id = shard_id
        self._read_at = clock.monotonic()
        # The first batch may come long after the start looked, so it proves its link again where anything is trimmed.
        self._read_up_to = -math.inf if identity.may_have_trimmed(clock.now_ms()) else clock.monotonic()
        self._held_at: float | None = None
        self._kept_until = -math.inf  # until a batch says how old the last delivered record is
        self._logged_at: float | None = None
        self._log = structlog.get_logger().bind(shard=shard_id)

    def caught_up(self, behind_ms: int | None, received_at: float) -> None:
        """Note how far the reader is: all that arrived until `behind_ms` before `received_at` has been delivered.

        `received_at` is when the call began, on the monotonic clock: a machine may sleep for days in the middle.
        """
        if behind_ms is not None:
            self._read_up_to = received_at - behind_ms / 1000

    def check_unbroken(self, delivered: Position | None) -> None:
        """Raise when records between `delivered` (or what the start follows) and the next batch may be trimmed.

        Kinesis goes on at its trim horizon without a word, whether the reader was slow or the machine asleep. Only a
        new start can go on from here: it looks for what others archived meanwhile, and marks the gap.

        Raises:
            DeliveryDoubt: that record is no longer held, and what followed it may be gone, too.
        """
        if not self.is_unbroken(delivered):
            raise DeliveryDoubt(
                f"records of {self._shard_id} after {delivered} may have been trimmed before they were delivered",
                next_step="the next start marks the gap; raise the stream's retention above the longest outage",
            )

    def is_unbroken(self, delivered: Position | None) -> bool:
        """Tell whether nothing behind `delivered` can have been trimmed unread; asks the stream only in doubt."""
        unread_seconds = self._clock.monotonic() - self._read_up_to
        if delivered is None or unread_seconds * 1000 <= SURELY_KEPT_MS - self._margin_ms:
            return True
        # A record that was held a moment ago, and is known to be far from its end, holds everything behind it for a
        # while. So a reader that catches up over days asks every few minutes, not with every batch.
        now = self._clock.monotonic()
        lately = self._held_at is not None and now - self._held_at < RETENTION_MARGIN_SECONDS
        if not lately or now >= self._kept_until:
            self._held_at = now if self._stream.holds(self._shard_id, delivered) else None
        return self._held_at is not None

    def is_near(self, arrival_ms: int) -> bool:
        """Tell whether a record of this arrival time is close to being trimmed; logs it once a minute."""
        self._reread()
        now = self._clock.monotonic()
        left_ms = arrival_ms + self._retention_ms - self._clock.now_ms()
        self._kept_until = now + (left_ms - self._margin_ms) / 1000
        if left_ms > self._margin_ms:
            return False
        if self._logged_at is None or now - self._logged_at >= _NEAR_RETENTION_LOG_SECONDS:
            self._logged_at = now
            self._log.error(
                "near_retention",
                left_seconds=left_ms // 1000,
                next_step="raise the stream's retention now; the reader is about to lose records to trimming",
            )
        return True

    def _reread(self) -> None:
        now = self._clock.monotonic()
        if now - self._read_at < _RETENTION_REREAD_SECONDS:
            return
        self._read_at = now
        try:
            self._retention_ms = self._stream.describe().retention_ms
        except StreamUnavailable as exc:
            # The last known retention still stands; archiving does not depend on this answer.
            self._log.warning("retention_unknown", error=str(exc), retention_hours=self._retention_ms // 3_600_000)


def _limits(settings: Settings) -> Limits:
    return Limits(
        max_segment_bytes=settings.max_segment_bytes,
        max_segment_age_seconds=settings.max_segment_age_seconds,
        linger_seconds=settings.linger_seconds,
        flush_seconds=settings.flush_seconds,
        store_timeout_seconds=settings.store_timeout_seconds,
    )
