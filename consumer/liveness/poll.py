"""Poll the lease table from a thread while a daemon runs, and act on what the rules find."""

import threading
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import structlog

from consumer.child_logs.processor_log import ProcessorEvent
from consumer.leases.rows import LeaderLock, Lease, LeaseRows
from consumer.liveness.first_start import FirstStart
from consumer.liveness.lock_memory import LockMemory
from consumer.liveness.rules import LeaseView, ReaderWatch, StalledShard, used_twice
from minutebook.clock import Clock
from minutebook.errors import MinutebookError, SafetyRefusal
from minutebook.logs import in_context

POLL_SECONDS: Final = 15.0
_JOIN_SECONDS: Final = 2
_LOCK_MARGIN_SECONDS: Final = 0.5
_ROWS_A_SECOND: Final = 25
"""Average limit for scans: a table of a thousand leases is read every 40 s."""
Opened = Callable[[], frozenset[str]]
Silences = Callable[[], Mapping[str, float]]
OnPoll = Callable[[frozenset[str], frozenset[str] | None, frozenset[str]], None]
INITIALISED: Final = b"Initialization complete. Starting worker loop."
"""KCL's own line; before it the daemon creates its tables, which may take minutes."""


class WatchedTable(Protocol):
    """The part of the lease table that is polled; see `consumer.leases.rows.LeaseTable`."""

    def read(self) -> LeaseRows | None:
        """Return every lease; None when there is no table."""
        ...

    def leader(self) -> LeaderLock | None:
        """Return the leader's lock; None when nobody holds it."""
        ...

    def release_leader(self, owner: str | None = None, version: str | None = None) -> bool:
        """Remove the lock, unless it has changed."""
        ...


