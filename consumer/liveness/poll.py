"""Looking at the lease table while a daemon runs, from a thread of its own, and what is done about what is found."""

import threading
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import structlog

from consumer.child_logs.processor_log import ProcessorEvent
from consumer.leases.rows import LeaderLock, Lease, LeaseRows
from consumer.liveness.first_start import FirstStart
from consumer.liveness.lock_memory import LockMemory, SeenLock
from consumer.liveness.rules import LeaseView, ReaderWatch, StalledShard, used_twice
from minutebook.clock import Clock
from minutebook.errors import MinutebookError, SafetyRefusal

POLL_SECONDS: Final = 15.0
_JOIN_SECONDS: Final = 2
_LOCK_MARGIN_SECONDS: Final = 0.5
_ROWS_A_SECOND: Final = 25
"""What a scan may read on average: a table of a thousand leases is looked at every 40 s."""
Opened = Callable[[], frozenset[str]]
Silences = Callable[[], Mapping[str, float]]
OnLook = Callable[[frozenset[str], frozenset[str] | None, frozenset[str]], None]
_INITIALISED: Final = b"Initialization complete. Starting worker loop."
"""KCL's own line; before it the daemon makes its tables, which may take minutes."""


class WatchedTable(Protocol):
    """The lease table as the watch sees it; see `consumer.leases.rows.LeaseTable`."""

    def read(self) -> LeaseRows | None:
        """Return every lease; None when there is no table."""
        ...

    def leader(self) -> LeaderLock | None:
        """Return the leader's lock; None when nobody holds it."""
        ...

    def release_leader(self, owner: str | None = None, version: str | None = None) -> bool:
        """Remove the lock, if it is still that one."""
        ...


