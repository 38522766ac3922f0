"""Counters and gauges, made by the supervisor from the processors' log lines: no cost in a processor.

A series is there as soon as its shard is known, with 0 before the first event. The counters of a shard stay when it
goes to another worker; its gauges go with it, so nothing stale is ever shown.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from consumer.child_logs.kcl_log import KclEvent, Skipped
from consumer.child_logs.processor_log import FAILED, OPENED, ProcessorEvent
from consumer.monitoring.health import HealthVerdict, HealthView
from consumer.monitoring.shards import COMMITTED
from minutebook.clock import Clock

_BUCKETS: Final = (0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_EXIT_CODES: Final = ("1", "2", "5", "6")
_LATENCIES: Final = 100
"""CloudWatch takes so many values of one metric in one line."""


class Metrics:
    """The metrics of one supervisor, in a registry of their own."""

    def __init__(self, look: Callable[[], HealthView], verdict: Callable[[], HealthVerdict], clock: Clock) -> None:
        self.registry = CollectorRegistry()
        self._latencies: list[float] = []

        def counter(name: str, what: str, *labels: str) -> Counter:
            return Counter(f"minutebook_{name}", what, labels, registry=self.registry)

        self._segments = counter("segments", "Segments committed", "shard")
        self._records = counter("records", "Records committed", "shard")
        self._payload_bytes = counter("payload_bytes", "Payload bytes committed, uncompressed", "shard")
        self._body_bytes = counter("body_bytes", "Bytes of segment bodies written to S3", "shard")
        self._puts = counter("put_attempts", "PUTs that the committed segments took", "shard")
        self._slots_lost = counter("slots_lost", "Slots that another writer held already", "shard")
        self._id_conflicts = counter("id_conflicts", "Records kept that name the id of another event", "shard")
        self._checkpoints = counter("checkpoints", "Checkpoints written", "shard")
        self._skipped = counter(
            "kcl_skipped", "Batches and aggregates' rests that KCL gave up on", "shard", "skipped"
        )
        self._failures = counter("processor_failures", "Processors that ended with an error", "exit_code")
        self._killed = counter("processors_killed", "Processors that ended without a last word")
        self._restarts = counter("daemon_restarts", "Restarts of the daemon after a crash")
        self._commit_seconds = Histogram(
            "minutebook_commit_seconds",
            "From a buffer's end to its segment's answer from S3, retries included",
            ["shard"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        Gauge("minutebook_healthy", "1 while the health check passes", registry=self.registry).set_function(
            lambda: float(verdict().is_healthy)
        )
        for code in _EXIT_CODES:
            self._failures.labels(code)
        for skipped in Skipped:
            self._skipped.labels("", skipped)
        self.registry.register(_Gauges(look, clock))

    def know(self, shards: Collection[str]) -> None:
        """Make the series of these shards, where they are not there yet."""
        for shard in shards:
            for family in (
                *(self._segments, self._records, self._payload_bytes, self._body_bytes, self._puts),
                *(self._slots_lost, self._id_conflicts, self._checkpoints, self._commit_seconds),
            ):
                family.labels(shard)
            self._skipped.labels(shard, Skipped.BATCH)

    def count(self, event: ProcessorEvent) -> None:
        """Count one line of a processor; lines that count nothing are ignored."""
        match event.event:
            case name if name == OPENED:
                self.know([event.shard])
            case name if name == COMMITTED:
                self._segments.labels(event.shard).inc()
                self._records.labels(event.shard).inc(event.records)
                self._payload_bytes.labels(event.shard).inc(event.payload_bytes)
                self._body_bytes.labels(event.shard).inc(event.body_bytes)
                self._puts.labels(event.shard).inc(event.attempts)
                self._commit_seconds.labels(event.shard).observe(event.commit_seconds)
                self._latencies = [*self._latencies, event.commit_seconds][-_LATENCIES:]
            case "slot_lost":
                self._slots_lost.labels(event.shard).inc()
            case "id_conflict":
                self._id_conflicts.labels(event.shard).inc(event.records)
            case "checkpoint_written":
                self._checkpoints.labels(event.shard).inc()
            case name if name == FAILED:
                self._failures.labels(str(event.exit_code)).inc()

    def count_skipped(self, event: KclEvent) -> None:
        """Count what a line of the daemon says that KCL gave up on; `nothing` is memory that ran out."""
        self._skipped.labels(event.shard, event.skipped).inc()

    def count_killed(self) -> None:
        """Count a processor that ended without a last word."""
        self._killed.inc()

    def count_restart(self) -> None:
        """Count one restart of the daemon."""
        self._restarts.inc()

    def totals(self) -> dict[str, float]:
        """Return each counter's sum over its labels, by its name without `_total`."""
        return {
            family.name: sum(sample.value for sample in family.samples if sample.name.endswith("_total"))
            for family in self.registry.collect()
            if family.type == "counter"
        }

    def take_latencies(self) -> list[float]:
        """Return the seconds of the last commits, each once; of very many the latest."""
        taken, self._latencies = self._latencies, []
        return taken


class _Gauges(Collector):
    """The gauges, as they are at the moment when somebody asks."""

    def __init__(self, look: Callable[[], HealthView], clock: Clock) -> None:
        self._look = look
        self._clock = clock

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield every gauge; a time that is not known is 0, as is the age of a record that is not there."""
        look, now_ms = self._look(), self._clock.now_ms()
        covered = _family("covered_until_timestamp_seconds", "Until when all that arrived is archived")
        committed = _family("last_commit_timestamp_seconds", "When the last segment was committed")
        behind = _family("behind_seconds", "Age of the oldest record that was received and is not archived")
        stream = _family("stream_behind_seconds", "How far the daemon's last read was behind the stream's tip")
        buffered = _family("buffer_bytes", "Bytes of records that are received and not yet committed")
        for shard in look.shards:
            name = [shard.shard]
            covered.add_metric(name, (shard.covered_until_ms or 0) / 1000)
            committed.add_metric(name, (shard.last_commit_ms or 0) / 1000)
            behind.add_metric(name, 0 if shard.oldest_ms is None else max(0, now_ms - shard.oldest_ms) / 1000)
            stream.add_metric(name, (shard.stream_behind_ms or 0) / 1000)
            buffered.add_metric(name, shard.buffer_bytes)
        unread = _family("shard_without_reader", "1 for a shard that nobody reads, seen by this worker")
        for shard_id in sorted({*look.unread, *(shard.shard for shard in look.shards)}):
            unread.add_metric([shard_id], float(shard_id in look.unread))
        yield from (covered, committed, behind, stream, buffered, unread)
        count = "Shards that nobody reads, seen by this worker"
        yield GaugeMetricFamily("minutebook_shards_without_reader", count, len(look.unread))
        yield GaugeMetricFamily("minutebook_shards", "Shards that this worker reads", len(look.shards))
        yield GaugeMetricFamily("minutebook_daemon_up", "1 while a daemon runs", float(look.is_up))


def _family(name: str, what: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"minutebook_{name}", what, labels=["shard"])
