"""KCL's leader lock, given back for a worker whose daemon is dead.

One worker, the leader, hands out leases, and holds a lock for that: the row `Leader`, good for 120 s, which no
property shortens (DynamoDBLockBasedLeaderDecider.java). A leader that is killed and restarted in place is a stranger
to its own lock and waits until it has run out; meanwhile no shard that is born or loses its reader gets one. Its
supervisor knows that the daemon is dead, and that nobody else on this host has its worker id.

Safe at any moment: a leader only makes assignments, each fenced by the lease's counter. Two leaders are a waste, not
a danger.
"""

import structlog

from consumer.leases.rows import LeaseTable
from minutebook.errors import TableRefused, TableUnavailable


def release_own_lock(table: LeaseTable, worker_id: str) -> None:
    """Remove the leader's row if it is this worker's; what prevents it costs two minutes and no more."""
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