class ReaderPoll:
    """Looks for shards without a reader while a daemon runs.

    `doom` is set when the daemon must be started again. `on_look` is told which shards are without a reader, which
    leases are ours (None while the daemon makes its tables), and for which of those shards another worker answers.
    `memory` keeps since when the leader's lock is seen, for the supervisor after this one.
    """

    def __init__(
        self,
        watch: ReaderWatch,
        table: WatchedTable,
        clock: Clock,
        *,
        failover_seconds: float,
        on_look: OnLook | None = None,
        poll_seconds: float = POLL_SECONDS,
        memory: LockMemory | None = None,
        first_start: FirstStart | None = None,
    ) -> None:
        self.doom: ProcessorEvent | None = None
        self._watch = watch
        self._table = table
        self._clock = clock
        self._failover_seconds = failover_seconds
        self._on_look = on_look
        self._unread: frozenset[str] = frozenset()
        self._others: frozenset[str] = frozenset()
        self._poll_seconds = poll_seconds
        self._memory = memory
        self._first_start = first_start
        recalled = None if memory is None else memory.recall(clock.monotonic())
        if recalled is not None:
            watch.remember_lock(*recalled)
        self._stop = threading.Event()
        self._initialised = threading.Event()
        self._thread: threading.Thread | None = None
        self._told: set[tuple[str, str]] = set()
        self._is_blind = False
        self._log = structlog.get_logger().bind(worker=watch.worker_id)

    def before_start(self) -> None:
        """Begin anew; where the last daemon left a shard without a reader, ask whether another one has its name.

        Raises:
            SafetyRefusal: somebody renews the leases of this worker id while its daemon is dead.
            TableUnavailable, TableRefused: it cannot be known.
        """
        doomed, self.doom = self.doom, None
        self._watch.begin()
        if doomed is None:
            return
        before = self._table.read()
        self._clock.sleep(self._failover_seconds / 3 + 1)
        after = self._table.read()
        renewed = used_twice(self._watch.worker_id, before.leases if before else {}, after.leases if after else {})
        if renewed:
            raise SafetyRefusal(
                f"another daemon uses the worker id {self._watch.worker_id}: while ours was dead it renewed "
                f"{', '.join(renewed[:3])}",
                next_step="give every instance a workerId of its own in its properties file, or none at all",
            )

    def start(self, opened: Opened, silences: Silences = dict) -> None:
        """Begin to look; `opened` returns the shards that living processors have opened.

        `silences` returns for how many seconds the processor of each has said nothing, where that is known.
        """
        self._initialised.clear()
        self._told.clear()
        self._stop = threading.Event()
        thread = threading.Thread(
            target=self._run, args=(opened, self._stop, silences), name="reader-watch", daemon=True
        )
        thread.start()
        self._thread = thread

    def read_output(self, line: bytes) -> None:
        """Take a line of the daemon's own log."""
        if self._first_start is not None:
            self._first_start.read_output(line)
        if not self._initialised.is_set() and _INITIALISED in line:
            self._initialised.set()

    def stop(self) -> None:
        """Look no more. A look that hangs is left alone: it finds that it was stopped."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS)
            self._thread = None

    def step(self, opened: Opened, stop: threading.Event | None = None, silences: Silences = dict) -> float:
        """Look once, and say what prevents it; return how long to wait for the next look."""
        log, was_blind = self._log, self._is_blind
        self._is_blind = True
        try:
            wait = self.look(opened, stop, silences)
        except MinutebookError as exc:
            if not was_blind:
                log.warning("leases_unread", error=str(exc), next_step=exc.next_step)
            return self._poll_seconds
        except Exception as exc:
            next_step = "this is a defect of Minutebook: report the stack; the daemon is started again"
            log.exception("reader_watch_failed", next_step=next_step)
            self.doom = ProcessorEvent(
                event="reader_watch_failed", error=f"the watch of the leases failed: {exc}", next_step=next_step
            )
            return self._poll_seconds
        self._is_blind = False
        return wait

    def look(self, opened: Opened, stop: threading.Event | None = None, silences: Silences = dict) -> float:
        """Look once, and do what follows; return how long to wait for the next look.

        Raises:
            TableUnavailable, TableRefused: nothing was seen.
        """
        lock = self._table.leader()
        if opened():  # whoever sets KCL's levels may leave out its line
            self._initialised.set()
        leases = self._read() if self._initialised.is_set() else None
        # The processors after the rows: one that has just opened its shard counts.
        read = opened() if leases is not None else frozenset()
        findings = self._watch.look(LeaseView(self._clock.monotonic(), leases, lock, read, silences()))
        if stop is not None and stop.is_set():
            return 0
        seen = self._watch.seen_lock()
        if self._memory is not None and seen is not None:
            self._memory.keep(SeenLock(*seen))
        self._told &= {(finding.event, finding.shard) for finding in findings}
        for finding in findings:
            self._act(finding)
        self._tell(frozenset(finding.shard for finding in findings if finding.shard), leases, lock, read)
        wait = max(self._poll_seconds, len(leases or ()) / _ROWS_A_SECOND)
        left = self._watch.seconds_to_lock(self._clock.monotonic())
        return wait if left is None else min(wait, left + _LOCK_MARGIN_SECONDS)

    def _tell(
        self,
        found: frozenset[str],
        leases: Mapping[str, Lease] | None,
        lock: LeaderLock | None,
        read: frozenset[str],
    ) -> None:
        """A restart gives a shard time again, and no reader: it counts as unread until somebody opens it.

        Whoever has the lease answers for it, and else the leader, who gives leases away; where nobody leads, all do.
        """
        if leases is None:
            ours, self._unread = None, found | self._unread
        else:
            ours = frozenset(
                shard
                for shard, lease in leases.items()
                if lease.owner == self._watch.worker_id and lease.checkpoint != "SHARD_END"
            )
            self._unread = found | ((self._unread & ours) - read)
            follows = lock is not None and lock.owner != self._watch.worker_id
            self._others = self._unread - ours - read if follows else frozenset()
        if self._on_look is not None:
            self._on_look(self._unread, ours, self._others)

    def _read(self) -> Mapping[str, Lease]:
        rows = self._table.read()
        return {} if rows is None else rows.leases

    def _act(self, finding: StalledShard) -> None:
        if finding.lock is not None:
            if self._table.release_leader(finding.lock.owner, finding.lock.version):
                self._log.warning(finding.event, error=finding.error, next_step=finding.next_step)
            return
        if (finding.event, finding.shard) not in self._told:
            self._told.add((finding.event, finding.shard))
            self._log.error(finding.event, shard=finding.shard, error=finding.error, next_step=finding.next_step)
        if finding.act == "restart" and self.doom is None:
            self.doom = ProcessorEvent(
                event=finding.event, shard=finding.shard, error=finding.error, next_step=finding.next_step
            )

    def _run(self, opened: Opened, stop: threading.Event, silences: Silences) -> None:
        wait = 0.0
        while not stop.wait(wait):
            wait = self.step(opened, stop, silences)
