"""One shard and everything around it, wired together for tests of the processor."""

import itertools
import random
from typing import Any, NamedTuple

from consumer.evidence.worker_lock import WorkerLock
from consumer.processor.processor import ShardProcessor
from consumer.settings.settings import Settings
from demo.readback import StoredSegment
from minutebook.clock import Clock
from minutebook.format.metadata import SegmentMetadata
from tests.fakes.archive_scene import PREFIX, ArchiveScene
from tests.fakes.clock import ManualClock
from tests.fakes.daemon_double import DaemonDouble, Lease
from tests.fakes.memory_store import Faults, MemoryBucket, MemoryStore
from tests.fakes.shard import FakeShard, UserRecord
from tests.fakes.stream import FakeStream
from tests.witness.readback import check_chain, check_holds, read_shard


class Worker(NamedTuple):
    """One consumer of the shard: its daemon, its client of the bucket and its clock."""

    daemon: DaemonDouble
    store: MemoryStore
    clock: Clock


class World:
    """A stream of one shard, its lease, a bucket, and as many workers as a test wants.

    All workers share one clock unless they are given another one, the changed `settings` and a dedupe `table`.
    """

    def __init__(self, *, start: str = "TRIM_HORIZON", at_timestamp_ms: int | None = None) -> None:
        self.clock = ManualClock()
        self.rng = random.Random(1)
        self.bucket = MemoryBucket(self.clock)
        self.shard = FakeShard()
        self.stream = FakeStream(self.shard, clock=self.clock)
        self.lease = Lease(self.shard, start=start, at_timestamp_ms=at_timestamp_ms)
        self.table: Any = None
        self.settings: dict[str, Any] = {}
        self._ids = (f"writer-{number}" for number in itertools.count(1))
        if at_timestamp_ms is not None:
            self._store_start(at_timestamp_ms)

    def new_id(self) -> str:
        """Return ids in order, unique in this world."""
        return next(self._ids)

    def worker(
        self,
        *,
        faults: Faults | None = None,
        clock: Clock | None = None,
        seed: int = 1,
        lock: WorkerLock | None = None,
        **changes: Any,  # noqa: ANN401 - any setting
    ) -> Worker:
        """Make a worker that takes the lease; it is not started yet. `changes` are settings."""
        store = MemoryStore(self.bucket, faults)
        own_clock = clock or self.clock
        processor = ShardProcessor(
            settings(**self.settings | changes),
            store,
            self.stream,
            own_clock,
            random.Random(seed),
            self.new_id,
            self.table,
            lock=lock,
        )
        return Worker(DaemonDouble(self.lease, processor), store, own_clock)

    def started(self, **options: Any) -> Worker:  # noqa: ANN401 - as `worker`
        """Make a worker, send `initialize`, and forget the requests of the start."""
        worker = self.worker(**options)
        worker.daemon.start()
        worker.store.requests.clear()
        worker.store.log.clear()
        return worker

    def archive_all(self, **options: Any) -> Worker:  # noqa: ANN401 - as `worker`
        """Let a worker archive what is held, and stop; returns it."""
        worker = self.started(**options)
        worker.daemon.deliver()
        worker.daemon.request_shutdown()
        return worker

    def holding(self, count: int) -> Worker:
        """Start a worker and deliver `count` records, which it then holds uncommitted."""
        worker = self.started()
        worker.daemon.deliver(count)
        return worker

    def put(self, count: int = 1, *, data: bytes | None = None) -> list[UserRecord]:
        """Put records that arrive now."""
        return [
            self.shard.put(data if data is not None else b"r%d" % len(self.shard.everything), self.clock.now_ms())
            for _ in range(count)
        ]

    def chain(self) -> list[StoredSegment]:
        """Read the shard's segments back, checked."""
        found = read_shard(MemoryStore(self.bucket), PREFIX, self.shard.shard_id)
        check_chain(found)
        return found

    def spans(self) -> list[tuple[int, int]]:
        """Return the segments as (number of the first record, number of the last), counted in the shard from 0."""
        numbers = {record.position: number for number, record in enumerate(self.shard.everything)}
        return [(numbers[segment.metadata.first], numbers[segment.metadata.last]) for segment in self.chain()]

    def check_everything_archived(self) -> None:
        """Assert that every record ever put is archived exactly once."""
        check_holds(self.chain(), self.shard.everything)

    def metadata(self, number: int = -1) -> SegmentMetadata:
        """Return the metadata of one segment, the last unless told."""
        return self.chain()[number].metadata

    def _store_start(self, at_timestamp_ms: int) -> None:
        scene = ArchiveScene(MemoryStore(self.bucket), PREFIX)
        application = settings().application_name
        scene.settle(self.stream.describe(), start_at_ms=at_timestamp_ms, application=application)


def settings(**changes: Any) -> Settings:  # noqa: ANN401 - any setting
    """Return settings with the defaults of production, changed."""
    given = {
        "stream_name": "flights",
        "application_name": "minutebook-test",
        "region": "eu-central-1",
        "bucket": "archive",
        "prefix": PREFIX,
        **changes,
    }
    return Settings(**given)
