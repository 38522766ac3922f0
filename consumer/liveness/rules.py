"""Which shards have no reader, by looks at the lease table. Pure: facts come in, findings go out.

    what is seen for so long                                what is done
    -----------------------------------------------------   -----------------------------------------------------
    a lease of ours, no processor of ours has opened it     restart
      and while our daemon was dead, its counter moved      give up (6): another daemon has our worker id
    a processor of ours that says nothing: it hangs         told; restart, if it goes on and others are called
    a lease whose counter does not move: nobody renews it   restart, if we lead or nobody does, and may take more
    a lease that moves from hand to hand                    only told
    a row that is gone, of a shard that is not finished     KCL makes it anew in its own time; then restart
    a leader's lock whose version does not move             the lock is removed

A shard whose parents are not finished waits for them, and a finished one needs no reader. KCL renews a lease every
third of `failoverTimeMillis` and the leader's lock every 30 s, and heals by itself what it can within a fail-over;
what has not moved for so long does not any more. Known reasons, of which most leave no line in its log:
awslabs/amazon-kinesis-client#1803, #1673 (the lock), #1669 (assignment has ended), #1804 (takes no lease), #461 (a
row that was deleted), and a lease row that KCL cannot open.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Generic, Literal, NamedTuple, TypeVar

from consumer.leases.rows import LeaderLock, Lease

PATIENCE_SECONDS: Final = 120.0
"""A reader within 150 s: KCL's own time, and what two looks take."""
LOCK_SECONDS: Final = 95.0
"""Three times its holder should have moved it. KCL takes it over after 120 s, if one daemon lives for so long.

A host that is lost may be seen to hold it 15 s later; once it is free, KCL takes 20 to 35 s to give leases away.
"""
ROW_SECONDS: Final = 900.0
"""KCL's leader looks for holes in the hash keys every two minutes, and acts on the third time."""
HANDOVER_SECONDS: Final = 60.0
"""What a worker that has just become the leader takes to give away what nobody renews."""

V = TypeVar("V")
Act = Literal["restart", "release_lock", "tell"]


class LeaseView(NamedTuple):
    """What was seen at one time, on the monotonic clock. `opened`: the shards that living processors have opened.

    `silences`: for how many seconds a shard's processor has said nothing, where that is known. `leases` is None where
    nobody looked: before the daemon is initialised it makes its tables.
    """

    at: float
    leases: Mapping[str, Lease] | None
    lock: LeaderLock | None
    opened: frozenset[str]
    silences: Mapping[str, float] = MappingProxyType({})


class StalledShard(NamedTuple):
    """One shard, or the lock, that is left alone. `shard` is empty for the lock."""

    event: str
    act: Act
    error: str
    next_step: str
    shard: str = ""
    lock: LeaderLock | None = None


@dataclass(slots=True)
class _Still(Generic[V]):
    """A value, and since when it is seen."""

    value: V
    since: float


class _Read(NamedTuple):
    """When a shard was seen to be read last, and what its row was at `at`, from when renewals are counted."""

    since: float
    owner: str | None
    counter: int
    at: float


