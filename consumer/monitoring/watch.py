"""All that is known of one task, for those who watch it: the supervisor tells, metrics and health check ask."""

import threading
from typing import TYPE_CHECKING, Final

from consumer.child_logs.kcl_log import KclEvent
from consumer.child_logs.processor_log import ProcessorEvent
from consumer.monitoring.health import HealthVerdict, HealthView, judge_health
from consumer.monitoring.shards import WatchedShards
from minutebook.clock import Clock

if TYPE_CHECKING:
    from consumer.monitoring.metrics import Metrics

LIMIT_SECONDS: Final = 300.0
"""Of `minutebook.maxUncommittedSeconds`, where nothing is held for longer than half of it anyway."""


class Watch:
    """The task of one supervisor. Every method may be called from any thread.

    `with_metrics`: keep counters too, for Prometheus or CloudWatch.
    """

    def __init__(self, clock: Clock, *, limit_seconds: float = LIMIT_SECONDS, with_metrics: bool = False) -> None:
        self._clock = clock
        self._limit_seconds = limit_seconds
        self._lock = threading.Lock()
        self._shards = WatchedShards(clock)
        self._unread: frozenset[str] = frozenset()
        self._others: frozenset[str] = frozenset()
        self._is_up = False
        self._saw_at: float | None = None
        self._looks_apart = 0.0
        self.metrics = self._make_metrics() if with_metrics else None

    def daemon_started(self, *, looks_at_leases: bool) -> None:
        """Take that a daemon runs; `looks_at_leases`: and that `readers` will be told."""
        with self._lock:
            self._is_up = True
            self._looks_apart = 0.0
            self._saw_at = self._clock.monotonic() if looks_at_leases else None

    def daemon_ended(self) -> None:
        """Take that it has ended, and every processor with it."""
        with self._lock:
            self._is_up = False
        self._shards.daemon_ended()

    def note(self, event: ProcessorEvent) -> None:
        """Take a line of a processor."""
        self._shards.note(event)
        if self.metrics is not None:
            self.metrics.count(event)

    def readers(
        self, unread: frozenset[str], held: frozenset[str] | None, others: frozenset[str] = frozenset()
    ) -> None:
        """Take a look at the lease table: who is without a reader, and what is this worker's.

        `held` is None when the rows were not looked at: the daemon is still making its tables. `others`: those of
        `unread` for which another worker answers.
        """
        with self._lock:
            self._unread, self._others = unread, others
            if held is not None:
                now = self._clock.monotonic()
                self._looks_apart = 0.0 if self._saw_at is None else now - self._saw_at
                self._saw_at = now
        if held is not None:
            self._shards.leased(held)
        if self.metrics is not None:
            self.metrics.know(held or ())

    def skipped(self, event: KclEvent) -> None:
        """Take that KCL gave up on something."""
        if self.metrics is not None:
            self.metrics.count_skipped(event)

    def killed(self) -> None:
        """Take that a processor ended without a last word."""
        if self.metrics is not None:
            self.metrics.count_killed()

    def restarted(self) -> None:
        """Take that the daemon is started again after a crash."""
        if self.metrics is not None:
            self.metrics.count_restart()

    def look(self) -> HealthView:
        """Return what is known now."""
        with self._lock:
            blind = None if self._saw_at is None else self._clock.monotonic() - self._saw_at
            return HealthView(self._is_up, self._shards.views(), self._unread, blind, self._looks_apart, self._others)

    def _make_metrics(self) -> "Metrics":
        from consumer.monitoring.metrics import Metrics  # noqa: PLC0415 - only where somebody wants them

        return Metrics(self.look, self.verdict, self._clock)

    def verdict(self) -> HealthVerdict:
        """Return whether the task does its work."""
        return judge_health(self.look(), limit_seconds=self._limit_seconds)
