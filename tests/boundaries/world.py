"""Workers of one stream, their host clocks, KCL's leases, and the time that all of them share.

The record processors, and all that a supervisor does for boundaries, are the product's. A worker here is the rest of
a process tree: it hands KCL's batches to processors, and their log lines and the daemon's own to the supervisor, each
through a pipe of its own, which may be read late.
"""

import bisect
import heapq
import itertools
import random
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import structlog
from amazon_kclpy.kcl import CheckpointError

from consumer.archived.skipped import SkippedBatches
from consumer.boundaries.due import Boundaries
from consumer.boundaries.known import KnownShards
from consumer.boundaries.looks import IN_FLIGHT, Looker
from consumer.boundaries.saying import DaemonRuns, RowWriter
from consumer.child_logs.processor_log import OPENED, ProcessorEvent
from consumer.pipe.messages import Delivery, Initialize, LeaseLostMessage
from consumer.processor.processor import ShardProcessor
from consumer.processor.protocol import DeliveredBatch, ShutdownInput
from minutebook.completeness.publisher import Publisher
from minutebook.errors import MinutebookError, SafetyRefusal, StoreError
from minutebook.format.keys import end_marker_key
from minutebook.format.position import Position
from minutebook.format.record import Record
from minutebook.retry import Backoff
from minutebook.store.retrying import RetryingStore
from tests.boundaries.store import Bucket, Entry, Store
from tests.boundaries.stream import MINUTE, SECOND, Shard, Stream, StreamView
from tests.fakes.archive_scene import PREFIX
from tests.fakes.world import settings

_LINES: Final = frozenset(
    {
        *(OPENED, "segment_committed", "segment_adopted", "read_mark_written", "read_mark_found"),
        *("shard_end_proven", "lease_lost", "shard_end_checkpointed", "checkpoint_behind_archive"),
    }
)
_FAILOVER_MS: Final = 30 * SECOND
_SETTINGS: Final = {adopts: settings(store_timeout_seconds=30, adopt_checkpoint=adopts) for adopts in (False, True)}
_sink: list[list[dict[str, Any]]] = [[]]


class Killed(BaseException):
    """SIGKILL of a supervisor, and of all below it, between two requests."""


def _capture(_logger: object, _method: str, event: dict[str, Any]) -> dict[str, Any]:
    """Keep the lines that a supervisor reads; nothing is printed."""
    if event["event"] in _LINES:
        _sink[0].append(event)
    raise structlog.DropEvent


def capture_logs() -> None:
    """Send the log lines of processors to the worker that runs them."""
    structlog.configure(processors=[_capture], wrapper_class=structlog.make_filtering_bound_logger(10))


class HostClock:
    """A host's clock: the world's time, and how far the wall clock is off. Sleeping lets the time of all pass."""

    def __init__(self, world: "World", skew_ms: int) -> None:
        self._world = world
        self._skew_ms = skew_ms

    def now_ms(self) -> int:
        """Return the wall clock."""
        return self._world.now_ms + self._skew_ms

    def monotonic(self) -> float:
        """Return seconds since a time."""
        return self._world.now_ms / SECOND

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self._world.now_ms += round(seconds * SECOND)


@dataclass
class Lease:
    """KCL's row of one shard; `token` changes with each owner."""

    shard: str
    checkpoint: str | Position
    owner: "Worker | None" = None
    token: int = 0
    free_ms: int = 0
    written: list[Position] = field(default_factory=list)


class Skip(NamedTuple):
    """A batch that KCL skipped: by which supervisor's run of the daemon, and when."""

    shard: str
    run: str
    at_ms: int
    records: dict[Position, int]


