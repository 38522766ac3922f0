"""Counters and gauges, which the supervisor derives from the processors' log lines, at no cost in a processor.

Every series has the labels `application` and `stream`, because shards of two streams have the same ids. A series
exists as soon as its shard is known, with 0 before the first event. When a shard goes to another worker, its counters
stay and its gauges go, so that none is stale.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from consumer.child_logs.kcl_log import KclEvent, Skipped
from consumer.child_logs.processor_log import COMMITTED, FAILED, OPENED, ProcessorEvent
from consumer.monitoring.health import HealthVerdict, HealthView
from consumer.monitoring.labels import LABEL_NAMES, StreamLabels
from minutebook.clock import Clock

_BUCKETS: Final = (0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_EXIT_CODES: Final = ("1", "2", "4", "5", "6")
_LATENCIES: Final = 100
"""CloudWatch's limit for the values of one metric in a line."""


class Metrics:
    """The metrics of one stream, in a registry of their own."""

    def __init__(
        self,
        labels: StreamLabels,
        view: Callable[[], HealthView],
        verdict: Callable[[], HealthVerdict],
        clock: Clock,
    ) -> None:
        self.registry = CollectorRegistry()
        self._labels = labels
        self._latencies: list[float] = []

        def counter(name: str, what: str, *more: str) -> Counter:
            return Counter(f"minutebook_{name}", what, [*LABEL_NAMES, *more], registry=self.registry)

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
        self._killed = counter("processors_killed", "Processors that ended without a last word").labels(*labels)
        self._restarts = counter("daemon_restarts", "Restarts of the daemon after a crash").labels(*labels)
        self._commit_seconds = Histogram(
            "minutebook_commit_seconds",
            "From a buffer's end to its segment's answer from S3, retries included",
            [*LABEL_NAMES, "shard"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        healthy = Gauge("minutebook_healthy", "1 while the health check passes", LABEL_NAMES, registry=self.registry)
        healthy.labels(*labels).set_function(lambda: float(verdict().is_healthy))
        for code in _EXIT_CODES:
            self._failures.labels(*labels, code)
        for skipped in Skipped:
            self._skipped.labels(*labels, "", skipped)
        self.registry.register(_Gauges(labels, view, clock))

    def add_shards(self, shards: Collection[str]) -> None:
        """Create the missing series of these shards."""
        for shard in shards:
            for family in (
                *(self._segments, self._records, self._payload_bytes, self._body_bytes, self._puts),
                *(self._slots_lost, self._id_conflicts, self._checkpoints, self._commit_seconds),
            ):
                family.labels(*self._labels, shard)
            self._skipped.labels(*self._labels, shard, Skipped.BATCH)

    def count(self, event: ProcessorEvent) -> None:
        """Count one line of a processor; other events are ignored."""
        match event.event:
            case name if name == OPENED:
                self.add_shards([event.shard])
            case name if name == COMMITTED:
                self._segments.labels(*self._labels, event.shard).inc()
                self._records.labels(*self._labels, event.shard).inc(event.records)
                self._payload_bytes.labels(*self._labels, event.shard).inc(event.payload_bytes)
                self._body_bytes.labels(*self._labels, event.shard).inc(event.body_bytes)
                self._puts.labels(*self._labels, event.shard).inc(event.attempts)
                self._commit_seconds.labels(*self._labels, event.shard).observe(event.commit_seconds)
                self._latencies = [*self._latencies, event.commit_seconds][-_LATENCIES:]
            case "slot_lost":
                self._slots_lost.labels(*self._labels, event.shard).inc()
            case "id_conflict":
                self._id_conflicts.labels(*self._labels, event.shard).inc(event.records)
            case "checkpoint_written":
                self._checkpoints.labels(*self._labels, event.shard).inc()
            case name if name == FAILED:
                self._failures.labels(*self._labels, str(event.exit_code)).inc()

    def count_skipped(self, event: KclEvent) -> None:
        """Count a skip of KCL; `nothing` means that the daemon ran out of memory."""
        self._skipped.labels(*self._labels, event.shard, event.skipped).inc()

    def count_killed(self) -> None:
        """Count a processor that ended without a last line."""
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
        """Return the latencies of the commits since the last call, at most the latest 100, in seconds."""
        latencies, self._latencies = self._latencies, []
        return latencies


class _Gauges(Collector):
    """The gauges, computed for each scrape."""

    def __init__(self, labels: StreamLabels, view: Callable[[], HealthView], clock: Clock) -> None:
        self._labels = labels
        self._view = view
        self._clock = clock

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield every gauge; unknown times and the age of no record are 0."""
        view, now_ms = self._view(), self._clock.now_ms()
        covered = _of_shards("covered_until_timestamp_seconds", "Until when all that arrived is archived")
        committed = _of_shards("last_commit_timestamp_seconds", "When the last segment was committed")
        behind = _of_shards("behind_seconds", "Age of the oldest record that was received and is not archived")
        stream = _of_shards("stream_behind_seconds", "How far the daemon's last read was behind the stream's tip")
        buffered = _of_shards("buffer_bytes", "Bytes of records that are received and not yet committed")
        for shard in view.shards:
            labels = [*self._labels, shard.shard]
            covered.add_metric(labels, (shard.covered_until_ms or 0) / 1000)
            committed.add_metric(labels, (shard.last_commit_ms or 0) / 1000)
            behind.add_metric(labels, 0 if shard.oldest_ms is None else max(0, now_ms - shard.oldest_ms) / 1000)
            stream.add_metric(labels, (shard.stream_behind_ms or 0) / 1000)
            buffered.add_metric(labels, shard.buffer_bytes)
        unread = _of_shards("shard_without_reader", "1 for a shard that nobody reads, seen by this worker")
        for shard_id in sorted({*view.unread, *(shard.shard for shard in view.shards)}):
            unread.add_metric([*self._labels, shard_id], float(shard_id in view.unread))
        yield from (covered, committed, behind, stream, buffered, unread)
        yield self._one("shards_without_reader", "Shards that nobody reads, seen by this worker", len(view.unread))
        yield self._one("shards", "Shards that this worker reads", len(view.shards))
        yield self._one(
            "complete_until_timestamp_seconds",
            "Until when all that arrived on the stream is archived, by the newest boundary; 0: none is known",
            (view.complete_until_ms or 0) / 1000,
        )
        yield self._one("daemon_up", "1 while a daemon runs", float(view.is_up))
        yield self._one("stream_up", "1 while this task's daemon reads the stream", float(view.is_up))

    def _one(self, name: str, what: str, value: float) -> GaugeMetricFamily:
        family = GaugeMetricFamily(f"minutebook_{name}", what, labels=LABEL_NAMES)
        family.add_metric(self._labels, value)
        return family


def _of_shards(name: str, what: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"minutebook_{name}", what, labels=[*LABEL_NAMES, "shard"])
