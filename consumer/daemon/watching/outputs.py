"""What of a task is told to whom, by its settings: the metrics server, lines for CloudWatch, the health file."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import structlog

from archive.clock import Clock
from consumer.daemon.watching.emf import EmfLines
from consumer.daemon.watching.health_file import HealthFile
from consumer.daemon.watching.pulse import MetricLines, Pulse
from consumer.daemon.watching.watch import Watch
from consumer.settings.settings import Settings


def make_watch(settings: Settings, clock: Clock) -> Watch:
    """Return the watch over a task; counters are kept where somebody is to see them."""
    return Watch(
        clock,
        limit_seconds=settings.max_uncommitted_seconds,
        with_metrics=settings.metrics_port is not None or settings.metrics is not None,
    )


@contextmanager
def watched(watch: Watch, settings: Settings, health: Path, worker: str, clock: Clock) -> Iterator[None]:
    """Let the task be watched while the block runs.

    Raises:
        SettingsError: the metrics server has no port.
    """
    lines = None
    if settings.metrics == "emf":
        emf = EmfLines(settings.application_name, worker)
        lines = MetricLines(emf, sys.stdout.buffer, settings.metrics_interval_seconds)
    with ExitStack() as stack:
        if settings.metrics_port is not None and watch.metrics is not None:
            from consumer.daemon.watching.server import serve  # noqa: PLC0415 - only with minutebook.metricsPort

            port, stop = serve(settings.metrics_host, settings.metrics_port, watch.metrics.registry, watch.verdict)
            stack.callback(stop)
            structlog.get_logger().info("metrics_served", host=settings.metrics_host, port=port)
        stack.enter_context(Pulse(watch, HealthFile(health, clock), clock, lines))
        yield
