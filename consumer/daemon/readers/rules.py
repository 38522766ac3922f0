"""Which shards have no reader, by looks at the lease table. Pure: facts come in, findings go out.

    what is seen for so long                                what is done
    -----------------------------------------------------   -----------------------------------------------------
    a lease of ours, no processor of ours has opened it     restart
      and while our daemon was dead, its counter moved      give up (6): another daemon has our worker id
    a lease whose counter does not move: nobody renews it   restart, if we lead or nobody does, and may take more
    a shard that we read, whose row is gone                 restart
    a leader's lock whose version does not move             the lock is removed

A shard whose parents are not finished waits for them, and a finished one needs no reader. KCL renews a lease every
third of `failoverTimeMillis` and the leader's lock every 30 s, and heals by itself what it can within a fail-over;
what has not moved for so long does not any more. Known reasons, of which most leave no line in its log:
awslabs/amazon-kinesis-client#1803, #1673 (the lock), #1669 (assignment has ended), #1804 (takes no lease), #461 (a
row that was deleted), and a lease row that KCL cannot open.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from consumer.leases.rows import LeaderLock, Lease

PATIENCE_SECONDS: Final = 120.0
"""A reader within 150 s: KCL's own time, and what two looks take."""
LOCK_SECONDS: Final = 110.0
"""Three times its holder should have moved it. KCL takes it over after 120 s, if one daemon lives for so long."""

Act = Literal["restart", "release_lock", "tell"]


class Look(NamedTuple):
    """What was seen at one time, on the monotonic clock. `opened`: the shards that living processors have opened."""

    at: float
    leases: Mapping[str, Lease]
    lock: LeaderLock | None
    opened: frozenset[str]


class Finding(NamedTuple):
    """One shard, or the lock, that is left alone. `shard` is empty for the lock."""

    event: str
    act: Act
    error: str
    next_step: str
    shard: str = ""
    lock: LeaderLock | None = None


@dataclass(slots=True)
class _Still:
    """A value, and since when it is seen."""

    value: object
    since: float


@dataclass(slots=True)
class ReaderWatch:
    """What one supervisor has seen. `begin` with each daemon; the lock is remembered over all of them.

    `may_take_more`: no property bounds how many leases our daemon holds.
    """

    worker_id: str
    may_take_more: bool = True
    _lock: _Still | None = None
    _ours: dict[str, float] = field(default_factory=dict)
    _counters: dict[str, _Still] = field(default_factory=dict)
    _gone: dict[str, float] = field(default_factory=dict)
    _counted_by: dict[str, int] = field(default_factory=dict)

    def begin(self) -> None:
        """Forget what was seen of the leases: a new daemon has its own time to take them."""
        self._ours.clear()
        self._counters.clear()
        self._gone.clear()

    def look(self, look: Look) -> list[Finding]:
        """Take what is seen now; return what has been left alone for too long."""
        waiting = {shard: lease for shard, lease in look.leases.items() if needs_reader(lease, look.leases)}
        return [
            *self._dead_lock(look),
            *self._unopened(look, waiting),
            *self._unrenewed(look, waiting),
            *self._rowless(look),
        ]

    def _dead_lock(self, look: Look) -> list[Finding]:
        if look.lock is None:
            self._lock = None
            return []
        if self._lock is None or self._lock.value != look.lock:
            self._lock = _Still(look.lock, look.at)
        still = look.at - self._lock.since
        if still < LOCK_SECONDS:
            return []
        return [
            Finding(
                "leader_lock_dead",
                "release_lock",
                f"the leader's lock of {look.lock.owner} has not moved for {still:.0f} s: nobody assigns leases",
                "it is removed, and a living worker leads within seconds; if it happens again, look at that worker",
                lock=look.lock,
            )
        ]

    def _unopened(self, look: Look, waiting: Mapping[str, Lease]) -> list[Finding]:
        ours = {shard for shard, lease in waiting.items() if lease.owner == self.worker_id}
        left = ours - look.opened
        self._ours = {shard: self._ours.get(shard, look.at) for shard in left}
        return [
            Finding(
                "shard_without_reader",
                "restart",
                f"the lease of {shard} has been ours for {look.at - since:.0f} s, and no processor has opened it",
                "the daemon is started again; if that does not help, docs/runbook.md#shard_without_reader",
                shard,
            )
            for shard, since in sorted(self._ours.items())
            if look.at - since >= PATIENCE_SECONDS
        ]

    def _unrenewed(self, look: Look, waiting: Mapping[str, Lease]) -> list[Finding]:
        counters = {}
        for shard, lease in waiting.items():
            value = lease.counter, lease.owner
            before = self._counters.get(shard)
            counters[shard] = before if before is not None and before.value == value else _Still(value, look.at)
        self._counters = counters
        leads = look.lock is None or look.lock.owner == self.worker_id
        act: Act = "restart" if leads and self.may_take_more else "tell"
        next_step = (
            "the daemon is started again; if that does not help, docs/runbook.md#shard_without_reader"
            if act == "restart"
            else "look at the worker that leads, and whether maxLeasesForWorker leaves room for every shard"
        )
        return [
            Finding(
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

    def _rowless(self, look: Look) -> list[Finding]:
        left = look.opened - look.leases.keys()
        self._gone = {shard: self._gone.get(shard, look.at) for shard in left}
        return [
            Finding(
                "shard_without_reader",
                "restart",
                f"the lease row of {shard}, which we read, has been gone for {look.at - since:.0f} s",
                "the daemon is started again and KCL makes the row anew; nobody may delete rows while workers live",
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
