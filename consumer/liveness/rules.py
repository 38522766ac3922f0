"""Find shards without a reader in views of the lease table. Pure.

    what lasts for too long                                 what follows
    -----------------------------------------------------   -----------------------------------------------------
    a lease of ours, no processor of ours has opened it     restart
      and while our daemon was dead, its counter moved      give up (6): another daemon has our worker id
    a processor of ours logs nothing: it hangs              an error; later a restart, if KCL calls other processors
    a lease's counter does not move: nobody renews it       restart, if we lead or nobody does, and may take more
    a lease changes its owner all the time                  an error
    the row of an unfinished shard is gone                  an error: KCL creates it again; later a restart
    the version of the leader's lock does not move          the lock is removed

A shard whose parents are not finished waits for them, and a finished one needs no reader. KCL renews a lease every
third of `failoverTimeMillis` and the leader's lock every 30 s, and repairs what it can within a fail-over. Known
causes of what it does not repair, most of them without a line in its log: awslabs/amazon-kinesis-client#1803, #1673
(the lock), #1669 (assignment has ended), #1804 (takes no lease), #461 (a deleted row), and a lease row that KCL
cannot open.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from consumer.leases.rows import LeaderLock, Lease

PATIENCE_SECONDS: Final = 120.0
"""With two polls, a shard without a reader is found within 150 s; KCL needs up to 120 s itself."""
LOCK_SECONDS: Final = 95.0
"""Its holder should have moved it three times. KCL takes it over after 120 s, if one daemon lives that long.

Polls are 15 s apart, so the count may begin 15 s after a host is lost; once the lock is free, KCL takes 20 to 35 s
to assign leases.
"""
ROW_SECONDS: Final = 900.0
"""KCL's leader checks for holes in the hash keys every two minutes, and acts on the third in a row."""
HANDOVER_SECONDS: Final = 60.0
"""The time that a new leader takes to assign leases that nobody renews."""

Act = Literal["restart", "release_lock", "tell"]


class LeaseView(NamedTuple):
    """The lease table and our processors at one time, on the monotonic clock.

    `opened` are the shards that living processors have opened, `silences` the seconds since those processors' last
    lines, where known. `leases` is None before the daemon has initialised: it creates its tables.
    """

    at: float
    leases: Mapping[str, Lease] | None
    lock: LeaderLock | None
    opened: frozenset[str]
    silences: Mapping[str, float] = MappingProxyType({})


class StalledShard(NamedTuple):
    """A shard without a reader, or a lock that does not move; then `shard` is empty."""

    event: str
    act: Act
    error: str
    next_step: str
    shard: str = ""
    lock: LeaderLock | None = None


class SeenLock(NamedTuple):
    """The leader's lock, and since when it has not moved, in seconds since the host's boot."""

    lock: LeaderLock
    since: float


class _Counter(NamedTuple):
    """A lease's counter and owner, and since when they have not changed."""

    counter: int
    owner: str | None
    since: float


class _Read(NamedTuple):
    """When a shard was last read (`since`), and its row at the time `at`, from which renewals are counted."""

    since: float
    owner: str | None
    counter: int
    at: float


