"""One run of KCL's daemon, as far as leases go, with the stalls that it is known for.

    every 3.3 s ......... renew the leases that it holds; one that somebody changed is lost
    every 5 s ........... look for leases that were given to it, and open them: a child when its parents are finished
    every 20 s .......... try for the leader's lock; the leader gives away what nobody renews
    every 30 s .......... move the lock's version, and report that it lives
    every 120 s ......... the leader makes the rows that are missing, the third time in a row that it misses some

(LeaseCoordinator, LeaseAssignmentManager, DynamoDBLockBasedLeaderDecider, LeaseDiscoverer of amazon-kinesis-client
3.1.3.) Who leads is known by the run, not by the worker's name: a leader that is started again is a stranger to its
own lock. A lock is taken over by a run that has itself seen it unmoved for 120 s.
"""

import random
from collections.abc import Callable, Iterable
from typing import Final, Literal

from tests.simulation.coordinator.table import Coordination, Lock

FAILOVER_SECONDS: Final = 10.0
_RENEW_SECONDS: Final = FAILOVER_SECONDS / 3
_DISCOVER_SECONDS: Final = 5.0
_ASSIGN_SECONDS: Final = 20.0
_BEAT_SECONDS: Final = 30.0
_LOCK_SECONDS: Final = 120.0
_ALIVE_SECONDS: Final = 75.0
_AUDIT_SECONDS: Final = 120.0
_BELIEVED: Final = 3

Stall = Literal["assigns nothing", "takes nothing", "renews nothing", "opens not all"]
STALLS: Final[tuple[Stall, ...]] = ("assigns nothing", "takes nothing", "renews nothing", "opens not all")


class Daemon:
    """A run. `opened` are the shards with a processor; `stalls` what this run has stopped to do, for good."""

    def __init__(self, worker: str, tables: Coordination, rng: random.Random, say: Callable[[str], None]) -> None:
        self.worker = worker
        self.is_alive = True
        self.is_frozen = False
        self.is_initialised = False
        self.opened: set[str] = set()
        self.stalls: set[Stall] = set()
        self.unopenable: set[str] = set()
        self._tables = tables
        self._rng = rng
        self._say = say
        self._held: dict[str, int] = {}
        self._watched: tuple[object, int, float] | None = None
        self._counters: dict[str, tuple[int, float]] = {}
        self._missed = 0
        tables.time.after(rng.uniform(5, 25), self._initialise)

    @property
    def leads(self) -> bool:
        """Tell whether it holds the lock."""
        lock = self._tables.lock
        return lock is not None and lock.holder is self

    def _initialise(self) -> None:
        if not self.is_alive:
            return
        self.is_initialised = True
        self._report()
        self._try_lock()
        if not self._tables.rows:  # only then: a row that is missing among others waits for the audit
            self._tables.make_rows()
        for seconds, act in (
            (_RENEW_SECONDS, self._renew),
            (_DISCOVER_SECONDS, self._discover),
            (_ASSIGN_SECONDS, self._assign),
            (_BEAT_SECONDS, self._beat),
            (_AUDIT_SECONDS, self._audit),
        ):
            self._every(seconds, act)
        self._discover()

    def _every(self, seconds: float, act: Callable[[], None]) -> None:
        def again() -> None:
            if not self.is_alive:
                return
            if not self.is_frozen:
                act()
            self._tables.time.after(seconds, again)

        self._tables.time.after(self._rng.uniform(0, seconds), again)

    def _renew(self) -> None:
        if "renews nothing" in self.stalls:
            self._read(self.opened)
            return
        for shard, counter in list(self._held.items()):
            row = self._tables.rows.get(shard)
            if row is None or row.owner != self.worker or row.counter != counter or row.checkpoint == "SHARD_END":
                self._drop(shard)
            else:
                self._tables.change(shard)
                self._held[shard] = counter + 1
        self._read(self.opened)

    def _read(self, shards: Iterable[str]) -> None:
        """Get further on what is open; end what is closed."""
        now = self._tables.time.now
        for name in list(shards):
            shard = self._tables.shards[name]
            shard.read_at = now
            row = self._tables.rows.get(name)
            if shard.closed and row is not None and row.counter == self._held.get(name):
                self._tables.change(name, checkpoint="SHARD_END")
                self._say(f"{self.worker}: {name} is finished")
                self._drop(name)
                self._tables.make_rows(children_of=name)

    def _drop(self, shard: str) -> None:
        self._held.pop(shard, None)
        self.opened.discard(shard)

    def _discover(self) -> None:
        if "takes nothing" in self.stalls:
            return
        for shard, row in self._tables.rows.items():
            if row.owner == self.worker and shard not in self._held and row.checkpoint != "SHARD_END":
                self._held[shard] = row.counter
        for shard in self._held:
            parents = self._tables.shards[shard].parents & self._tables.rows.keys()
            is_stuck = "opens not all" in self.stalls and shard in self.unopenable
            if not is_stuck and all(map(self._tables.is_finished, parents)) and shard not in self.opened:
                self.opened.add(shard)
                self._say(f"{self.worker}: {shard} is opened")

    def _beat(self) -> None:
        self._report()
        if self.leads and self._tables.lock is not None:
            self._tables.lock.version += 1

    def _report(self) -> None:
        self._tables.reported[self.worker] = self._tables.time.now

    def _try_lock(self) -> None:
        lock, now = self._tables.lock, self._tables.time.now
        if lock is None:
            self._take_lock()
        elif lock.holder is not self:
            if self._watched is None or self._watched[:2] != (lock, lock.version):
                self._watched = lock, lock.version, now
            if now - self._watched[2] >= _LOCK_SECONDS and not lock.lasts_for_ever:
                self._take_lock()

    def _take_lock(self) -> None:
        self._tables.lock = Lock(self, self.worker)
        self._counters.clear()
        self._say(f"{self.worker}: leads")

    def _assign(self) -> None:
        """Give away what nobody renews, to whoever lives and has least."""
        self._try_lock()
        if not self.leads or "assigns nothing" in self.stalls:
            return
        tables, now = self._tables, self._tables.time.now
        living = sorted(worker for worker, at in tables.reported.items() if now - at <= _ALIVE_SECONDS)
        for shard, row in tables.rows.items():
            if row.checkpoint == "SHARD_END":
                continue
            counter, since = self._counters.get(shard, (-1, now))
            if counter != row.counter:
                since = now
                self._counters[shard] = row.counter, now
            if living and (row.owner is None or now - since > FAILOVER_SECONDS):
                loads = {worker: sum(other.owner == worker for other in tables.rows.values()) for worker in living}
                successor = min(living, key=lambda worker: (loads[worker], self._rng.random()))
                tables.change(shard, owner=successor)
                self._say(f"{self.worker}: gives {shard} to {successor}")

    def _audit(self) -> None:
        """Look for shards without a row; the third time in a row they are believed."""
        self._missed = self._missed + 1 if self.leads and self._tables.missing() else 0
        if self._missed >= _BELIEVED:
            self._tables.make_rows()
