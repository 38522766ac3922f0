"""The outputs of a task, by its settings: metrics server, lines for CloudWatch, health file."""

import math
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, NamedTuple, Self

import structlog

from consumer.monitoring.cloudwatch import EmfLines
from consumer.monitoring.health_file import WRITE_SECONDS, HealthFile
from consumer.monitoring.watch import LIMIT_SECONDS, Watch
from consumer.settings.settings import Settings
from minutebook.clock import Clock

_MINUTE_SECONDS: Final = 60
_JOIN_SECONDS: Final = 2


class MetricLines(NamedTuple):
    """Lines of metrics, their sink and interval."""

    lines: EmfLines
    sink: BinaryIO
    every_seconds: float


class HealthWriter:
    """Writes health files and metric lines from a thread; at the block's end the last line, and removes the files."""

    def __init__(
        self, watch: Watch, files: Sequence[HealthFile], clock: Clock, metrics: MetricLines | None = None
    ) -> None:
        self._watch = watch
        self._files = files
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
        for file in self._files:
            file.remove()

    def step(self) -> None:
        """Write what is due."""
        for file in self._files:
            file.write(self._watch.verdict())
        if self._metrics is not None and self._clock.monotonic() - self._written_at >= self._metrics.every_seconds:
            self._write_metrics()

    def _write_metrics(self) -> None:
        if self._metrics is None or self._watch.metrics is None:
            return
        self._written_at = self._clock.monotonic()
        counters = self._watch.metrics
        line = self._metrics.lines.line(
            self._watch.view(),
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
        """Write; an error only stops the metric lines, because monitoring must never end the task."""
        try:
            write()
        except (OSError, ValueError) as exc:
            if self._metrics is not None:
                self._metrics = None
                structlog.get_logger().warning(
                    "metrics_not_written", error=str(exc), next_step="let somebody read the task's stdout"
                )


def make_watch(settings: Settings, clock: Clock) -> Watch:
    """Return the state of a task, with counters if the settings ask for metrics."""
    return Watch(
        clock,
        limit_seconds=_limit_seconds(settings),
        with_metrics=settings.metrics_port is not None or settings.metrics is not None,
    )


def _limit_seconds(settings: Settings) -> float:
    """Return the longest wait for a commit: as set, else 300 s or twice the time in a buffer."""
    if settings.max_uncommitted_seconds is not None:
        return settings.max_uncommitted_seconds
    buffered = min(settings.flush_seconds or math.inf, _MINUTE_SECONDS + settings.linger_seconds)
    return max(LIMIT_SECONDS, 2 * buffered)


@contextmanager
def watched(watch: Watch, settings: Settings, health: Iterable[Path], worker: str, clock: Clock) -> Iterator[None]:
    """Run the outputs while the block runs; raises SettingsError if the metrics server gets no port."""
    lines = None
    if settings.metrics == "emf":
        emf = EmfLines(settings.application_name, worker)
        lines = MetricLines(emf, sys.stdout.buffer, settings.metrics_interval_seconds)
    with ExitStack() as stack:
        if settings.metrics_port is not None and watch.metrics is not None:
            from consumer.monitoring.server import serve_metrics  # noqa: PLC0415 - only with minutebook.metricsPort

            port, stop = serve_metrics(
                settings.metrics_host, settings.metrics_port, watch.metrics.registry, watch.verdict
            )
            stack.callback(stop)
            structlog.get_logger().info("metrics_served", host=settings.metrics_host, port=port)
        files = [HealthFile(path, clock) for path in health]
        stack.enter_context(HealthWriter(watch, files, clock, lines))
        yield