class World:
    """One stream, one bucket, all workers. `busy` is who works right now, the innermost last."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.now_ms = 1_795_219_200_000 + self.rng.randrange(24 * 60) * MINUTE  # 2026-11-21
        self.store_faults = self.stream_faults = self.odd_answers = self.late_log = 0.0
        self.bucket = Bucket(self)
        self.stream = Stream(self.rng, self.now_ms, self.rng.choice([1, 1, 2, 3]))
        self.every_ms = self.rng.choice([5, 5, 5, 5, 5, 5, 5, 60]) * MINUTE
        self.leases: dict[str, Lease] = {}
        self.workers: list[Worker] = []
        self.busy: list[Worker] = []
        self.skips: list[Skip] = []
        self.contents: dict[tuple[str, str], list[Position]] = {}
        self.counts: Counter[str] = Counter()
        self.log: list[str] = []
        self.is_calm = False
        self.adopts = False
        self.begin_ms = self.now_ms
        self._number = itertools.count(1)
        self._heap: list[tuple[int, int, Callable[[], object]]] = []
        self._started_ms = self.now_ms

    def note(self, what: str) -> None:
        """Write down what happened."""
        seconds = (self.now_ms - self._started_ms) // SECOND
        self.log.append(f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d} {what}")

    def new_id(self) -> str:
        """Return an id that is unique in this world."""
        return f"w{next(self._number)}"

    def at(self, time_ms: int, act: Callable[[], object]) -> None:
        """Let something happen at a time."""
        heapq.heappush(self._heap, (time_ms, next(self._number), act))

    def live_until(self, end_ms: int) -> None:
        """Let happen what is due before a time."""
        while self._heap and self._heap[0][0] < end_ms:
            time_ms, _, act = heapq.heappop(self._heap)
            self.now_ms = max(self.now_ms, time_ms)
            self.stream.advance(self.now_ms)
            act()
        self.now_ms = max(self.now_ms, end_ms)
        self.stream.advance(self.now_ms)

    def leader(self) -> "Worker | None":
        """Return KCL's leader: the first worker that is not seen to be dead."""
        return next((worker for worker in self.workers if not worker.is_paused), None)

    def interleave(self, worker: "Worker") -> None:
        """Let another worker work between two requests of this one."""
        if self.is_calm or len(self.busy) != 1 or self.rng.random() > 0.01:
            return
        others = [other for other in self.workers if other is not worker and not other.is_paused]
        if others:
            self.counts["interleaved"] += 1
            other = self.rng.choice(others)
            other.step(self.rng.choice([other.work, other.publish]))

    def archived(self, key: str, entry: Entry) -> None:
        """Take a new segment's records for archived."""
        for position in self.contents[key, entry.metadata["writer"]]:
            self.stream.shards[entry.metadata["shard"]].missing.pop(position, None)


class _Checkpointer:
    """KCL's checkpointer of one processor."""

    def __init__(self, world: World, lease: Lease, reading: "Reading") -> None:
        self._world = world
        self._lease = lease
        self._token = lease.token
        self._reading = reading

    def checkpoint(self, sequence_number: str | None = None, sub_sequence_number: int | None = None) -> None:
        """Write a checkpoint, if the lease has no newer owner."""
        if self._lease.token != self._token:
            raise CheckpointError("ShutdownException")
        if sequence_number is None:
            self._lease.checkpoint = "SHARD_END"
            for child in self._world.stream.shards[self._lease.shard].children:
                self._world.leases.setdefault(child, Lease(child, "TRIM_HORIZON"))
        else:
            self._lease.checkpoint = Position(int(sequence_number), sub_sequence_number or 0)
            self._lease.written.append(self._lease.checkpoint)


@dataclass
class Reading:
    """What KCL delivers to one processor: records from `index` on, of the first one what lies behind `begin`."""

    shard: Shard
    lease: Lease
    processor: ShardProcessor
    index: int
    begin: Position | None
    checkpointer: _Checkpointer | None = None
    token: int = 0
    delivered: list[Position] = field(default_factory=list)
    skips_next: bool = False
    late_until_ms: int = 0

    def take_batch(self, most: int) -> list[Record]:
        """Return the next records that KCL delivers; trimmed ones are passed over silently."""
        self.index = max(self.index, self.shard.trimmed)
        page = self.shard.records[self.index : self.index + most]
        self.index += len(page)
        return [
            Record(str(kept.sequence), sub, "k", kept.stamp_ms, data)
            for kept in page
            for sub, data in enumerate(kept.users)
            if self.begin is None or (kept.sequence, sub) > self.begin
        ]

    @property
    def is_at_end(self) -> bool:
        """Return whether the shard is closed and all of it was delivered."""
        return self.shard.closed_ms is not None and self.index >= len(self.shard.records)


