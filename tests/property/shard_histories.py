"""Histories of one shard: owners, zombies, crashes, faults, clocks and trimming, against a plain model.

The model is the shard itself: whatever happened, at the end every record is archived exactly once, byte for byte, in
one unbroken chain. The real processor runs; only what lies outside of it is a double.
"""

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from minutebook.format.position import Position
from tests.fakes.clock import START_MS, SkewedClock
from tests.fakes.daemon_double import SHARD_END
from tests.fakes.memory_store import RandomFaults
from tests.fakes.world import World
from tests.property.shard_machine import ShardMachine

MAX_WORKERS = 4
MAX_SKEW_MS = 150_000
"""Two clocks are then less than five minutes apart, which is what the protocol allows."""
TRANSIENT = ["ThrottlingException", "KinesisClientLibDependencyException"]

payloads = st.binary(max_size=40) | st.text(max_size=20).map(str.encode)
which = st.integers(0, MAX_WORKERS - 1)
counts = st.integers(1, 6)


class ShardHistories(ShardMachine):
    """One history. Each rule is one thing that happens to the shard or to one of its workers."""

    @initialize(at_timestamp=st.booleans(), seed=st.integers(0, 2**32))
    def begin(self, *, at_timestamp: bool, seed: int) -> None:
        """Choose where the shard starts. Records before a timestamp start are never delivered."""
        self.seed = seed
        if at_timestamp:
            self.world = World(start="AT_TIMESTAMP", at_timestamp_ms=START_MS - 10_000)
        self.world.lease.on_write = self.check_checkpoint

    # What happens to the stream

    @rule(data=st.lists(payloads, min_size=1, max_size=5), late_seconds=st.sampled_from([0, 0, 0, 1, 8]))
    def records_arrive(self, data: list[bytes], late_seconds: int) -> None:
        """Plain records; arrival times may step back."""
        for payload in data:
            self.world.shard.put(payload, self.world.clock.now_ms() - late_seconds * 1000)

    @rule(data=st.lists(payloads, min_size=1, max_size=5))
    def an_aggregate_arrives(self, data: list[bytes]) -> None:
        """User records that share sequence number and arrival time."""
        self.world.shard.put_aggregate(data, self.world.clock.now_ms())

    @rule(seconds=st.sampled_from([1, 5, 20, 58, 61, 125]), called=st.sets(which))
    def time_passes(self, seconds: int, called: set[int]) -> None:
        """A moment, or some minutes; afterwards some workers are called without records."""
        self.world.clock.advance(seconds)
        for worker in [worker for number, worker in enumerate(self.workers) if number in called]:
            self.act(worker, worker.daemon.tick)

    @rule(seconds=st.sampled_from([600, 1000, 4000]))
    def everybody_is_paused(self, seconds: int) -> None:
        """A suspend: buffers may be too old afterwards."""
        self.world.clock.advance(seconds)

    @precondition(lambda self: len(self.archived()) > 1)
    @rule(share=st.floats(0, 1))
    def retention_trims(self, share: float) -> None:
        """The oldest archived records are gone, and so are the readers that had not come so far."""
        archived = self.archived()
        limit = archived[round(share * (len(archived) - 2))]
        if any(
            record.position > limit
            for record in self.world.shard.records
            if record.position.sequence == limit.sequence
        ):
            return
        self.world.shard.trim_through(limit)
        self.workers = [worker for worker in self.workers if (worker.daemon.cursor or Position(0)) >= limit]

    # What happens to workers

    @precondition(lambda self: len(self.workers) < MAX_WORKERS)
    @rule(
        rate=st.sampled_from([0, 0, 0.2, 0.5]),
        skew_ms=st.integers(-MAX_SKEW_MS, MAX_SKEW_MS),
        max_segment_bytes=st.sampled_from([1, 400, 1000, 10**6, 10**6]),
        flush_seconds=st.sampled_from([None, None, 5]),
        checkpoint_interval_seconds=st.sampled_from([0, 30]),
        count=st.integers(0, 12),
    )
    def a_worker_takes_the_lease(
        self,
        rate: float,
        skew_ms: int,
        max_segment_bytes: int,
        flush_seconds: float | None,
        checkpoint_interval_seconds: float,
        count: int,
    ) -> None:
        """The old owner, if it lives, is a zombie from now on and does not know it; the new one reads along."""
        worker = self.new_worker(
            rate=rate,
            skew_ms=skew_ms,
            max_segment_bytes=max_segment_bytes,
            flush_seconds=flush_seconds,
            checkpoint_interval_seconds=checkpoint_interval_seconds,
        )
        if count:
            self.deliver(worker, count)

    @precondition(lambda self: len(self.workers) <= MAX_WORKERS - 2)
    @rule(data=st.lists(payloads, min_size=2, max_size=8), counts=st.tuples(counts, counts), stop=st.booleans())
    def a_zombie_and_its_successor_hold_the_same_records(
        self, data: list[bytes], counts: tuple[int, int], *, stop: bool
    ) -> None:
        """Not equally many; perhaps the successor commits first."""
        self.records_arrive(data, 0)
        for count in counts:
            self.deliver(self.new_worker(), count)
        if stop and self.workers:
            self.stop(self.workers[-1])

    @precondition(lambda self: self.workers)
    @rule(receivers=st.lists(st.tuples(which, counts), min_size=1, max_size=MAX_WORKERS))
    def records_are_delivered(self, receivers: list[tuple[int, int]]) -> None:
        """To the owner and to zombies, not equally far."""
        for number, count in receivers:
            if self.workers:
                self.deliver(self.pick(number), count)

    @precondition(lambda self: len(self.workers) > 1)
    @rule(number=which, other=which, count=counts, after=st.booleans(), stop=st.booleans())
    def another_works_in_the_middle_of_a_request(
        self,
        number: int,
        other: int,
        count: int,
        *,
        after: bool,
        stop: bool,
    ) -> None:
        """While one worker's next PUT is on its way, another delivers, or commits all that it holds."""
        worker, intruder = self.pick(number), self.pick(other)

        def intrude(verb: str, _key: str) -> None:
            if verb == "PUT":
                worker.store.before = worker.store.after = None
                if stop:
                    self.stop(intruder)
                else:
                    self.deliver(intruder, count)

        if after:
            worker.store.after = intrude
        else:
            worker.store.before = intrude

    @precondition(lambda self: self.workers)
    @rule(number=which)
    def a_worker_is_killed(self, number: int) -> None:
        """SIGKILL: its buffer is gone."""
        self.workers.remove(self.pick(number))

    @precondition(lambda self: self.workers)
    @rule(number=which)
    def a_worker_is_stopped(self, number: int) -> None:
        """shutdownRequested, then leaseLost."""
        self.stop(self.pick(number))

    @precondition(lambda self: any(not worker.daemon.owns_lease for worker in self.workers))
    @rule(number=which)
    def a_zombie_learns_that_its_lease_is_lost(self, number: int) -> None:
        """It falls silent, whatever is still delivered."""
        zombies = [worker for worker in self.workers if not worker.daemon.owns_lease]
        zombie = zombies[number % len(zombies)]
        zombie.store.requests.clear()
        self.act(zombie, zombie.daemon.lose_lease)
        if zombie.daemon.alive:
            zombie.daemon.deliver(3)
            zombie.daemon.tick()
            assert not zombie.store.requests, "a request when the lease was lost, or later"

    @precondition(lambda self: self.seed % 3 == 0 and any(worker.daemon.owns_lease for worker in self.workers))
    @rule(closed=st.booleans(), reading_ends=st.booleans())
    def a_false_end_is_reported(self, *, closed: bool, reading_ends: bool) -> None:
        """KCL believes that the shard has ended: it is open, or closed with records left for a lagging reader."""
        owner = next(worker for worker in self.workers if worker.daemon.owns_lease)
        self.world.shard.closed = closed and bool(owner.daemon.waiting())
        self.world.stream.false_ends = reading_ends
        self.act(owner, owner.daemon.end_shard)
        self.world.shard.closed = self.world.stream.false_ends = False
        assert owner not in self.workers, "a false end was answered"

    @rule()
    def the_lease_table_is_wiped(self) -> None:
        """The next worker begins at the start of the shard, or of what retention left of it."""
        self.world.lease.wipe()

    @precondition(lambda self: len(self.archived()) > 0)
    @rule(share=st.floats(0, 1))
    def a_checkpoint_is_restored(self, share: float) -> None:
        """The next worker begins after some archived record, inside a span or at its end."""
        archived = self.archived()
        self.world.lease.wipe()
        self.world.lease.checkpoint = archived[round(share * (len(archived) - 1))]

    # What happens to services

    @rule()
    def delayed_requests_land(self) -> None:
        """PUTs whose client gave up long ago are applied."""
        self.world.bucket.land()

    @precondition(lambda self: self.workers)
    @rule(number=which, rate=st.sampled_from([0, 0.3, 0.7, 1]))
    def the_store_gets_better_or_worse(self, number: int, rate: float) -> None:
        """Up to an outage."""
        faults = self.pick(number).store.faults
        assert isinstance(faults, RandomFaults)
        faults.rate = rate

    @precondition(lambda self: self.workers)
    @rule(number=which, errors=st.lists(st.sampled_from(TRANSIENT), min_size=1, max_size=4))
    def the_lease_table_is_throttled(self, number: int, errors: list[str]) -> None:
        """The next checkpoints fail in passing."""
        self.pick(number).daemon.checkpoint_errors = errors

    @precondition(lambda self: self.workers)
    @rule(number=which, skew_ms=st.integers(-MAX_SKEW_MS, MAX_SKEW_MS))
    def a_wall_clock_jumps(self, number: int, skew_ms: int) -> None:
        """NTP steps it; monotonic time goes on."""
        clock = self.pick(number).clock
        assert isinstance(clock, SkewedClock)
        clock.skew_ms = skew_ms

    # The end

    def teardown(self) -> None:
        """Let a worker without faults finish the shard, let late PUTs land, and compare with the model."""
        self.world.lease.on_write = self.check_checkpoint
        self.world.clock.advance(1)
        successor = self.world.started(seed=self.seed)
        successor.daemon.deliver()
        if self.seed % 2:
            self.world.shard.close("shardId-000000000001")
            successor.daemon.end_shard()
            assert self.world.lease.checkpoint == SHARD_END
        else:
            successor.daemon.request_shutdown()
        for zombie in self.workers:
            self.stop(zombie)
        self.world.bucket.land()
        self.every_checkpoint_was_legal()
        self.world.check_everything_archived()
