"""Interval checkpoints: KCL's position in DynamoDB never lies beyond the archive.

A checkpoint is only ever the end of a committed segment, and only after KCL has delivered that position: KCL
accepts a number between the last checkpoint and the largest delivered one (ShardRecordProcessorCheckpointer.java).
It always names the sub-sequence number: without it KCL takes 0 and delivers the rest of an aggregate again.
"""

import structlog
from amazon_kclpy.kcl import CheckpointError

from consumer.processor.protocol import Checkpointer
from consumer.services import Services
from minutebook.errors import CheckpointFailed, LeaseLost, StoreUnavailable
from minutebook.format.metadata import Predecessor
from minutebook.format.position import Position
from minutebook.retry import Backoff

_RETRYABLE = frozenset({"ThrottlingException", "KinesisClientLibDependencyException"})
_LEASE_LOST = "ShutdownException"


class IntervalCheckpoints:
    """At most one checkpoint per `checkpointIntervalSeconds`; `last` is the one at the shard's start."""

    def __init__(self, services: Services, shard_id: str, *, last: Position | None) -> None:
        self._clock = services.clock
        self._rng = services.rng
        self._interval_seconds = services.settings.checkpoint_interval_seconds
        self._budget_seconds = services.settings.store_timeout_seconds
        self._last = last
        self._last_at = self._clock.monotonic()
        self._log = structlog.get_logger().bind(shard=shard_id)

    def offer(self, checkpointer: Checkpointer, tail: Predecessor, delivered: Position | None) -> None:
        """Checkpoint `tail` if the interval has passed; see `now`."""
        if self._clock.monotonic() - self._last_at >= self._interval_seconds:
            self.now(checkpointer, tail, delivered, budget_seconds=self._budget_seconds)

    def now(
        self, checkpointer: Checkpointer, tail: Predecessor, delivered: Position | None, *, budget_seconds: float
    ) -> None:
        """Checkpoint `tail`, unless it is checkpointed already or KCL has not delivered it yet.

        Raises:
            LeaseLost: KCL says that a newer owner exists.
            StoreUnavailable: DynamoDB kept failing for the whole budget.
            CheckpointFailed: any other exception of KCL.
        """
        if not isinstance(tail, Position) or tail == self._last or delivered is None or tail > delivered:
            return
        self._ask(checkpointer, (str(tail.sequence), tail.sub), budget_seconds)
        self._last = tail
        self._last_at = self._clock.monotonic()
        # For the supervisor, which counts it.
        self._log.debug("checkpoint_written", position=str(tail))

    def shard_end(self, checkpointer: Checkpointer, *, budget_seconds: float) -> None:
        """Checkpoint SHARD_END: only a checkpoint without arguments does that. Raises as `now`."""
        self._ask(checkpointer, None, budget_seconds)
        self._log.info("shard_end_checkpointed")

    def _ask(self, checkpointer: Checkpointer, position: tuple[str, int] | None, budget_seconds: float) -> None:
        backoff = Backoff(self._clock, self._rng, budget_seconds=budget_seconds, first_seconds=0.25)
        while True:
            try:
                if position is None:
                    checkpointer.checkpoint()
                else:
                    checkpointer.checkpoint(*position)
            except CheckpointError as exc:
                if exc.value == _LEASE_LOST:
                    raise LeaseLost("KCL refused the checkpoint: the lease has a newer owner") from exc
                if exc.value not in _RETRYABLE:
                    raise CheckpointFailed(
                        f"KCL refused the checkpoint {position or 'SHARD_END'}: {exc.value}",
                        next_step="look at the daemon's log just before this line; nothing is lost",
                    ) from exc
                if not backoff.wait():
                    raise StoreUnavailable(
                        f"DynamoDB kept refusing the checkpoint {position or 'SHARD_END'}: {exc.value}",
                        next_step="look at the lease table's capacity and throttling; nothing is lost",
                    ) from exc
            else:
                return