class ReaderPoll:
    """Finds shards without a reader while a daemon runs.

    `kill_reason` is set when the daemon must be started again. `leads` says whether the last poll found this worker
    to be KCL's leader. `on_poll` gets the shards without a reader, the shards
    whose leases are ours (None while the daemon creates its tables), and those of the former that another worker is
    responsible for. `memory` keeps the age of the leader's lock for the next supervisor.
    """

    def __init__(
        self,
        watch: ReaderWatch,
        table: WatchedTable,
        clock: Clock,
        *,
        on_poll: OnPoll | None = None,
        memory: LockMemory | None = None,
        first_start: FirstStart | None = None,
    ) -> None:
        self.kill_reason: ProcessorEvent | None = None
        self.leads = False
        self._watch = watch
        self._table = table
        self._clock = clock
        self._on_poll = on_poll
        self._unread: frozenset[str] = frozenset()
        self._others: frozenset[str] = frozenset()
        self._memory = memory
        self._first_start = first_start
        if memory is not None and (recalled := memory.recall(clock.monotonic())) is not None:
            watch.seen_lock = recalled
        self._stop = threading.Event()
        self._initialised = threading.Event()
        self._thread: threading.Thread | None = None
        self._logged: set[tuple[str, str]] = set()
        self._is_failing = False
        self._log = structlog.get_logger().bind(worker=watch.worker_id)

    def before_start(self) -> None:
        """Reset; after a daemon that left a shard without a reader, check that no other daemon has our worker id.

        Raises SafetyRefusal if one renews our leases while ours is dead, and as the table does.
        """
        kill_reason, self.kill_reason = self.kill_reason, None
        self._watch.begin()
        if kill_reason is None:
            return
        before = self._table.read()
        self._clock.sleep(self._watch.failover_seconds / 3 + 1)
        after = self._table.read()
        renewed = used_twice(self._watch.worker_id, before.leases if before else {}, after.leases if after else {})
        if renewed:
            raise SafetyRefusal(
                f"another daemon uses the worker id {self._watch.worker_id}: while ours was dead it renewed "
                f"{', '.join(renewed[:3])}",
                next_step="give every instance a workerId of its own in its properties file, or none at all",
            )

    def start(self, opened: Opened, silences: Silences = dict) -> None:
        """Start to poll; `opened` and `silences` as in `LeaseView`."""
        self._initialised.clear()
        self._logged.clear()
        self._stop = threading.Event()
        arguments = (opened, self._stop, silences)
        self._thread = threading.Thread(
            target=in_context(self._run), args=arguments, name="reader-watch", daemon=True
        )
        self._thread.start()

    def read_output(self, line: bytes) -> None:
        """Take a line of the daemon's own log."""
        if self._first_start is not None:
            self._first_start.read_output(line)
        if not self._initialised.is_set() and INITIALISED in line:
            self._initialised.set()

    def stop(self) -> None:
        """Stop to poll, without waiting for a request that hangs: its answer is ignored."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS)
            self._thread = None

    def step(self, opened: Opened, stop: threading.Event | None = None, silences: Silences = dict) -> float:
        """Poll once, and log an error; return the seconds until the next poll."""
        log, was_failing = self._log, self._is_failing
        self._is_failing = True
        try:
            wait = self.poll(opened, stop, silences)
        except MinutebookError as exc:
            if not was_failing:
                log.warning("leases_unread", error=str(exc), next_step=exc.next_step)
            return POLL_SECONDS
        except Exception as exc:
            next_step = "this is a defect of Minutebook: report the stack; the daemon is started again"
            log.exception("reader_watch_failed", next_step=next_step)
            self.kill_reason = ProcessorEvent(
                event="reader_watch_failed", error=f"the watch of the leases failed: {exc}", next_step=next_step
            )
            return POLL_SECONDS
        self._is_failing = False
        return wait

    def poll(self, opened: Opened, stop: threading.Event | None = None, silences: Silences = dict) -> float:
        """Poll once, and act on the findings; return the seconds until the next poll. Raises as the table does."""
        lock = self._table.leader()
        if opened():  # KCL's line is missing if the user raised its log level
            self._initialised.set()
        leases = self._read() if self._initialised.is_set() else None
        # After the rows, so that a processor which has just opened its shard counts.
        read = opened() if leases is not None else frozenset()
        findings = self._watch.judge(LeaseView(self._clock.monotonic(), leases, lock, read, silences()))
        if stop is not None and stop.is_set():
            return 0
        self.leads = lock is not None and lock.owner == self._watch.worker_id
        if self._memory is not None and self._watch.seen_lock is not None:
            self._memory.keep(self._watch.seen_lock)
        self._logged &= {(finding.event, finding.shard) for finding in findings}
        for finding in findings:
            self._act(finding)
        self._report(frozenset(finding.shard for finding in findings if finding.shard), leases, lock, read)
        wait = max(POLL_SECONDS, len(leases or ()) / _ROWS_A_SECOND)
        seconds = self._watch.seconds_to_lock(self._clock.monotonic())
        return wait if seconds is None else min(wait, seconds + _LOCK_MARGIN_SECONDS)

    def _report(
        self,
        stalled: frozenset[str],
        leases: Mapping[str, Lease] | None,
        lock: LeaderLock | None,
        read: frozenset[str],
    ) -> None:
        """Report the shards without a reader, and those of them whose owner, or else leader, is another worker."""
        if leases is None:
            ours, self._unread = None, stalled | self._unread
        else:
            ours = frozenset(
                shard
                for shard, lease in leases.items()
                if lease.owner == self._watch.worker_id and lease.checkpoint != "SHARD_END"
            )
            self._unread = stalled | ((self._unread & ours) - read)
            follows = lock is not None and lock.owner != self._watch.worker_id
            self._others = self._unread - ours - read if follows else frozenset()
        if self._on_poll is not None:
            self._on_poll(self._unread, ours, self._others)

    def _read(self) -> Mapping[str, Lease]:
        rows = self._table.read()
        return {} if rows is None else rows.leases

    def _act(self, finding: StalledShard) -> None:
        if finding.lock is not None:
            if self._table.release_leader(finding.lock.owner, finding.lock.version):
                self._log.warning(finding.event, error=finding.error, next_step=finding.next_step)
            return
        if (finding.event, finding.shard) not in self._logged:
            self._logged.add((finding.event, finding.shard))
            self._log.error(finding.event, shard=finding.shard, error=finding.error, next_step=finding.next_step)
        if finding.act == "restart" and self.kill_reason is None:
            self.kill_reason = ProcessorEvent(
                event=finding.event, shard=finding.shard, error=finding.error, next_step=finding.next_step
            )

    def _run(self, opened: Opened, stop: threading.Event, silences: Silences) -> None:
        wait = 0.0
        while not stop.wait(wait):
            wait = self.step(opened, stop, silences)
