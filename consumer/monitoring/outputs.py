"""What of a task is told to whom, by its settings: the metrics server, lines for CloudWatch, the health file."""

import math
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import structlog

from consumer.monitoring.cloudwatch import EmfLines
from consumer.monitoring.health_file import HealthFile
from consumer.monitoring.health_writer import HealthWriter, MetricLines
from consumer.monitoring.watch import LIMIT_SECONDS, Watch
from consumer.settings.settings import Settings
from minutebook.clock import Clock

_MINUTE_SECONDS: Final = 60


def make_watch(settings: Settings, clock: Clock) -> Watch:
    """Return the watch over a task; counters are kept where somebody is to see them."""
    return Watch(
        clock,
        limit_seconds=_limit_seconds(settings),
        with_metrics=settings.metrics_port is not None or settings.metrics is not None,
    )


def _limit_seconds(settings: Settings) -> float:
    """Return for how long a record may wait: what is set, else 300 s, or twice as long as one is held anyway."""
    if settings.max_uncommitted_seconds is not None:
        return settings.max_uncommitted_seconds
    held = min(settings.flush_seconds or math.inf, _MINUTE_SECONDS + settings.linger_seconds)
    return max(LIMIT_SECONDS, 2 * held)


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
            from consumer.monitoring.server import serve_metrics  # noqa: PLC0415 - only with minutebook.metricsPort

            port, stop = serve_metrics(
                settings.metrics_host, settings.metrics_port, watch.metrics.registry, watch.verdict
            )
            stack.callback(stop)
            structlog.get_logger().info("metrics_served", host=settings.metrics_host, port=port)
        stack.enter_context(HealthWriter(watch, HealthFile(health, clock), clock, lines))
        yield
