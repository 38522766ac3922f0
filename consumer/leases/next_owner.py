"""Who gets the leases of a worker that has stopped. Pure: facts come in, hand-overs go out.

KCL gives a lease away when its leader has found it without an owner, or unmoved for `failoverTimeMillis`. A leader
that has stopped is followed within 30 s: who does not lead asks for the lock no more often than that. So a lease that
is only free may wait. One that names its next owner waits for nobody: each worker asks the table's index for its own
leases twice in a `leaseAssignmentIntervalMillis` (DynamoDBLeaseCoordinator.java).

    what is known                               what is written
    -----------------------------------------   -------------------------------------------------------
    a worker that has reported lately           it becomes the owner; the one with the fewest leases first
    nobody, or all have `maxLeasesForWorker`    nobody owns it: the next leader gives it away in its first run
    the shard is finished                       nothing: it needs no reader

Reported lately is what KCL's leader believes, too: not longer ago than two of the workers' reports. A worker that was
killed within that time may be named; then the lease expires, as those of every worker that was killed.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from consumer.leases.rows import Lease

REPORT_SECONDS: Final = 30.0
"""KCL's own default of workerMetricsReporterFreqInMillis."""
_REPORTS: Final = 2
_FINISHED: Final = "SHARD_END"


class HandOver(NamedTuple):
    """One lease as it was seen, and its next owner; None where nobody is."""

    lease: Lease
    next_owner: str | None


def reporting_workers(
    reported: Mapping[str, int], worker_id: str, now_seconds: float, *, every_seconds: float = REPORT_SECONDS
) -> list[str]:
    """Return the other workers that have reported lately. `reported`: worker id -> epoch seconds of its report."""
    oldest = now_seconds - _REPORTS * every_seconds
    return sorted(other for other, at in reported.items() if other != worker_id and at >= oldest)


def plan_hand_over(
    leases: Mapping[str, Lease], worker_id: str, others: list[str], *, most: int | None = None
) -> list[HandOver]:
    """Return a hand-over for each lease of the worker, but of finished shards; `most` bounds what one may hold."""
    held = dict.fromkeys(others, 0)
    for lease in leases.values():
        if lease.owner in held:
            held[lease.owner] += 1
    plan = []
    for lease in leases.values():
        if lease.owner != worker_id or lease.checkpoint == _FINISHED:
            continue
        next_owner = min(
            (other for other in held if most is None or held[other] < most), key=held.__getitem__, default=None
        )
        if next_owner is not None:
            held[next_owner] += 1
        plan.append(HandOver(lease, next_owner))
    return plan
