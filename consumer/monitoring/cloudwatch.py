"""Metrics for CloudWatch: one line of its embedded metric format (`minutebook.emf`) per interval on stdout.

Counters hold the increase since the last line. Each metric is one number for the whole task, its shards' worst value
or their sum, with `Application` as the only dimension: CloudWatch charges for every combination of dimensions, and
each new task has a new id. The shards' own values are in the same line under `shards`, for Logs Insights.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from consumer.monitoring.health import HealthView
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
}
LATENCY: Final = "CommitSeconds"


class EmfLines:
    """The lines of one task."""

    def __init__(self, application: str, worker: str) -> None:
        self._names = {"Application": application, "Worker": worker}
        self._before: dict[str, float] = {}

    def line(
        self,
        view: HealthView,
        totals: Mapping[str, float],
        latencies: list[float],
        *,
        is_healthy: bool,
        now_ms: int,
    ) -> bytes:
        """Return the next line; `totals` maps Prometheus names without `_total` to sums."""
        gauges = dict(_gauges(view, now_ms), Healthy=int(is_healthy))
        metrics: dict[str, tuple[object, str]] = {name: (value, GAUGES[name]) for name, value in gauges.items()}
        for name, unit, source in COUNTED:
            total = totals.get(source, 0)
            metrics[name] = total - self._before.get(source, 0), unit
            self._before[source] = total
        if latencies:
            metrics[LATENCY] = latencies, "Seconds"
        properties = {
            "unread": sorted(view.unread),
            "shards": {shard.shard: _age(shard.oldest_ms, now_ms) or 0 for shard in view.shards},
        }
        return emf_line(EVENT, now_ms, self._names, ("Application",), metrics, properties)


def _gauges(view: HealthView, now_ms: int) -> dict[str, float]:
    """Return the gauges over all shards, without those that no shard knows."""
    gauges: dict[str, float] = {
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
    return gauges


def _age(then_ms: int | None, now_ms: int) -> float | None:
    return None if then_ms is None else max(0, now_ms - then_ms) / 1000
