"""The lease table of a history as `minutebook restore` sees it, and the workers that renew its rows meanwhile."""

from typing import TYPE_CHECKING, Any, Final, cast

from archive.format.position import Position
from consumer.leases.rows import Lease, LeaseRows, lease_item, parse_rows
from tests.simulation.ledger import name
from tests.simulation.world import Host, Violation

if TYPE_CHECKING:
    from tests.simulation.kcl import Consumer
    from tests.simulation.sharded import ShardedHistory
    from tests.simulation.shards import ShardSite

FAILOVER_SECONDS: Final = 10


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

    def put(self, lease: Lease, seen: Lease | None) -> bool:
        """Put under the condition of `consumer.leases.rows.put_condition`."""
        self._ask()
        self._renew()
        site = next(site for site in self._history.shard_sites if site.shard_id == lease.shard_id)
        row = site.lease
        if row.present != (seen is not None) or (seen is not None and seen.counter != row.row_counter):
            return False
        alive = set.intersection(*self.seen_alive)
        if alive:
            raise Violation(f"restore wrote a row although {next(iter(alive)).host.name} lives")
        row.replace(lease.checkpoint, lease.counter)
        self.written.append(site)
        if self._history.world.trace is not None:
            number = site.stream.shard.index.get(lease.checkpoint) if isinstance(lease.checkpoint, Position) else None
            where = lease.checkpoint if number is None else name(number)
            self._history.world.note(self._host.name, f"row of {lease.shard_id}: {where}")
        return True

    def release_leader(self, owner: str | None = None) -> bool:  # noqa: ARG002 - the port's name
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


def _row(site: "ShardSite") -> Lease:
    lease, shards = site.lease, site.stream.shards
    checkpoint = lease.checkpoint
    return Lease(
        shard_id=site.shard_id,
        checkpoint=cast("Any", checkpoint),
        counter=lease.row_counter,
        owner=lease.owner,
        parents=frozenset(site.stream.shard.parents),
        children=frozenset(one.shard.shard_id for one in shards if site.shard_id in one.shard.parents),
        starting_hash_key="0",
        ending_hash_key="9",
    )
