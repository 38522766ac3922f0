"""What all workers of a history share: time, the lease rows, the leader's lock, and the shards themselves."""

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from consumer.leases.rows import Checkpoint, LeaderLock, Lease


class Time:
    """A clock that jumps from event to event. Implements `minutebook.clock.Clock` for everybody."""

    def __init__(self) -> None:
        self.now = 0.0
        self._order = itertools.count()
        self._events: list[tuple[float, int, Callable[[], None]]] = []

    def now_ms(self) -> int:
        """Return the time in milliseconds."""
        return int(self.now * 1000)

    def monotonic(self) -> float:
        """Return the time in seconds."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let the others work."""
        self.run_until(self.now + seconds)

    def after(self, seconds: float, what: Callable[[], None]) -> None:
        """Do something later."""
        heapq.heappush(self._events, (self.now + seconds, next(self._order), what))

    def run_until(self, end: float) -> None:
        """Let everything happen until then; who sleeps in between may wake up later than it wanted."""
        while self._events and self._events[0][0] <= end:
            at, _, what = heapq.heappop(self._events)
            self.now = max(self.now, at)
            what()
        self.now = max(self.now, end)


@dataclass
class Lock:
    """The leader's row. `holder` is one run of a daemon, `worker` its worker id."""

    holder: object
    worker: str
    version: int = 0
    lasts_for_ever: bool = False


@dataclass
class Shard:
    """A shard: `read_at` when somebody got further on it last, `needed_since` when its turn came."""

    shard_id: str
    parents: frozenset[str] = frozenset()
    closed: bool = False
    read_at: float = 0.0
    needed_since: float | None = None


@dataclass
class Coordination:
    """The tables of one application."""

    time: Time
    shards: dict[str, Shard] = field(default_factory=dict)
    rows: dict[str, Lease] = field(default_factory=dict)
    lock: Lock | None = None
    reported: dict[str, float] = field(default_factory=dict)
    """Worker id -> when it last wrote its metrics."""

    def change(self, shard_id: str, *, owner: str | None = None, checkpoint: Checkpoint | None = None) -> None:
        """Write a row: its counter moves."""
        row = self.rows[shard_id]
        self.rows[shard_id] = replace_row(row, owner=owner or row.owner, checkpoint=checkpoint or row.checkpoint)

    def missing(self) -> list[Shard]:
        """Return the shards without a row, but for those whose row was removed behind their children's."""
        named = {parent for row in self.rows.values() for parent in row.parents}
        return [shard for name, shard in self.shards.items() if name not in self.rows and name not in named]

    def make_rows(self, *, children_of: str | None = None) -> None:
        """Make the rows that are missing; those of a shard's children alone when it ends."""
        for shard in self.missing():
            if children_of is None or children_of in shard.parents:
                self.rows[shard.shard_id] = Lease(shard.shard_id, "TRIM_HORIZON", parents=shard.parents)

    def is_finished(self, shard_id: str) -> bool:
        """Tell whether a shard is read to its end."""
        row = self.rows.get(shard_id)
        return row is not None and row.checkpoint == "SHARD_END"

    def seen_lock(self) -> LeaderLock | None:
        """Return the lock as the supervisor sees it."""
        return None if self.lock is None else LeaderLock(self.lock.worker, f"{id(self.lock)}-{self.lock.version}")


def replace_row(row: Lease, *, owner: str | None, checkpoint: Checkpoint) -> Lease:
    """Return the row with these values, and the next counter."""
    return row._replace(owner=owner, checkpoint=checkpoint, counter=row.counter + 1)
