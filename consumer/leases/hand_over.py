"""Hand the leases of a stopping worker to others at once, instead of letting them expire; take one at a start.

Every step is optional: without it KCL waits until the leases expire, which takes a minute or more. So no request is
repeated: what was refused, failed or has an unknown outcome is logged and left as it is.

    stop requested        our report is deleted: the leader assigns us no leases any more
    processors have       our report is deleted again (the daemon may have written it meanwhile); each lease that we
      ended in order      still own is given to another worker, or released; the leader lock is released if it is ours

The daemon takes some seconds more to end, in which it renews and reads nothing. This is safe at any moment: a row's
checkpoint stays; its counter moves, so requests that a daemon with our worker id may still send fail; and S3 fences
every writer (docs/decisions/0022-hand-over.md).

    start, nobody owns the     the lease becomes ours: KCL opens its own at once, and a free one after the leader's
      only open shard, and     second run, six seconds with the presets, because no worker has reported in the first
      no other worker reports
"""

import threading
from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

import structlog

from consumer.leases.rows import Lease, LeaseRows, LeaseTable
from minutebook.clock import Clock
from minutebook.errors import TableRefused, TableUnavailable
from minutebook.logs import in_context

LONGEST_SECONDS: Final = 5.0
"""Less than the time that a container has to stop."""
REPORT_SECONDS: Final = 30.0
"""KCL's own default of workerMetricsReporterFreqInMillis."""
_JOIN_SECONDS: Final = 3.0
_NEXT_STEP: Final = (
    "nothing: other workers take the leases when they have expired (failoverTimeMillis), and no record is lost"
)


class HandedCounts:
    """How many leases each worker has over the streams of a fleet, as far as they were seen; thread-safe.

    Each stream has a lease table of its own. By that alone, the next owner of every stream with one shard would be
    the same worker.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def plan(
        self, leases: Mapping[str, "Lease"], worker_id: str, others: list[str], *, most: int | None
    ) -> "list[HandOver]":
        """Do what `plan_hand_over` does, and add the leases of this table."""
        with self._lock:
            plan = plan_hand_over(leases, worker_id, others, most=most, elsewhere=self._counts)
            self._counts.update(lease.owner for lease in leases.values() if lease.owner in others)
            self._counts.update(step.next_owner for step in plan if step.next_owner is not None)
            return plan


class HandOver(NamedTuple):
    """A lease as it was read, and its next owner; None: no owner."""

    lease: Lease
    next_owner: str | None


def reporting_workers(
    reported: Mapping[str, int], worker_id: str, now_seconds: float, *, every_seconds: float = REPORT_SECONDS
) -> list[str]:
    """Return the other workers that have reported within two intervals, KCL's own rule; `reported`: epoch seconds."""
    oldest = now_seconds - 2 * every_seconds
    return sorted(other for other, at in reported.items() if other != worker_id and at >= oldest)


def plan_hand_over(
    leases: Mapping[str, Lease],
    worker_id: str,
    others: list[str],
    *,
    most: int | None = None,
    elsewhere: Mapping[str, int] | None = None,
) -> list[HandOver]:
    """Return a hand-over for each lease of the worker, except finished shards; `most`: leases a worker may hold.

    The worker with the fewest leases becomes the owner, those in other tables (`elsewhere`) included; without one,
    the next leader assigns the lease. That takes up to 30 s if the leader itself stops, while each worker reads the
    leases that name it twice in a `leaseAssignmentIntervalMillis` (DynamoDBLeaseCoordinator.java). A lease given to a
    killed worker expires.
    """
    counts = dict.fromkeys(others, 0)
    others_leases = elsewhere or {}
    for lease in leases.values():
        if lease.owner in counts:
            counts[lease.owner] += 1
    plan = []
    for lease in leases.values():
        if lease.owner != worker_id or lease.checkpoint == "SHARD_END":
            continue
        free = (other for other, count in counts.items() if most is None or count < most)
        next_owner = min(free, key=lambda other: counts[other] + others_leases.get(other, 0), default=None)
        if next_owner is not None:
            counts[next_owner] += 1
        plan.append(HandOver(lease, next_owner))
    return plan


class HandedTable(LeaseTable, Protocol):
    """The lease table with the workers' reports."""

    def reports(self) -> dict[str, int]:
        """Return worker id -> time of its last report, in epoch seconds."""
        ...

    def withdraw(self, worker_id: str) -> None:
        """Delete a worker's report."""
        ...

    def hand_over(self, hand_over: HandOver) -> bool:
        """Change the owner of a lease that has not changed since it was read; return False if it has."""
        ...


