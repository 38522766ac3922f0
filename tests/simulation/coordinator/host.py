"""A host: `minutebook consume` with the product's own watch and restart policy, around a run of KCL's daemon."""

import random
from collections.abc import Callable
from typing import Final

from consumer.child_logs.processor_log import FAILED, ProcessorEvent
from consumer.daemon.restart_policy import DaemonExit, EndSupervisor, RestartLimits, RestartPolicy
from consumer.leases.hand_over import release_own_lock
from consumer.leases.rows import LeaderLock, Lease, LeaseRows
from consumer.liveness.poll import ReaderPoll
from consumer.liveness.rules import ReaderWatch
from minutebook.errors import MinutebookError, TableUnavailable
from tests.simulation.coordinator.daemon import FAILOVER_SECONDS, Daemon, Stall
from tests.simulation.coordinator.table import Coordination

_WATCH_SECONDS: Final = 0.5
_AGAIN_SECONDS: Final = 10
"""Until the scheduler of containers starts a task again that has ended."""


class _Table:
    """The tables as the supervisor of one host sees them."""

    def __init__(self, host: "Host") -> None:
        self._host = host

    def read(self) -> LeaseRows | None:
        self._ask()
        return LeaseRows(dict(self._host.tables.rows)) if self._host.tables.rows else None

    def leader(self) -> LeaderLock | None:
        self._ask()
        return self._host.tables.seen_lock()

    def release_leader(self, owner: str | None = None, version: str | None = None) -> bool:
        self._ask()
        seen = self._host.tables.seen_lock()
        if seen is None or owner not in {None, seen.owner} or version not in {None, seen.version}:
            return False
        self._host.tables.lock = None
        return True

    def create(self) -> None:
        raise AssertionError("not asked for here")

    def put(self, lease: Lease, seen: Lease | None) -> bool:
        raise AssertionError(f"not asked for here: {lease} {seen}")

    def _ask(self) -> None:
        if self._host.is_cut_off:
            raise TableUnavailable("DynamoDB does not answer", next_step="wait")


class Host:
    """One host. `up_since`: it has been sound all the time since then, None: it is not.

    `make_run` decides what a new run of the daemon will not do.
    """

    def __init__(
        self,
        worker: str,
        tables: Coordination,
        rng: random.Random,
        say: Callable[[str], None],
        make_run: Callable[[Daemon], None],
    ) -> None:
        self.worker = worker
        self.tables = tables
        self.is_lost = False
        self.is_frozen = False
        self.is_cut_off = False
        self.unread = 0
        self.daemon: Daemon | None = None
        self.up_since: float | None = tables.time.now
        self._rng = rng
        self._say = say
        self._make_run = make_run
        self._table = _Table(self)
        self._life = 0
        self.start()

    def start(self) -> None:
        """Start `consume` anew: it remembers nothing."""
        self._life += 1
        self._seen: set[str] = set()
        self._watch = ReaderWatch(self.worker, failover_seconds=FAILOVER_SECONDS)
        self._poll = ReaderPoll(self._watch, self._table, self.tables.time, on_poll=self._count)
        self._policy = RestartPolicy(RestartLimits())
        self._start_daemon(self._life)

    def end(self) -> None:
        """SIGKILL everything."""
        self._life += 1
        self._kill()

    def kill_daemon(self) -> None:
        """SIGKILL the daemon and its processors; the supervisor goes on."""
        self._kill()

    def freeze(self, *, frozen: bool) -> None:
        """Stop all of the host, or let it go on."""
        self.is_frozen = frozen
        if self.daemon is not None:
            self.daemon.is_frozen = frozen

    def stall(self, stall: Stall, unopenable: set[str]) -> None:
        """Let the present run of the daemon never do something again."""
        if self.daemon is not None:
            self.daemon.stalls.add(stall)
            if stall == "opens not all":
                self.daemon.unopenable |= unopenable - self.daemon.opened

    def has_seen(self, shard: str) -> bool:
        """Tell whether this life of the supervisor has looked while the shard had a row."""
        return shard in self._seen

    def _count(self, unread: frozenset[str], _held: frozenset[str] | None, _others: frozenset[str]) -> None:
        self.unread = len(unread)

    def _kill(self) -> None:
        if self.daemon is not None:
            self.daemon.is_alive = False
            self.daemon.opened.clear()

    def _start_daemon(self, life: int) -> None:
        if life != self._life or self.is_lost:
            return
        if self.is_frozen:
            self.tables.time.after(1, lambda: self._start_daemon(life))
            return
        try:
            release_own_lock(self._table, self.worker)
            self._poll.before_start()
        except MinutebookError as exc:
            failure = ProcessorEvent(event=FAILED, exit_code=exc.exit_code, error=str(exc))
            self._after(life, DaemonExit(code=1, ran_seconds=0, stop_requested=False, failure=failure))
            return
        if life != self._life or self.is_lost:  # something happened while it slept
            return
        self.daemon = daemon = Daemon(self.worker, self.tables, self._rng, self._say)
        self._make_run(daemon)
        self._say(f"{self.worker}: a daemon is started")
        self._poll._initialised.clear()
        self._poll._logged.clear()
        self._look(life, daemon)
        self._attend(life, daemon, self.tables.time.now)

    def _look(self, life: int, daemon: Daemon) -> None:
        if life != self._life or daemon is not self.daemon or not daemon.is_alive:
            return
        wait = 1.0
        if not self.is_frozen:
            if daemon.is_initialised:
                self._poll.read_output(b"Initialization complete. Starting worker loop.")
            if daemon.is_initialised and not self.is_cut_off:
                self._seen |= self.tables.rows.keys()
            wait = self._poll.step(lambda: frozenset(daemon.opened))
        self.tables.time.after(wait, lambda: self._look(life, daemon))

    def _attend(self, life: int, daemon: Daemon, began: float) -> None:
        """Watch the daemon, as the supervisor's main thread does."""
        if life != self._life or daemon is not self.daemon:
            return
        reason = self._poll.kill_reason
        if reason is not None and reason.event == "reader_watch_failed":
            raise AssertionError(reason.error)
        if not self.is_frozen and (reason is not None or not daemon.is_alive):
            self._say(f"{self.worker}: the daemon ends: {'killed' if reason is None else reason.error}")
            self._kill()
            ran = self.tables.time.now - began
            self._after(life, DaemonExit(code=-9, ran_seconds=ran, stop_requested=False, evidence=reason))
            return
        self.tables.time.after(_WATCH_SECONDS, lambda: self._attend(life, daemon, began))

    def _after(self, life: int, ended: DaemonExit) -> None:
        decision = self._policy.after(ended)
        if isinstance(decision, EndSupervisor):
            self._say(f"{self.worker}: gave up: {decision.reason}")
            self._life += 1
            self.tables.time.after(_AGAIN_SECONDS, lambda: None if self.is_lost else self.start())
            return
        self.tables.time.after(decision.wait_seconds, lambda: self._start_daemon(life))