@dataclass(slots=True)
class ReaderWatch:
    """What one supervisor has seen. `begin` with each daemon; lock and rows are remembered over all of them.

    `may_take_more`: no property bounds how many leases our daemon holds. `idle_seconds`: what KCL waits between two
    calls. `hang_seconds`: longer than a processor waits for the store without a word.
    """

    worker_id: str
    may_take_more: bool = True
    failover_seconds: float = 10.0
    idle_seconds: float = 1.5
    hang_seconds: float = 420.0
    _lock: _Still[LeaderLock] | None = None
    _led_since: float | None = None
    _ours: dict[str, float] = field(default_factory=dict)
    _counters: dict[str, _Still[tuple[int, str | None]]] = field(default_factory=dict)
    _gone: dict[str, float] = field(default_factory=dict)
    _known: set[str] = field(default_factory=set)
    _read: dict[str, _Read] = field(default_factory=dict)

    def begin(self) -> None:
        """Forget what was seen of the leases: a new daemon has its own time to take them."""
        self._ours.clear()
        self._counters.clear()
        self._gone.clear()
        self._read.clear()

    def seen_lock(self) -> tuple[LeaderLock, float] | None:
        """Return the lock as it was seen last, and since when it is like that."""
        return None if self._lock is None else (self._lock.value, self._lock.since)

    def seconds_to_lock(self, at: float) -> float | None:
        """Return when the lock will be dead if it does not move; None where nobody holds it, or it is by now."""
        left = None if self._lock is None else self._lock.since + LOCK_SECONDS - at
        return left if left is not None and left > 0 else None

    def remember_lock(self, lock: LeaderLock, since: float) -> None:
        """Go on where an earlier supervisor of this host has ended."""
        self._lock = _Still(lock, since)

    def look(self, look: LeaseView) -> list[StalledShard]:
        """Take what is seen now; return what has been left alone for too long."""
        dead_lock, leases = self._dead_lock(look), look.leases
        if leases is None:
            return dead_lock
        waiting = {shard: lease for shard, lease in leases.items() if needs_reader(lease, leases)}
        found = [
            *dead_lock,
            *self._unopened(look, waiting),
            *self._silent(look, waiting),
            *self._unrenewed(look, waiting),
            *self._rowless(look, leases),
        ]
        return [*found, *self._unread(look, waiting, {finding.shard for finding in found})]

    def _dead_lock(self, look: LeaseView) -> list[StalledShard]:
        seen = None if self._lock is None else self._lock.value
        if (None if seen is None else seen.owner) != (None if look.lock is None else look.lock.owner):
            self._led_since = look.at
        if look.lock is None:
            self._lock = None
            return []
        if self._lock is None or seen != look.lock:
            self._lock = _Still(look.lock, look.at)
        still = look.at - self._lock.since
        if still < LOCK_SECONDS:
            return []
        return [
            StalledShard(
                "leader_lock_dead",
                "release_lock",
                f"the leader's lock of {look.lock.owner} has not moved for {still:.0f} s: nobody assigns leases",
                "it is removed, and a living worker leads within seconds; if it happens again, look at that worker",
                lock=look.lock,
            )
        ]

    def _unopened(self, look: LeaseView, waiting: Mapping[str, Lease]) -> list[StalledShard]:
        ours = {shard for shard, lease in waiting.items() if lease.owner == self.worker_id}
        left = ours - look.opened
        self._ours = {shard: self._ours.get(shard, look.at) for shard in left}
        return [
            StalledShard(
                "shard_without_reader",
                "restart",
                f"the lease of {shard} has been ours for {look.at - since:.0f} s, and no processor has opened it",
                "the daemon is started again; if that does not help, minutebook docs runbook shard_without_reader",
                shard,
            )
            for shard, since in sorted(self._ours.items())
            if look.at - since >= PATIENCE_SECONDS
        ]

    def _silent(self, look: LeaseView, waiting: Mapping[str, Lease]) -> list[StalledShard]:
        """Find processors that hang: KCL waits for them for ever. Where all are silent it may call nobody."""
        patience = PATIENCE_SECONDS + self.idle_seconds
        is_called = any(seconds < patience for seconds in look.silences.values())
        why = "waits for the store" if is_called else "KCL calls none of ours"
        return [
            StalledShard(
                "shard_without_reader",
                "restart" if is_called and seconds >= self.hang_seconds + self.idle_seconds else "tell",
                f"the processor of {shard} has said nothing for {seconds:.0f} s: it hangs, or {why}",
                "look at the lines before this one, at S3 and Kinesis; minutebook docs runbook shard_without_reader",
                shard,
            )
            for shard, seconds in sorted(look.silences.items())
            if seconds >= patience and shard in waiting and waiting[shard].owner == self.worker_id
        ]

    def _unrenewed(self, look: LeaseView, waiting: Mapping[str, Lease]) -> list[StalledShard]:
        counters = {}
        for shard, lease in waiting.items():
            value = lease.counter, lease.owner
            before = self._counters.get(shard)
            counters[shard] = before if before is not None and before.value == value else _Still(value, look.at)
        self._counters = counters
        leads = look.lock is None or look.lock.owner == self.worker_id
        is_new = self._led_since is not None and look.at - self._led_since < HANDOVER_SECONDS
        act: Act = "restart" if leads and self.may_take_more and not is_new else "tell"
        next_step = (
            "the daemon is started again; if that does not help, minutebook docs runbook shard_without_reader"
            if act == "restart"
            else "look at the worker that leads, and whether maxLeasesForWorker leaves room for every shard"
        )
        return [
            StalledShard(
                "shard_without_reader",
                act,
                f"nobody has renewed the lease of {shard} for {look.at - still.since:.0f} s "
                f"({'it is free' if waiting[shard].owner is None else f'it belongs to {waiting[shard].owner}'})",
                next_step,
                shard,
            )
            for shard, still in sorted(counters.items())
            if look.at - still.since >= PATIENCE_SECONDS
            and not (waiting[shard].owner == self.worker_id and shard in self._ours)
        ]

    def _unread(self, look: LeaseView, waiting: Mapping[str, Lease], found: Collection[str]) -> list[StalledShard]:
        """Tell of shards that nobody reads although their leases move: each worker gets one, and does not take it.

        Read is what we have opened, and what its owner renews twice in a fail-over, or more: KCL does so three times,
        and whoever gives a lease away again and again does it at most once.
        """
        self._read = {shard: self._seen_read(look, shard, lease) for shard, lease in waiting.items()}
        return [
            StalledShard(
                "shard_without_reader",
                "tell",
                f"nobody has been seen to read {shard} for {look.at - seen.since:.0f} s, though its lease moves "
                f"(it belongs to {waiting[shard].owner})",
                "look at the worker that it belongs to; minutebook docs runbook shard_without_reader",
                shard,
            )
            for shard, seen in sorted(self._read.items())
            if look.at - seen.since >= PATIENCE_SECONDS and shard not in found
        ]

    def _seen_read(self, look: LeaseView, shard: str, lease: Lease) -> "_Read":
        """Return when the shard was seen to be read last: at first, when it was seen at all."""
        now = _Read(look.at, lease.owner, lease.counter, look.at)
        before = self._read.get(shard)
        if before is None or (lease.owner == self.worker_id and shard in look.opened):
            return now
        if lease.owner != before.owner or lease.counter < before.counter:
            return now._replace(since=before.since)
        fail_overs = (look.at - before.at) / self.failover_seconds
        if lease.owner is None or fail_overs < 1:
            return before
        is_read = lease.owner != self.worker_id and lease.counter - before.counter >= 2 * fail_overs
        return now if is_read else now._replace(since=before.since)

    def _rowless(self, look: LeaseView, leases: Mapping[str, Lease]) -> list[StalledShard]:
        """Find rows that are gone: KCL's processor ends with its row, and nobody reads the shard from then on.

        KCL itself removes the row of a finished shard once its children are read; their rows name it. A row that
        somebody deleted is made anew by the leader that misses it three times in a row: a restart would make it begin
        to count again.
        """
        self._known -= {shard for shard, lease in leases.items() if lease.checkpoint == "SHARD_END"}
        self._known -= {parent for lease in leases.values() for parent in lease.parents}
        left = (look.opened | self._known) - leases.keys()
        self._known |= {shard for shard, lease in leases.items() if lease.checkpoint != "SHARD_END"}
        self._gone = {shard: self._gone.get(shard, look.at) for shard in left}
        return [
            StalledShard(
                "shard_without_reader",
                "restart" if look.at - since >= ROW_SECONDS else "tell",
                f"the lease row of {shard}, which is not finished, has been gone for {look.at - since:.0f} s",
                "KCL's leader makes it anew within ten minutes; nobody may delete rows while workers live: "
                "minutebook docs runbook shard_without_reader",
                shard,
            )
            for shard, since in sorted(self._gone.items())
            if look.at - since >= PATIENCE_SECONDS
        ]


def needs_reader(lease: Lease, leases: Mapping[str, Lease]) -> bool:
    """Tell whether somebody must read this shard now: it is not finished, and all of its parents are."""
    if lease.checkpoint == "SHARD_END":
        return False
    return all(leases[parent].checkpoint == "SHARD_END" for parent in lease.parents if parent in leases)


def used_twice(worker_id: str, before: Mapping[str, Lease], after: Mapping[str, Lease]) -> list[str]:
    """Return the leases of this worker that somebody renewed between two looks while its daemon was dead."""
    return sorted(
        shard
        for shard, lease in after.items()
        if lease.owner == worker_id and shard in before and before[shard].owner == worker_id
        if lease.counter != before[shard].counter
    )
