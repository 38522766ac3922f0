"""Metrics for CloudWatch: one line of its embedded metric format (`minutebook.emf`) per interval on stdout.

Counters hold the increase since the last line. Each metric is one number for the whole task, its shards' worst value
or their sum, with the dimension `Application`. Those that tell that a stream is not archived also exist with
`Application` and `Stream`. CloudWatch charges for every combination of dimensions, so the others do not, and no
metric has the task's id. The shards' own values are in the same line under `shards`, for Logs Insights.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from consumer.monitoring.health import HealthView
from consumer.monitoring.labels import StreamLabels
from minutebook.emf import emf_line

EVENT: Final = "metrics"


class CloudWatchCounter(NamedTuple):
    """A Prometheus counter and its name in CloudWatch."""

    name: str
    unit: str
    source: str


COUNTED: Final = (
    CloudWatchCounter("Segments", "Count", "minutebook_segments"),
    CloudWatchCounter("Records", "Count", "minutebook_records"),
    CloudWatchCounter("PayloadBytes", "Bytes", "minutebook_payload_bytes"),
    CloudWatchCounter("BodyBytes", "Bytes", "minutebook_body_bytes"),
    CloudWatchCounter("PutAttempts", "Count", "minutebook_put_attempts"),
    CloudWatchCounter("SlotsLost", "Count", "minutebook_slots_lost"),
    CloudWatchCounter("IdConflicts", "Count", "minutebook_id_conflicts"),
    CloudWatchCounter("Checkpoints", "Count", "minutebook_checkpoints"),
    CloudWatchCounter("KclSkipped", "Count", "minutebook_kcl_skipped"),
    CloudWatchCounter("ProcessorFailures", "Count", "minutebook_processor_failures"),
    CloudWatchCounter("ProcessorsKilled", "Count", "minutebook_processors_killed"),
    CloudWatchCounter("DaemonRestarts", "Count", "minutebook_daemon_restarts"),
)
GAUGES: Final[Mapping[str, str]] = {
    "Healthy": "Count",
    "DaemonUp": "Count",
    "Shards": "Count",
    "ShardsWithoutReader": "Count",
    "BufferBytes": "Bytes",
    "BehindSeconds": "Seconds",
    "StreamBehindSeconds": "Seconds",
    "CoveredAgeSeconds": "Seconds",
    "LastCommitAgeSeconds": "Seconds",
    "CompleteAgeSeconds": "Seconds",
}
LATENCY: Final = "CommitSeconds"
OF_STREAM: Final = ("Healthy", "BehindSeconds", "CoveredAgeSeconds", "ShardsWithoutReader")
"""The gauges that each stream has by itself: a task's worst value would not tell which one to look at."""


class TaskState(NamedTuple):
    """What a line tells: a task at a time. `totals` maps Prometheus names without `_total` to sums.

    `latencies` are those of the commits since the line before, in seconds.
    """

    view: HealthView
    totals: Mapping[str, float]
    latencies: list[float]
    is_healthy: bool
    now_ms: int


class EmfLines:
    """The lines of one task. `is_sum`: of several streams, so that no metric has a stream of its own."""

    def __init__(self, labels: StreamLabels, worker: str, *, is_sum: bool = False) -> None:
        self._names = _names(labels, worker)
        self._is_sum = is_sum
        self._before: dict[str, float] = {}

    def line(self, state: TaskState) -> bytes:
        """Return the next line."""
        metrics = _gauges(state.view, state.now_ms, is_healthy=state.is_healthy)
        for name, unit, source in COUNTED:
            total = state.totals.get(source, 0)
            metrics[name] = total - self._before.get(source, 0), unit
            self._before[source] = total
        if state.latencies:
            metrics[LATENCY] = state.latencies, "Seconds"
        properties = {
            "unread": sorted(state.view.unread),
            "shards": {shard.shard: _age(shard.oldest_ms, state.now_ms) or 0 for shard in state.view.shards},
        }
        dimensions: dict[tuple[str, ...], Iterable[str]] = {("Application",): metrics}
        if not self._is_sum:
            dimensions["Application", "Stream"] = [name for name in OF_STREAM if name in metrics]
        return emf_line(EVENT, state.now_ms, self._names, dimensions, metrics, properties)


def stream_line(labels: StreamLabels, worker: str, view: HealthView, *, is_healthy: bool, now_ms: int) -> bytes:
    """Return the line of one stream of several: only with the metrics that each stream has by itself."""
    gauges = _gauges(view, now_ms, is_healthy=is_healthy)
    metrics: dict[str, tuple[object, str]] = {name: gauges[name] for name in OF_STREAM if name in gauges}
    properties = {"unread": sorted(view.unread)}
    return emf_line(EVENT, now_ms, _names(labels, worker), {("Application", "Stream"): metrics}, metrics, properties)


def _names(labels: StreamLabels, worker: str) -> dict[str, str]:
    return {"Application": labels.application, "Stream": labels.stream, "Worker": worker}


def _gauges(view: HealthView, now_ms: int, *, is_healthy: bool) -> dict[str, tuple[object, str]]:
    """Return the gauges over all shards with their units, without those that no shard knows."""
    gauges: dict[str, float] = {
        "Healthy": int(is_healthy),
        "DaemonUp": int(view.is_up),
        "Shards": len(view.shards),
        "ShardsWithoutReader": len(view.unread),
        "BufferBytes": sum(shard.buffer_bytes for shard in view.shards),
        "BehindSeconds": max((_age(shard.oldest_ms, now_ms) or 0 for shard in view.shards), default=0),
        "StreamBehindSeconds": max(((shard.stream_behind_ms or 0) / 1000 for shard in view.shards), default=0),
    }
    covered = [age for shard in view.shards if (age := _age(shard.covered_until_ms, now_ms)) is not None]
    committed = [age for shard in view.shards if (age := _age(shard.last_commit_ms, now_ms)) is not None]
    if covered:
        gauges["CoveredAgeSeconds"] = max(covered)
    if committed:
        gauges["LastCommitAgeSeconds"] = max(committed)
    if (complete := _age(view.complete_until_ms, now_ms)) is not None:
        gauges["CompleteAgeSeconds"] = complete
    return {name: (value, GAUGES[name]) for name, value in gauges.items()}


def _age(then_ms: int | None, now_ms: int) -> float | None:
    return None if then_ms is None else max(0, now_ms - then_ms) / 1000
