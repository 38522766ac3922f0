"""Choose the next owners for the leases of a worker that has stopped. Pure.

KCL's leader assigns a lease that has no owner, or whose counter has not moved for `failoverTimeMillis`. When the
leader itself stops, another worker takes the leader's lock within 30 s, the interval at which they try. So a lease
without an owner may wait, while one that names its next owner does not: each worker reads its own leases from the
table's index twice in a `leaseAssignmentIntervalMillis` (DynamoDBLeaseCoordinator.java).

    other workers                               what is written
    -----------------------------------------   -------------------------------------------------------
    some have reported lately                   the one with the fewest leases becomes the owner
    none, or all have `maxLeasesForWorker`      no owner: the next leader assigns it in its first run
    (the shard is finished)                     nothing: it needs no reader

"Lately" is KCL's own rule: within two intervals of the workers' reports. If a worker that was killed within that time
is named, the lease expires like every lease of a killed worker.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from consumer.leases.rows import Lease

REPORT_SECONDS: Final = 30.0
"""KCL's own default of workerMetricsReporterFreqInMillis."""
_REPORTS: Final = 2
_FINISHED: Final = "SHARD_END"


class HandOver(NamedTuple):
    """A lease as it was read, and its next owner; None: no owner."""

    lease: Lease
    next_owner: str | None


def reporting_workers(
    reported: Mapping[str, int], worker_id: str, now_seconds: float, *, every_seconds: float = REPORT_SECONDS
) -> list[str]:
    """Return the other workers that have reported lately; `reported` maps worker ids to epoch seconds."""
    oldest = now_seconds - _REPORTS * every_seconds
    return sorted(other for other, at in reported.items() if other != worker_id and at >= oldest)


def plan_hand_over(
    leases: Mapping[str, Lease], worker_id: str, others: list[str], *, most: int | None = None
) -> list[HandOver]:
    """Return a hand-over for each lease of the worker, except finished shards; `most`: leases a worker may hold."""
    counts = dict.fromkeys(others, 0)
    for lease in leases.values():
        if lease.owner in counts:
            counts[lease.owner] += 1
    plan = []
    for lease in leases.values():
        if lease.owner != worker_id or lease.checkpoint == _FINISHED:
            continue
        free = (other for other, count in counts.items() if most is None or count < most)
        next_owner = min(free, key=counts.__getitem__, default=None)
        if next_owner is not None:
            counts[next_owner] += 1
        plan.append(HandOver(lease, next_owner))
    return plan