class Worker:
    """One supervisor with its daemon and processors, under one run id. Without `speaks` it is of an older release."""

    def __init__(self, world: World, *, speaks: bool = True, skew_ms: int = 0) -> None:
        self.world = world
        self.run = world.new_id()
        self.runs = DaemonRuns(self.run)
        self.clock = HostClock(world, skew_ms)
        self.is_paused = False
        self.publishes = True
        self.requests_left: int | None = None
        self.restart_ms: int | None = None
        self.readings: dict[str, Reading] = {}
        self.lines: deque[dict[str, Any]] = deque()
        self.daemon_lines: deque[str] = deque()
        self.stream = StreamView(world, self.clock, self._before_stream)
        self._looks = False
        self._raw = Store(world, self._before, self._after)
        store = self._retrying(10)
        self.skipped = SkippedBatches(store, PREFIX, self.clock, lambda: f"{self.runs.name}_{world.new_id()}")
        self.known = KnownShards()
        self.boundaries: Boundaries | None = None
        if speaks:
            self.boundaries = Boundaries(
                self.known,
                Looker(self.stream, self.clock),
                RowWriter(
                    store, PREFIX, self.known, self.clock, worker=self.run, runs=self.runs, every_ms=world.every_ms
                ),
                Publisher(store, PREFIX, every_ms=world.every_ms, begin_ms=world.begin_ms, writer=self.run),
                self.stream,
                self.clock,
                every_ms=world.every_ms,
                leads=lambda: world.leader() is self,
                runs=self.runs,
            )
            self.boundaries.daemon_started(self)

    def _retrying(self, budget_seconds: float) -> RetryingStore:
        return RetryingStore(
            self._raw,
            lambda: Backoff(self.clock, self.world.rng, budget_seconds=budget_seconds),
            lambda work, items: [work(item) for item in items],
        )

    # Requests

    def _before(self, _verb: str, _key: str) -> None:
        self._count_down()
        self.world.interleave(self)

    def _after(self, _verb: str, _key: str) -> None:
        self._count_down()

    def _before_stream(self, _what: str) -> None:
        self._count_down()
        self.world.interleave(self)
        if self._looks and not self.world.is_calm and self.world.rng.random() < 0.1:
            self._looks = False
            self._go_on_beside_a_look()
            self._looks = True

    def _go_on_beside_a_look(self) -> None:
        """Let processors work, and their lines count, while a look is on its way: they are other threads."""
        self.world.counts["beside a look"] += 1
        for reading in list(self.readings.values()):
            self._guarded(lambda reading=reading: self._poll(reading))  # type: ignore[misc]  # bound at once
        self.read_pipes()
        if self.boundaries is not None:
            self.boundaries.settle()

    def _count_down(self) -> None:
        if self.requests_left is not None:
            self.requests_left -= 1
            if self.requests_left < 0:
                raise Killed

    def is_read_to_its_end(self) -> bool:
        """Return whether all of the daemon's own log was read."""
        return not self.daemon_lines

    # Life

    def step(self, act: Callable[[], None]) -> None:
        """Do something, unless this worker is at something, or stands still; it may be killed at it."""
        world = self.world
        if self.is_paused or self in world.busy or self not in world.workers:
            return
        world.busy.append(self)
        try:
            act()
        except Killed:
            world.note(f"{self.run} is killed")
            world.counts["killed"] += 1
            self.bury()
        finally:
            world.busy.remove(self)

    def bury(self) -> None:
        """Be dead: nothing that was not stored remains."""
        self.world.workers.remove(self)
        self._leave(self.world.now_ms + _FAILOVER_MS)

    def work(self) -> None:
        """Do what a worker does all the time, once."""
        rng = self.world.rng
        if self.restart_ms is not None:
            self._restart()
            return
        self._take_leases()
        for reading in list(self.readings.values()):
            if self.readings.get(reading.shard.name) is reading:
                self._guarded(lambda reading=reading: self._poll(reading))  # type: ignore[misc]  # bound at once
        self.read_pipes(late=0.0 if self.world.is_calm else rng.choice([0, 0.01, 0.3]))
        if self.boundaries is not None and self.restart_ms is None:
            self._look()
            self._store_rows()
            if self.publishes and self._try(self.boundaries.is_time_to_publish, otherwise=False):
                self.publish()

    def _look(self) -> None:
        boundaries = self.boundaries
        assert boundaries is not None
        boundaries.settle()
        for shard in self._try(boundaries.due_shards, otherwise=[])[:IN_FLIGHT]:
            self._looks = True
            try:
                self._try(lambda shard=shard: boundaries.look(shard))  # type: ignore[misc]  # bound at once
            finally:
                self._looks = False

    def _store_rows(self) -> None:
        boundaries = self.boundaries
        assert boundaries is not None
        self._try(boundaries.store)

    def publish(self) -> None:
        """Try to publish."""
        if self.boundaries is not None and self.publishes:
            self.world.counts["attempts"] += 1
            self._try(self.boundaries.publish)

    def _try(self, act: Callable[[], Any], *, otherwise: Any = None) -> Any:  # noqa: ANN401 - whatever it returns
        try:
            return act()
        except MinutebookError as exc:
            self.world.counts[f"failed: {type(exc).__name__}"] += 1
            return otherwise

    # The daemon and its processors

    @contextmanager
    def _heard(self) -> Iterator[None]:
        """Read what processors log into the pipe."""
        before = _sink[0]
        _sink[0] = heard = list[dict[str, Any]]()
        try:
            yield
        finally:
            _sink[0] = before
            self.lines.extend(heard)

    def _guarded(self, act: Callable[[], None]) -> None:
        """Run a callback of a processor; if it fails, the daemon ends."""
        try:
            with self._heard():
                act()
        except MinutebookError as exc:
            self.world.counts[f"processor: {type(exc).__name__}"] += 1
            self.world.note(f"{self.run}: a processor ends with {type(exc).__name__}: {exc}")
            self.world.adopts |= isinstance(exc, SafetyRefusal)  # somebody does what it says
            self._end_daemon()

    def _take_leases(self) -> None:
        world = self.world
        for lease in list(world.leases.values()):
            if self.restart_ms is not None:
                return
            owner = lease.owner
            is_lost = owner is None or owner is self or owner not in world.workers or owner.is_paused
            if lease.checkpoint == "SHARD_END" or lease.shard in self.readings or world.now_ms < lease.free_ms:
                continue
            parents = [world.leases.get(name) for name in world.stream.shards[lease.shard].parents]
            if not is_lost or any(parent is not None and parent.checkpoint != "SHARD_END" for parent in parents):
                continue
            if owner is not None and owner is not self and owner in world.workers:
                world.note(f"{self.run} takes {lease.shard[-2:]} from {owner.run}")
            lease.owner, lease.token = self, lease.token + 1
            self._guarded(lambda lease=lease: self._open(lease))  # type: ignore[misc]  # bound at once

    def _open(self, lease: Lease) -> None:
        world, shard = self.world, self.world.stream.shards[lease.shard]
        position = lease.checkpoint if isinstance(lease.checkpoint, Position) else None
        index = 0
        if position is not None:
            index = shard.index_of(position.sequence)
        elif lease.checkpoint == "AT_TIMESTAMP":
            while index < len(shard.records) and shard.records[index].stamp_ms < world.begin_ms:
                index += 1
        delivered: list[Position] = []
        store = _ProcessorStore(self, delivered)
        processor = ShardProcessor(_SETTINGS[world.adopts], store, self.stream, self.clock, world.rng, world.new_id)
        reading = Reading(shard, lease, processor, index, position, delivered=delivered, token=lease.token)
        reading.checkpointer = _Checkpointer(world, lease, reading)
        self.readings[lease.shard] = reading
        text = str(position.sequence) if position is not None else str(lease.checkpoint)
        sub = None if position is None else position.sub
        processor.initialize(Initialize(shard_id=shard.name, sequence_number=text, sub_sequence_number=sub))

    def _poll(self, reading: Reading) -> None:
        world, lease = self.world, reading.lease
        checkpointer = reading.checkpointer
        assert checkpointer is not None
        if self.readings.get(lease.shard) is not reading:
            return
        if lease.token != reading.token and world.rng.random() < 0.3:
            reading.processor.lease_lost(LeaseLostMessage())
            del self.readings[lease.shard]
            return
        if world.now_ms < reading.late_until_ms:
            return
        if reading.is_at_end:
            reading.processor.shard_ended(ShutdownInput(checkpointer))
            self.readings.pop(lease.shard, None)
            return
        batch = reading.take_batch(world.rng.choice([1, 3, 50]))
        if reading.skips_next and batch:
            self._skip(reading, batch)
            return
        reading.delivered += [record.position for record in batch]
        is_tip = reading.index >= len(reading.shard.records)
        delivery = Delivery.of(batch, 0 if is_tip else 1000)
        reading.processor.process_records(DeliveredBatch(delivery, checkpointer))
        if batch and reading.index < len(reading.shard.records):
            self._poll(reading)

    def _skip(self, reading: Reading, batch: list[Record]) -> None:
        """Log that a batch is skipped, then perhaps deliver the next one before anybody reads the line."""
        world, shard = self.world, reading.shard
        reading.skips_next = False
        records = {record.position: record.arrival_ms for record in batch}
        world.skips.append(Skip(shard.name, self.runs.name, world.now_ms, records))
        world.counts["skipped"] += 1
        world.note(f"{self.run}: KCL skips {len(records)} records of {shard.name[-2:]}")
        self.daemon_lines.append("" if world.rng.random() < 0.1 else shard.name)
        for _ in range(world.rng.choice([0, 1, 2])):
            world.now_ms += world.rng.choice([100, 6_000, 70_000])
            world.stream.advance(world.now_ms)
            self._poll(reading)

    def _end_daemon(self) -> None:
        """Let the daemon end with all its processors; the supervisor reads the pipes to their ends."""
        if self.restart_ms is not None:
            return
        self.restart_ms = self.world.now_ms + self.world.rng.choice([2, 10, 60]) * SECOND
        self._leave(self.world.now_ms)

    def _leave(self, free_ms: int) -> None:
        for reading in self.readings.values():
            if reading.lease.owner is self:
                reading.lease.owner, reading.lease.free_ms = None, free_ms
                reading.lease.token += 1
        self.readings.clear()

    def _restart(self) -> None:
        """Store what a dead daemon left to say, and start it again when it is time to."""
        self.read_pipes()
        if self.boundaries is not None:
            self.boundaries.store_last()
        try:
            self.skipped.store()
        except StoreError:
            return
        if self.restart_ms is not None and self.world.now_ms >= self.restart_ms:
            self.restart_ms = None
            if self.boundaries is not None:
                self.boundaries.daemon_started(self)

    def stop(self) -> None:
        """Stop in order: processors commit, the last rows and markers are stored."""
        for reading in self.readings.values():
            assert reading.checkpointer is not None
            stopping = ShutdownInput(reading.checkpointer)
            self._try(lambda reading=reading, stopping=stopping: self._shut(reading, stopping))  # type: ignore[misc]  # bound at once
        self.world.note(f"{self.run} stops")
        self.restart_ms = self.world.now_ms
        self._leave(self.world.now_ms)
        self.read_pipes()
        if self.boundaries is not None:
            self.boundaries.store_last()
        self._try(self.skipped.store)
        if self in self.world.workers:
            self.bury()

    def _shut(self, reading: Reading, stopping: ShutdownInput) -> None:
        with self._heard():
            reading.processor.shutdown_requested(stopping)

    # What the supervisor reads

    def read_pipes(self, late: float = 0.0) -> None:
        """Read the processors' lines and the daemon's own log; with a probability `late` not both of them."""
        rng = self.world.rng
        acts = [(self._read_lines, late), (self._read_daemon_log, max(late, self.world.late_log if late else 0.0))]
        if rng.random() < 0.5:
            acts.reverse()
        for act, probability in acts:
            if rng.random() >= probability:
                act()

    def _read_lines(self) -> None:
        while self.lines:
            event = self.lines.popleft()
            fields = {name: value for name, value in event.items() if name in ProcessorEvent.__struct_fields__}
            if fields.get("continuity") is not None:
                fields["continuity"] = str(fields["continuity"])
            if self.boundaries is not None:
                self.boundaries.note(ProcessorEvent(**fields))

    def _read_daemon_log(self) -> None:
        while self.daemon_lines:
            shard = self.daemon_lines[0]
            shards = [shard] if shard else sorted(self.readings)
            if self.boundaries is not None:
                self.boundaries.skipped(shard)
            for name in shards:
                self.skipped.note(name, "skipped")
            self.daemon_lines.popleft()
            self._end_daemon()


class _ProcessorStore(Store):
    """A processor's client: what it puts into a segment is remembered."""

    def __init__(self, worker: Worker, delivered: list[Position]) -> None:
        super().__init__(worker.world, worker._before, worker._after)
        self._delivered = delivered

    def put_if_absent(self, key: str, body: bytes, metadata: Any, content_type: str) -> Any:  # noqa: ANN401 - as the port
        """Put once."""
        if metadata:
            first, last = Position.parse(metadata["first"]), Position.parse(metadata["last"])
            begin = bisect.bisect_left(self._delivered, first)
            records = self._delivered[begin : bisect.bisect_right(self._delivered, last)]
            assert len(records) == int(metadata["records"]), key
            self._world.contents[key, metadata["writer"]] = records
        return super().put_if_absent(key, body, metadata, content_type)


def end_key(shard: str) -> str:
    """Return the key of a shard's end."""
    return end_marker_key(PREFIX, shard)
