"""The thread that writes for those who watch: the health file every few seconds, a line of metrics every interval."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import BinaryIO, Final, NamedTuple, Self

import structlog

from consumer.monitoring.cloudwatch import EmfLines
from consumer.monitoring.health_file import WRITE_SECONDS, HealthFile
from consumer.monitoring.watch import Watch
from minutebook.clock import Clock

_JOIN_SECONDS: Final = 2


class MetricLines(NamedTuple):
    """Lines of metrics, where they go, and how often."""

    lines: EmfLines
    sink: BinaryIO
    every_seconds: float


class HealthWriter:
    """Writes while the block runs; at its end the last metrics are written and the health file is removed."""

    def __init__(self, watch: Watch, file: HealthFile, clock: Clock, metrics: MetricLines | None = None) -> None:
        self._watch = watch
        self._file = file
        self._clock = clock
        self._metrics = metrics
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="health-writer", daemon=True)
        self._written_at = clock.monotonic()

    def __enter__(self) -> Self:
        self._try(self.step)
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _value: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(_JOIN_SECONDS)
        self._try(self._write_metrics)
        self._file.remove()

    def step(self) -> None:
        """Write what is due."""
        self._file.write(self._watch.verdict())
        if self._metrics is not None and self._clock.monotonic() - self._written_at >= self._metrics.every_seconds:
            self._write_metrics()

    def _write_metrics(self) -> None:
        if self._metrics is None or self._watch.metrics is None:
            return
        self._written_at = self._clock.monotonic()
        counters = self._watch.metrics
        line = self._metrics.lines.line(
            self._watch.look(),
            counters.totals(),
            counters.take_latencies(),
            is_healthy=self._watch.verdict().is_healthy,
            now_ms=self._clock.now_ms(),
        )
        self._metrics.sink.write(line)
        self._metrics.sink.flush()

    def _run(self) -> None:
        wait = WRITE_SECONDS if self._metrics is None else min(WRITE_SECONDS, self._metrics.every_seconds)
        while not self._stop.wait(wait):
            self._try(self.step)

    def _try(self, write: Callable[[], None]) -> None:
        """Watching must never end what it watches: a stdout that nobody reads costs the lines and no more."""
        try:
            write()
        except (OSError, ValueError) as exc:
            if self._metrics is not None:
                self._metrics = None
                structlog.get_logger().warning(
                    "metrics_not_written", error=str(exc), next_step="let somebody read the task's stdout"
                )
