"""Release KCL's leader lock for a worker whose daemon is dead.

One worker, the leader, assigns leases and holds a lock: the row `Leader`, valid for 120 s, which no property shortens
(DynamoDBLockBasedLeaderDecider.java). A leader that is killed and restarted does not recognize its own lock and waits
until it expires; meanwhile a shard that is new or loses its reader gets none. The supervisor knows that the daemon is
dead, and that no other process on this host has its worker id.

Safe at any moment: a leader only assigns leases, and the lease's counter fences each assignment. Two leaders cost
requests and do no harm.
"""

import structlog

from consumer.leases.rows import LeaseTable
from minutebook.errors import TableRefused, TableUnavailable


def release_own_lock(table: LeaseTable, worker_id: str) -> None:
    """Delete the leader's row if it is this worker's. An error is only logged: the lock expires in two minutes."""
    log = structlog.get_logger().bind(worker=worker_id)
    try:
        released = table.release_leader(worker_id)
    except (TableRefused, TableUnavailable) as exc:
        log.warning(
            "leader_lock_kept",
            error=str(exc),
            next_step="nothing: it runs out after two minutes, and shards without a reader wait until then",
        )
    else:
        if released:
            log.info("leader_lock_released")
