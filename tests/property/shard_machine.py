"""What lies below the histories of a shard: how its workers act, what is archived, and what must hold at any time."""

import random
from collections.abc import Callable
from typing import Any

from hypothesis.stateful import RuleBasedStateMachine, invariant

from minutebook.compression import Compression
from minutebook.errors import BufferTooOld, ShardEndUnproven, StoreUnavailable
from minutebook.format.metadata import SegmentMetadata
from minutebook.format.position import Position
from tests.fakes.archive_scene import PREFIX
from tests.fakes.clock import SkewedClock
from tests.fakes.daemon_double import Checkpoint
from tests.fakes.memory_store import RandomFaults
from tests.fakes.world import Worker, World


class ShardMachine(RuleBasedStateMachine):
    """A shard in its world, and the workers on it; `ShardHistories` says what may happen to them."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.workers: list[Worker] = []
        self.busy: list[Worker] = []
        self.seed = 0

    def pick(self, number: int) -> Worker:
        """Return one of the living workers."""
        return self.workers[number % len(self.workers)]

    def act(self, worker: Worker, action: Callable[[], object]) -> None:
        """Let a worker take its turn, unless it is in the middle of one; it may die of outages, age or doubt."""
        if worker in self.busy or not worker.daemon.alive:
            return
        self.busy.append(worker)
        try:
            action()
        except (StoreUnavailable, BufferTooOld, ShardEndUnproven):
            if worker in self.workers:
                self.workers.remove(worker)
        finally:
            self.busy.remove(worker)

    def new_worker(self, *, rate: float = 0, skew_ms: int = 0, **changes: Any) -> Worker:  # noqa: ANN401 - settings
        """Start a worker that takes the lease; one that comes later is told another compression, or none."""
        self.seed += 1
        worker = self.world.worker(
            faults=RandomFaults(random.Random(self.seed), rate),
            clock=SkewedClock(self.world.clock, skew_ms),
            seed=self.seed,
            compression=(Compression.ZSTD, Compression.GZIP, None)[self.seed % 3],
            **changes,
        )
        self.workers.append(worker)
        self.act(worker, worker.daemon.start)
        return worker

    def deliver(self, worker: Worker, count: int) -> None:
        """Let a worker read on."""
        self.act(worker, lambda: worker.daemon.deliver(count))

    def stop(self, worker: Worker) -> None:
        """Ask for the shutdown; afterwards the worker is gone."""
        if worker in self.busy:
            return
        self.act(worker, worker.daemon.request_shutdown)
        self.act(worker, worker.daemon.lose_lease)
        self.workers = [other for other in self.workers if other is not worker]

    def spans(self) -> list[tuple[Position, Position]]:
        """Return the spans that the metadata claim."""
        bucket = self.world.bucket
        keys = [key for key in bucket.keys(PREFIX) if key.endswith((".gz", ".zst"))]
        return [SegmentMetadata.decode(bucket.metadata(key)).span for key in keys]

    def archived(self) -> list[Position]:
        """Return the positions that are archived, from the first on without a hole."""
        spans = self.spans()
        found = []
        for record in self.world.shard.everything:
            if not any(first <= record.position <= last for first, last in spans):
                break
            found.append(record.position)
        return found

    # What must hold

    @invariant()
    def every_checkpoint_was_legal(self) -> None:
        """KCL never had to refuse one for its number."""
        for worker in self.workers:
            for request in worker.daemon.requests:
                assert request.error != "IllegalArgumentException", request

    def check_checkpoint(self, checkpoint: Checkpoint) -> None:
        """At the moment a checkpoint is stored: it ends a segment, and all before it is durable."""
        spans = self.spans()
        if isinstance(checkpoint, Position):
            assert any(last == checkpoint for _, last in spans), f"{checkpoint} ends no segment"
        for record in self.world.shard.everything:
            if not isinstance(checkpoint, Position) or record.position <= checkpoint:
                assert any(first <= record.position <= last for first, last in spans), (
                    f"{record.position} is not durable"
                )
