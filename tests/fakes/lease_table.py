"""A lease table in memory: rows in DynamoDB's notation, so that reading and writing them is the real code."""

from collections.abc import Callable
from typing import Any

from consumer.leases.hand_over import HandOver
from consumer.leases.rows import LeaderLock, Lease, LeaseRows, lease_item, parse_lease, parse_rows
from minutebook.errors import TableUnavailable

PutHook = Callable[[str], None]


class MemoryLeaseTable:
    """Implements `consumer.leases.rows.LeaseTable`. The table does not exist until it is made.

    `before_put` is called with the shard before each put or hand-over: the place where a worker renews its lease, or
    where a test raises to crash the command. `reported` is what KCL keeps of its workers.
    """

    def __init__(self, *leases: Lease) -> None:
        self.items: dict[str, dict[str, Any]] | None = None
        self.before_put: PutHook | None = None
        self.unavailable = False
        self.leader_released = False
        self.leader_owner: str | None = None
        self.leader_version = "1"
        self.on_ask: Callable[[], None] = lambda: None
        self.puts: list[str] = []
        self.reported: dict[str, int] = {}
        self.protected = False
        if leases:
            self.create()
            for lease in leases:
                self.seed(lease)

    def seed(self, lease: Lease) -> None:
        """Write a row behind everybody's back, as a worker does."""
        assert self.items is not None
        self.items[lease.shard_id] = dict(lease_item(lease, single_table=True))

    def read(self) -> LeaseRows | None:
        """Return the rows."""
        self._ask()
        return None if self.items is None else parse_rows(self.items.values())

    def create(self, *, protected: bool = False) -> None:
        """Make the table unless it is there."""
        self._ask()
        self.protected = protected
        self.items = {} if self.items is None else self.items

    def put(self, lease: Lease, seen: Lease | None) -> bool:
        """Put under the condition of `consumer.leases.rows.put_condition`."""
        if self.before_put is not None:
            self.before_put(lease.shard_id)
        self._ask()
        assert self.items is not None
        item = self.items.get(lease.shard_id)
        now = None if item is None else parse_lease(item)
        if (now is None) != (seen is None) or (now and seen and now.counter != seen.counter):
            return now == lease
        self.seed(lease)
        self.puts.append(lease.shard_id)
        return True

    def hand_over(self, hand_over: HandOver) -> bool:
        """Change the owner of a row that is as it was seen."""
        lease = hand_over.lease
        if self.before_put is not None:
            self.before_put(lease.shard_id)
        self._ask()
        item = (self.items or {}).get(lease.shard_id)
        now = None if item is None else parse_lease(item)
        if item is None or now is None or "checkpointOwner" in item:
            return False
        if (now.owner, now.counter, now.checkpoint) != (lease.owner, lease.counter, lease.checkpoint):
            return False
        self.seed(now._replace(owner=hand_over.next_owner, counter=now.counter + 1))
        return True

    def reports(self) -> dict[str, int]:
        """Return `reported`."""
        self._ask()
        return dict(self.reported)

    def withdraw(self, worker_id: str) -> None:
        """Remove a report."""
        self._ask()
        self.reported.pop(worker_id, None)

    def leader(self) -> LeaderLock | None:
        """Return the lock; its version is `leader_version`."""
        self._ask()
        return None if self.leader_owner is None else LeaderLock(self.leader_owner, self.leader_version)

    def release_leader(self, owner: str | None = None, version: str | None = None) -> bool:
        """Remember that it was asked for; the leader is `leader_owner`."""
        self._ask()
        if owner not in {None, self.leader_owner} or version not in {None, self.leader_version}:
            return False
        self.leader_released = True
        was_there, self.leader_owner = self.leader_owner is not None, None
        return was_there

    def _ask(self) -> None:
        self.on_ask()
        if self.unavailable:
            raise TableUnavailable("DynamoDB stayed unavailable", next_step="wait")
