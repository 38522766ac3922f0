"""The lease table of a history: its rows, what `minutebook restore` sees of them, and the workers that renew them."""

from typing import TYPE_CHECKING, Any, Final, cast

from consumer.leases.rows import Lease as StoredLease
from consumer.leases.rows import LeaseRows, lease_item, parse_rows
from minutebook.format.position import Position
from tests.fakes.daemon_double import SHARD_END, Checkpoint, Lease
from tests.fakes.shard import FakeShard
from tests.simulation.world import Host, Violation, name

if TYPE_CHECKING:
    from tests.simulation.histories.shard_site import ShardSite
    from tests.simulation.histories.sharded_history import ShardedHistory
    from tests.simulation.services.kcl import Consumer

FAILOVER_SECONDS: Final = 10


class LeaseRow(Lease):
    """One row of the lease table as a whole: there or not, its counter, and how often anybody changed it."""

    def __init__(self, shard: FakeShard, *, start: str = "TRIM_HORIZON", at_timestamp_ms: int | None = None) -> None:
        super().__init__(shard, start=start, at_timestamp_ms=at_timestamp_ms)
        self.present = False
        self.row_counter = 0
        self.changes = 0
        self.owner: str | None = None

    def take(self) -> int:
        """Give the lease to a new consumer; makes the row when it is missing."""
        self.present = True
        self.owner = f"worker-{self.row_counter}"
        self._changed()
        return super().take()

    def renew(self) -> None:
        """Let the owner renew, as it does every third of a fail-over."""
        self._changed()

    def wipe(self) -> None:
        """Delete the row."""
        super().wipe()
        self.present, self.owner, self.row_counter = False, None, 0
        self.changes += 1

    def write(self, counter: int, checkpoint: Checkpoint) -> bool:
        """Store a checkpoint, if the lease is still held."""
        if not super().write(counter, checkpoint):
            return False
        self._changed()
        return True

    def replace(self, checkpoint: Checkpoint, counter: int) -> None:
        """Write the whole row, as `minutebook restore` does: every consumer before is fenced out."""
        super().wipe()
        self.checkpoint, self.row_counter = checkpoint, counter
        self.changes += 1
        self.present, self.owner = True, None
        if isinstance(checkpoint, Position) or checkpoint == SHARD_END:
            self.written.append(checkpoint)
            if self.on_write is not None:
                self.on_write(checkpoint)

    def _changed(self) -> None:
        self.row_counter += 1
        self.changes += 1


class SimLeaseTable:
    """Implements `consumer.leases.rows.LeaseTable` on the rows of a history. Who lives renews its rows, seen or not.

    `seen_alive` holds, for each look, the consumers that lived then: waiting for work, their daemon with them. One
    that is held up is taken for frozen with its machine.
    """

    def __init__(self, history: "ShardedHistory", host: Host) -> None:
        self._history = history
        self._host = host
        self._renewed_at: dict[str, float] = {}
        self.seen_alive: list[set[Consumer]] = []
        self.written: list[ShardSite] = []

    def read(self) -> LeaseRows | None:
        """Return the rows, through the product's own reading and writing of them."""
        self._ask()
        self.seen_alive.append(set(self._renew()))
        rows = [site for site in self._history.shard_sites if site.lease.present]
        if not rows and self._history.world.chance(0.5):
            return None
        return parse_rows([lease_item(_row(site), single_table=True) for site in rows])

    def create(self) -> None:
        """Make the table unless it is there."""
        self._ask()

    def put(self, lease: StoredLease, seen: StoredLease | None) -> bool:
        """Put under the condition of `consumer.leases.rows.put_condition`."""
        self._ask()
        self._renew()
        site = next((site for site in self._history.shard_sites if site.shard_id == lease.shard_id), None)
        if site is None:
            return True  # a shard that had ended before the application began; it is listed all the same
        row = site.lease
        if row.present != (seen is not None) or (seen is not None and seen.counter != row.row_counter):
            return False
        alive = set.intersection(*self.seen_alive)
        if alive:
            raise Violation(f"restore wrote a row although {next(iter(alive)).host.name} lives")
        row.replace(lease.checkpoint, lease.counter)
        self.written.append(site)
        number = site.stream.shard.index.get(lease.checkpoint) if isinstance(lease.checkpoint, Position) else None
        self._host.note(f"row of {lease.shard_id}: {lease.checkpoint if number is None else name(number)}")
        return True

    def release_leader(self, owner: str | None = None, version: str | None = None) -> bool:  # noqa: ARG002 - the port's
        """There is no leader here."""
        return False

    def _ask(self) -> None:
        self._host.request("lease table")
        self._host.point("before a request about leases")

    def _renew(self) -> "list[Consumer]":
        now = self._history.world.now
        alive = []
        for site in self._history.shard_sites:
            owner = self._history.owner_of(site)
            if owner is None:
                continue
            alive.append(owner)
            since = self._renewed_at.setdefault(site.shard_id, now)
            if now - since >= FAILOVER_SECONDS / 3:
                site.lease.renew()
                self._renewed_at[site.shard_id] = now
        return alive


def _row(site: "ShardSite") -> StoredLease:
    lease, shards = site.lease, site.stream.shards
    checkpoint = lease.checkpoint
    return StoredLease(
        shard_id=site.shard_id,
        checkpoint=cast("Any", checkpoint),
        counter=lease.row_counter,
        owner=lease.owner,
        parents=frozenset(site.stream.shard.parents),
        children=frozenset(stream.shard.shard_id for stream in shards if site.shard_id in stream.shard.parents),
        starting_hash_key=str(site.stream.shard.hash_range.first),
        ending_hash_key=str(site.stream.shard.hash_range.last),
    )
