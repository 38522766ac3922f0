"""The state of one task: the supervisor updates it, metrics and health check read it."""

import threading
from typing import TYPE_CHECKING, Final

from consumer.child_logs.kcl_log import KclEvent
from consumer.child_logs.processor_log import ProcessorEvent
from consumer.monitoring.health import HealthVerdict, HealthView, judge_health
from consumer.monitoring.labels import StreamLabels
from consumer.monitoring.shards import WatchedShards
from minutebook.clock import Clock

if TYPE_CHECKING:
    from consumer.monitoring.metrics import Metrics

LIMIT_SECONDS: Final = 300.0
"""Default of `minutebook.maxUncommittedSeconds`, unless records wait for longer than half of it by the settings."""


class Watch:
    """The task of one supervisor; thread-safe. `labels`: with counters for Prometheus or CloudWatch, under these."""

    def __init__(
        self, clock: Clock, *, limit_seconds: float = LIMIT_SECONDS, labels: StreamLabels | None = None
    ) -> None:
        self._clock = clock
        self._limit_seconds = limit_seconds
        self._lock = threading.Lock()
        self._shards = WatchedShards(clock)
        self._unread: frozenset[str] = frozenset()
        self._others: frozenset[str] = frozenset()
        self._is_up = False
        self._polled_at: float | None = None
        self._poll_gap_seconds = 0.0
        self._complete_until_ms: int | None = None
        self.metrics: Metrics | None = None if labels is None else self._make_metrics(labels)

    def daemon_started(self, *, polls_leases: bool) -> None:
        """Note that a daemon runs; `polls_leases`: `note_readers` will be called."""
        with self._lock:
            self._is_up = True
            self._poll_gap_seconds = 0.0
            self._polled_at = self._clock.monotonic() if polls_leases else None

    def daemon_ended(self) -> None:
        """Note that daemon and processors have ended."""
        with self._lock:
            self._is_up = False
        self._shards.daemon_ended()

    def note(self, event: ProcessorEvent) -> None:
        """Take a line of a processor."""
        self._shards.note(event)
        if self.metrics is not None:
            self.metrics.count(event)

    def note_readers(
        self, unread: frozenset[str], ours: frozenset[str] | None, others: frozenset[str] = frozenset()
    ) -> None:
        """Take the result of a poll, as `ReaderPoll.on_poll` gives it; `ours` is None if no rows were read."""
        with self._lock:
            self._unread, self._others = unread, others
            if ours is not None:
                now = self._clock.monotonic()
                self._poll_gap_seconds = 0.0 if self._polled_at is None else now - self._polled_at
                self._polled_at = now
        if ours is not None:
            self._shards.leased(ours)
        if self.metrics is not None:
            self.metrics.add_shards(ours or ())

    def note_complete(self, until_ms: int) -> None:
        """Note until when the whole stream is archived, by the newest boundary of any worker."""
        with self._lock:
            self._complete_until_ms = until_ms

    def skipped(self, event: KclEvent) -> None:
        """Count a skip of KCL."""
        if self.metrics is not None:
            self.metrics.count_skipped(event)

    def killed(self) -> None:
        """Count a processor that ended without a last line."""
        if self.metrics is not None:
            self.metrics.count_killed()

    def restarted(self) -> None:
        """Count a restart of the daemon after a crash."""
        if self.metrics is not None:
            self.metrics.count_restart()

    def view(self) -> HealthView:
        """Return the present state."""
        with self._lock:
            blind = None if self._polled_at is None else self._clock.monotonic() - self._polled_at
            gap = self._poll_gap_seconds
            return HealthView(
                self._is_up, self._shards.views(), self._unread, blind, gap, self._others, self._complete_until_ms
            )

    def _make_metrics(self, labels: StreamLabels) -> "Metrics":
        from consumer.monitoring.metrics import Metrics  # noqa: PLC0415 - only with metrics

        return Metrics(labels, self.view, self.verdict, self._clock)

    def verdict(self) -> HealthVerdict:
        """Return the present health."""
        return judge_health(self.view(), limit_seconds=self._limit_seconds)