class Leaving:
    """Hands over the leases of one stopping worker. `most`: how many leases one worker may hold.

    `handed` counts the leases of all streams of a fleet.
    """

    def __init__(
        self,
        table: HandedTable,
        worker_id: str,
        clock: Clock,
        *,
        most: int | None = None,
        every_seconds: float = REPORT_SECONDS,
        longest_seconds: float = LONGEST_SECONDS,
        handed: HandedCounts | None = None,
    ) -> None:
        self._table = table
        self._worker_id = worker_id
        self._clock = clock
        self._most = most
        self._every_seconds = every_seconds
        self._longest_seconds = longest_seconds
        self._handed = HandedCounts() if handed is None else handed
        self._thread: threading.Thread | None = None
        self._is_done = False
        self._log = structlog.get_logger().bind(worker=worker_id)

    def begin(self) -> None:
        """Delete our report, in a thread: the stop does not wait for DynamoDB."""
        self._thread = threading.Thread(target=in_context(self._withdraw), daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Hand the leases over, once, after the daemon's processors, or the daemon, have ended in order.

        It runs in a thread and waits at most `longest_seconds`, however slowly the tables answer.
        """
        if self._is_done:
            return
        self._is_done = True
        defects: list[BaseException] = []
        thread = threading.Thread(target=in_context(self._finish), args=(defects,), daemon=True)
        thread.start()
        thread.join(self._longest_seconds)
        if defects:
            raise defects[0]
        if thread.is_alive():
            error = f"the tables have not answered within {self._longest_seconds:g} s"
            self._log.warning("leases_kept", error=error, next_step=_NEXT_STEP)

    def _finish(self, defects: list[BaseException]) -> None:
        try:
            self._hand_over()
        except BaseException as exc:  # noqa: BLE001 - raised again by `finish`
            defects.append(exc)

    def _hand_over(self) -> None:
        begun = self._clock.monotonic()
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS)
        next_owners: dict[str, str | None] = {}
        plan: list[HandOver] = []
        try:
            self._table.withdraw(self._worker_id)
            plan = self._plan()
            for step in plan:
                if self._clock.monotonic() - begun < self._longest_seconds and self._table.hand_over(step):
                    next_owners[step.lease.shard_id] = step.next_owner
        except (TableRefused, TableUnavailable) as exc:
            self._log.warning("leases_kept", error=str(exc), next_step=_NEXT_STEP)
        else:
            release_own_lock(self._table, self._worker_id)
        if plan:
            seconds = round(self._clock.monotonic() - begun, 2)
            self._log.info("leases_released", heirs=next_owners, kept=len(plan) - len(next_owners), seconds=seconds)

    def _withdraw(self) -> None:
        try:
            self._table.withdraw(self._worker_id)
        except (TableRefused, TableUnavailable) as exc:
            self._log.info("report_kept", error=str(exc))

    def _plan(self) -> list[HandOver]:
        rows = self._table.read()
        if rows is None:
            return []
        others = reporting_workers(
            self._table.reports(), self._worker_id, self._clock.now_ms() / 1000, every_seconds=self._every_seconds
        )
        return self._handed.plan(rows.leases, self._worker_id, others, most=self._most)


def take_only_lease(
    table: HandedTable, rows: LeaseRows, worker_id: str, clock: Clock, *, every_seconds: float = REPORT_SECONDS
) -> None:
    """Take the lease of a stream with one open shard that nobody owns, unless another worker reports.

    `rows` were just read. With more shards the leader assigns them: workers that start together share them. Any error
    is left to KCL.
    """
    log = structlog.get_logger().bind(worker=worker_id)
    leases = [lease for lease in rows.leases.values() if lease.checkpoint != "SHARD_END"]
    if rows.unreadable or [lease.owner for lease in leases] != [None]:
        return
    now = clock.now_ms() / 1000
    try:
        others = reporting_workers(table.reports(), worker_id, now, every_seconds=every_seconds)
        if not others and table.hand_over(HandOver(leases[0], worker_id)):
            log.info("lease_taken", shard=leases[0].shard_id)
    except (TableRefused, TableUnavailable) as exc:
        log.info("lease_left_to_kcl", error=str(exc))


def release_own_lock(table: LeaseTable, worker_id: str) -> None:
    """Delete the leader's row if it is this worker's, whose daemon is dead. An error is only logged.

    The leader assigns leases, and its lock expires after 120 s (DynamoDBLockBasedLeaderDecider.java). A restarted one
    does not recognize its own lock and waits; meanwhile a shard that is new or loses its reader gets none. Safe at
    any moment: the lease's counter fences each assignment, so two leaders do no harm.
    """
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