@dataclass(slots=True)
class ReaderWatch:
    """The history of one supervisor's views. Call `begin` for each daemon; lock and known rows outlive it.

    `may_take_more`: no property limits the leases of our daemon. `idle_seconds`: KCL's wait between two calls.
    `hang_seconds`: longer than a processor waits for the store without a log line.
    """

    worker_id: str
    may_take_more: bool = True
    failover_seconds: float = 10.0
    idle_seconds: float = 1.5
    hang_seconds: float = 420.0
    seen_lock: SeenLock | None = None
    _led_since: float | None = None
    _ours: dict[str, float] = field(default_factory=dict)
    _counters: dict[str, _Counter] = field(default_factory=dict)
    _gone: dict[str, float] = field(default_factory=dict)
    _known: set[str] = field(default_factory=set)
    _read: dict[str, _Read] = field(default_factory=dict)

    def begin(self) -> None:
        """Forget the history of the leases: a new daemon has its own time to take them."""
        self._ours.clear()
        self._counters.clear()
        self._gone.clear()
        self._read.clear()

    def seconds_to_lock(self, at: float) -> float | None:
        """Return the seconds until an unmoved lock is dead; None if it is, or nobody holds it."""
        seconds = None if self.seen_lock is None else self.seen_lock.since + LOCK_SECONDS - at
        return seconds if seconds is not None and seconds > 0 else None

    def judge(self, view: LeaseView) -> list[StalledShard]:
        """Add a view; return the shards that have had no reader for too long, and a dead lock."""
        dead_lock, leases = self._dead_lock(view), view.leases
        if leases is None:
            return dead_lock
        waiting = {shard: lease for shard, lease in leases.items() if needs_reader(lease, leases)}
        findings = [
            *dead_lock,
            *self._unopened(view, waiting),
            *self._silent(view, waiting),
            *self._unrenewed(view, waiting),
            *self._rowless(view, leases),
        ]
        return [*findings, *self._unread(view, waiting, {finding.shard for finding in findings})]

    def _dead_lock(self, view: LeaseView) -> list[StalledShard]:
        lock = None if self.seen_lock is None else self.seen_lock.lock
        if (None if lock is None else lock.owner) != (None if view.lock is None else view.lock.owner):
            self._led_since = view.at
        if view.lock is None:
            self.seen_lock = None
            return []
        if self.seen_lock is None or lock != view.lock:
            self.seen_lock = SeenLock(view.lock, view.at)
        unmoved = view.at - self.seen_lock.since
        if unmoved < LOCK_SECONDS:
            return []
        return [
            StalledShard(
                "leader_lock_dead",
                "release_lock",
                f"the leader's lock of {view.lock.owner} has not moved for {unmoved:.0f} s: nobody assigns leases",
                "it is removed, and a living worker leads within seconds; if it happens again, look at that worker",
                lock=view.lock,
            )
        ]

    def _unopened(self, view: LeaseView, waiting: Mapping[str, Lease]) -> list[StalledShard]:
        ours = {shard for shard, lease in waiting.items() if lease.owner == self.worker_id}
        self._ours = {shard: self._ours.get(shard, view.at) for shard in ours - view.opened}
        return [
            StalledShard(
                "shard_without_reader",
                "restart",
                f"the lease of {shard} has been ours for {view.at - since:.0f} s, and no processor has opened it",
                "the daemon is started again; if that does not help, minutebook docs runbook shard_without_reader",
                shard,
            )
            for shard, since in sorted(self._ours.items())
            if view.at - since >= PATIENCE_SECONDS
        ]

    def _silent(self, view: LeaseView, waiting: Mapping[str, Lease]) -> list[StalledShard]:
        """Find processors that hang, for which KCL waits for ever. If all are silent, KCL may call none."""
        patience = PATIENCE_SECONDS + self.idle_seconds
        is_called = any(seconds < patience for seconds in view.silences.values())
        why = "waits for the store" if is_called else "KCL calls none of ours"
        return [
            StalledShard(
                "shard_without_reader",
                "restart" if is_called and seconds >= self.hang_seconds + self.idle_seconds else "tell",
                f"the processor of {shard} has said nothing for {seconds:.0f} s: it hangs, or {why}",
                "look at the lines before this one, at S3 and Kinesis; minutebook docs runbook shard_without_reader",
                shard,
            )
            for shard, seconds in sorted(view.silences.items())
            if seconds >= patience and shard in waiting and waiting[shard].owner == self.worker_id
        ]

    def _unrenewed(self, view: LeaseView, waiting: Mapping[str, Lease]) -> list[StalledShard]:
        counters = {}
        for shard, lease in waiting.items():
            before = self._counters.get(shard)
            is_same = before is not None and (before.counter, before.owner) == (lease.counter, lease.owner)
            counters[shard] = before if before and is_same else _Counter(lease.counter, lease.owner, view.at)
        self._counters = counters
        leads = view.lock is None or view.lock.owner == self.worker_id
        is_new = self._led_since is not None and view.at - self._led_since < HANDOVER_SECONDS
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
                f"nobody has renewed the lease of {shard} for {view.at - counter.since:.0f} s "
                f"({'it is free' if waiting[shard].owner is None else f'it belongs to {waiting[shard].owner}'})",
                next_step,
                shard,
            )
            for shard, counter in sorted(counters.items())
            if view.at - counter.since >= PATIENCE_SECONDS
            and not (waiting[shard].owner == self.worker_id and shard in self._ours)
        ]

    def _unread(self, view: LeaseView, waiting: Mapping[str, Lease], others: Collection[str]) -> list[StalledShard]:
        """Find shards that nobody reads although their leases move from worker to worker.

        A shard is read if we have opened it, or if its owner renews the lease at least twice in a fail-over: KCL does
        so three times, while a lease that is only passed on moves at most once.
        """
        self._read = {shard: self._last_read(view, shard, lease) for shard, lease in waiting.items()}
        return [
            StalledShard(
                "shard_without_reader",
                "tell",
                f"nobody has been seen to read {shard} for {view.at - last.since:.0f} s, though its lease moves "
                f"(it belongs to {waiting[shard].owner})",
                "look at the worker that it belongs to; minutebook docs runbook shard_without_reader",
                shard,
            )
            for shard, last in sorted(self._read.items())
            if view.at - last.since >= PATIENCE_SECONDS and shard not in others
        ]

    def _last_read(self, view: LeaseView, shard: str, lease: Lease) -> _Read:
        """Return when the shard was last read; for a new shard, now."""
        now = _Read(view.at, lease.owner, lease.counter, view.at)
        before = self._read.get(shard)
        if before is None or (lease.owner == self.worker_id and shard in view.opened):
            return now
        if lease.owner != before.owner or lease.counter < before.counter:
            return now._replace(since=before.since)
        fail_overs = (view.at - before.at) / self.failover_seconds
        if lease.owner is None or fail_overs < 1:
            return before
        is_read = lease.owner != self.worker_id and lease.counter - before.counter >= 2 * fail_overs
        return now if is_read else now._replace(since=before.since)

    def _rowless(self, view: LeaseView, leases: Mapping[str, Lease]) -> list[StalledShard]:
        """Find deleted rows: a processor ends with its row, and nobody reads the shard from then on.

        KCL itself removes the row of a finished shard once its children are read; their rows name it. The leader
        creates a deleted row when it has missed it three times in a row; a restart would reset that count.
        """
        finished = {shard for shard, lease in leases.items() if lease.checkpoint == "SHARD_END"}
        self._known -= finished.union(*(lease.parents for lease in leases.values()))
        missing = (view.opened | self._known) - leases.keys()
        self._known |= leases.keys() - finished
        self._gone = {shard: self._gone.get(shard, view.at) for shard in missing}
        return [
            StalledShard(
                "shard_without_reader",
                "restart" if view.at - since >= ROW_SECONDS else "tell",
                f"the lease row of {shard}, which is not finished, has been gone for {view.at - since:.0f} s",
                "KCL's leader makes it anew within ten minutes; nobody may delete rows while workers live: "
                "minutebook docs runbook shard_without_reader",
                shard,
            )
            for shard, since in sorted(self._gone.items())
            if view.at - since >= PATIENCE_SECONDS
        ]


def needs_reader(lease: Lease, leases: Mapping[str, Lease]) -> bool:
    """Return whether the shard needs a reader now: it is not finished, and all of its parents are."""
    if lease.checkpoint == "SHARD_END":
        return False
    return all(leases[parent].checkpoint == "SHARD_END" for parent in lease.parents if parent in leases)


def used_twice(worker_id: str, before: Mapping[str, Lease], after: Mapping[str, Lease]) -> list[str]:
    """Return the leases of this worker that were renewed between two views, while its daemon was dead."""
    return sorted(
        shard
        for shard, lease in after.items()
        if lease.owner == worker_id and shard in before and before[shard].owner == worker_id
        if lease.counter != before[shard].counter
    )
