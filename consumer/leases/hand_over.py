"""The leases of a worker that has stopped, given to others at once instead of when they have expired.

Optional in every step: without it KCL waits until the leases have expired, up to a minute and more. So nothing is
asked twice, and nothing is guessed: what was refused, failed or has an unknown outcome is said, and left as it is.

    asked to stop         our report is withdrawn: nobody gives us leases any more, nor takes us for living
    processors have       our report is withdrawn again (the daemon may have written it meanwhile); each lease that is
      ended in order      still ours, as it is seen then, goes to another worker or to nobody; the leader's lock is
                          given back if it is ours

The daemon itself takes some seconds more to end, in which it renews and reads nothing. Safe at any moment: what a row
says of the archive is its checkpoint, which stays; the counter moves, so that whatever a daemon of our name would
still send fails; and S3 fences every writer (docs/decisions/0022-hand-over.md).
"""

import threading
from typing import Final, Protocol

import structlog

from consumer.leases.leader_lock import release_own_lock
from consumer.leases.next_owner import REPORT_SECONDS, HandOver, plan_hand_over, reporting_workers
from consumer.leases.rows import LeaseTable
from minutebook.clock import Clock
from minutebook.errors import TableRefused, TableUnavailable

LONGEST_SECONDS: Final = 5.0
"""Within the time that a container is given to stop."""
_JOIN_SECONDS: Final = 3.0
_NEXT_STEP: Final = (
    "nothing: other workers take the leases when they have expired (failoverTimeMillis), and no record is lost"
)


class HandedTable(LeaseTable, Protocol):
    """The lease table, and what KCL keeps of its workers."""

    def reports(self) -> dict[str, int]:
        """Return when each worker has reported last, in epoch seconds."""
        ...

    def withdraw(self, worker_id: str) -> None:
        """Remove a worker's report."""
        ...

    def hand_over(self, hand_over: HandOver) -> bool:
        """Change the owner of a lease that is as it was seen; False: it is not."""
        ...


class Leaving:
    """What one worker does about its leases when it stops. `most`: how many leases one worker may hold."""

    def __init__(
        self,
        table: HandedTable,
        worker_id: str,
        clock: Clock,
        *,
        most: int | None = None,
        every_seconds: float = REPORT_SECONDS,
        longest_seconds: float = LONGEST_SECONDS,
    ) -> None:
        self._table = table
        self._worker_id = worker_id
        self._clock = clock
        self._most = most
        self._every_seconds = every_seconds
        self._longest_seconds = longest_seconds
        self._thread: threading.Thread | None = None
        self._is_done = False
        self._log = structlog.get_logger().bind(worker=worker_id)

    def begin(self) -> None:
        """Withdraw our report, from a thread: the stop waits for no table."""
        self._thread = threading.Thread(target=self._withdraw, daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Give the leases away, once. Call it when the daemon's processors, or the daemon, have ended in order.

        From a thread: a table that answers slowly, page after page, holds nobody up beyond `longest_seconds`.
        """
        if self._is_done:
            return
        self._is_done = True
        defect: list[BaseException] = []
        giving = threading.Thread(target=self._finish, args=(defect,), daemon=True)
        giving.start()
        giving.join(self._longest_seconds)
        if defect:
            raise defect[0]
        if giving.is_alive():
            error = f"the tables have not answered within {self._longest_seconds:g} s"
            self._log.warning("leases_kept", error=error, next_step=_NEXT_STEP)

    def _finish(self, defect: list[BaseException]) -> None:
        try:
            self._give()
        except BaseException as exc:  # noqa: BLE001 - raised again by whoever waits
            defect.append(exc)

    def _give(self) -> None:
        begun = self._clock.monotonic()
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS)
        given: dict[str, str | None] = {}
        plan: list[HandOver] = []
        try:
            self._table.withdraw(self._worker_id)
            plan = self._plan()
            for each in plan:
                if self._clock.monotonic() - begun < self._longest_seconds and self._table.hand_over(each):
                    given[each.lease.shard_id] = each.next_owner
        except (TableRefused, TableUnavailable) as exc:
            self._log.warning("leases_kept", error=str(exc), next_step=_NEXT_STEP)
        else:
            release_own_lock(self._table, self._worker_id)
        if plan:
            seconds = round(self._clock.monotonic() - begun, 2)
            self._log.info("leases_released", heirs=given, kept=len(plan) - len(given), seconds=seconds)

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
        return plan_hand_over(rows.leases, self._worker_id, others, most=self._most)
