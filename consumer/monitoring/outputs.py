"""The outputs of a task, by its settings: metrics server, lines for CloudWatch, health file."""

import math
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple, Protocol, Self

import structlog

from consumer.monitoring.cloudwatch import EmfLines, TaskState
from consumer.monitoring.health import HealthVerdict, HealthView
from consumer.monitoring.health_file import WRITE_SECONDS, HealthFile
from consumer.monitoring.labels import StreamLabels
from consumer.monitoring.watch import LIMIT_SECONDS, Watch
from consumer.settings.settings import Settings
from minutebook.clock import Clock

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_MINUTE_SECONDS: Final = 60
_JOIN_SECONDS: Final = 2


class Lines(Protocol):
    """Makes the next line of metrics, or lines; see `EmfLines`."""

    def line(self, state: TaskState) -> bytes:
        """Return what to write."""
        ...


class Counters(Protocol):
    """What the lines count; see `consumer.monitoring.metrics.Metrics`."""

    def totals(self) -> dict[str, float]:
        """Return each counter's sum."""
        ...

    def take_latencies(self) -> list[float]:
        """Return the latencies of the commits since the last call."""
        ...


class Watched(Protocol):
    """A task as its outputs see it: of one stream (`Watch`), or of several."""

    @property
    def metrics(self) -> Counters | None:
        """The counters; None without metrics."""
        ...

    def view(self) -> HealthView:
        """Return the present state."""
        ...

    def verdict(self) -> HealthVerdict:
        """Return the present health."""
        ...


class MetricLines(NamedTuple):
    """Lines of metrics, their sink and interval."""

    lines: Lines
    sink: BinaryIO
    every_seconds: float


class HealthWriter:
    """Writes health files and metric lines from a thread; at the block's end the last line, and removes the files."""

    def __init__(
        self, watch: Watched, files: Sequence[HealthFile], clock: Clock, metrics: MetricLines | None = None
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
        state = TaskState(
            self._watch.view(),
            counters.totals(),
            counters.take_latencies(),
            self._watch.verdict().is_healthy,
            self._clock.now_ms(),
        )
        self._metrics.sink.write(self._metrics.lines.line(state))
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
        labels=None if settings.metrics_port is None and settings.metrics is None else labels_of(settings),
    )


def labels_of(settings: Settings) -> StreamLabels:
    """Return the labels of the stream that a task reads."""
    return StreamLabels(settings.application_name, settings.stream_name)


def _limit_seconds(settings: Settings) -> float:
    """Return the longest wait for a commit: as set, else 300 s or twice the time in a buffer."""
    if settings.max_uncommitted_seconds is not None:
        return settings.max_uncommitted_seconds
    buffered = min(settings.flush_seconds or math.inf, _MINUTE_SECONDS + settings.linger_seconds)
    return max(LIMIT_SECONDS, 2 * buffered)


def serve(settings: Settings, port: int, registry: "CollectorRegistry", watch: Watched, stack: ExitStack) -> None:
    """Run the metrics server until the stack closes; raises SettingsError if it gets no port."""
    from minutebook.metrics_server import serve_metrics  # noqa: PLC0415 - only with minutebook.metricsPort

    port, stop = serve_metrics(settings.metrics_host, port, registry, watch.verdict)
    stack.callback(stop)
    structlog.get_logger().info("metrics_served", host=settings.metrics_host, port=port)


@contextmanager
def health_written(watch: Watch, health: Iterable[Path], clock: Clock) -> Iterator[None]:
    """Write the health files of one stream of several while the block runs."""
    with HealthWriter(watch, [HealthFile(path, clock) for path in health], clock):
        yield


@contextmanager
def watched(watch: Watch, settings: Settings, health: Iterable[Path], worker: str, clock: Clock) -> Iterator[None]:
    """Run the outputs while the block runs; raises SettingsError if the metrics server gets no port."""
    lines = None
    if settings.metrics == "emf":
        emf = EmfLines(labels_of(settings), worker)
        lines = MetricLines(emf, sys.stdout.buffer, settings.metrics_interval_seconds)
    with ExitStack() as stack:
        if settings.metrics_port is not None and watch.metrics is not None:
            serve(settings, settings.metrics_port, watch.metrics.registry, watch, stack)
        files = [HealthFile(path, clock) for path in health]
        stack.enter_context(HealthWriter(watch, files, clock, lines))
        yield
