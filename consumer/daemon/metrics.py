"""Counters for Prometheus, counted by the supervisor from the processors' log lines: no cost in a processor."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from archive.errors import SettingsError
from consumer.daemon.kcl_log import KclEvent
from consumer.daemon.processor_log import FAILED, ProcessorEvent

if TYPE_CHECKING:
    from prometheus_client import Counter

_LOOPBACK: Final = "127.0.0.1"


class Metrics:
    """The counters of one supervisor, in a registry of their own."""

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge  # noqa: PLC0415 - only with minutebook.metricsPort

        self.registry = CollectorRegistry()

        def counter(name: str, what: str, *labels: str) -> "Counter":
            return Counter(f"minutebook_{name}", what, labels, registry=self.registry)

        self._segments = counter("segments", "Segments committed", "shard")
        self._records = counter("records", "Records committed", "shard")
        self._payload_bytes = counter("payload_bytes", "Payload bytes committed, uncompressed", "shard")
        self._body_bytes = counter("body_bytes", "Bytes of segment bodies written to S3", "shard")
        self._puts = counter("put_attempts", "PUTs that the committed segments took", "shard")
        self._slots_lost = counter("slots_lost", "Slots that another writer held already", "shard")
        self._id_conflicts = counter("id_conflicts", "Records kept that name the id of another event", "shard")
        self._checkpoints = counter("checkpoints", "Checkpoints written", "shard")
        self._failures = counter("processor_failures", "Processors that ended with an error", "exit_code")
        self._killed = counter("processors_killed", "Processors that ended without a last word")
        self._unread = Gauge(
            "minutebook_shards_without_reader",
            "Shards that nobody reads, seen by this worker",
            registry=self.registry,
        )
        self._skipped = counter("kcl_skipped", "Batches and aggregates' rests that KCL gave up on", "skipped")
        self._restarts = counter("daemon_restarts", "Restarts of the daemon after a crash")

    def count(self, event: ProcessorEvent) -> None:
        """Count one line of a processor; lines that count nothing are ignored."""
        match event.event:
            case "segment_committed":
                self._segments.labels(event.shard).inc()
                self._records.labels(event.shard).inc(event.records)
                self._payload_bytes.labels(event.shard).inc(event.payload_bytes)
                self._body_bytes.labels(event.shard).inc(event.body_bytes)
                self._puts.labels(event.shard).inc(event.attempts)
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
        self._skipped.labels(event.skipped).inc()

    def count_killed(self) -> None:
        """Count a processor that ended without a last word."""
        self._killed.inc()

    def set_unread(self, shards: int) -> None:
        """Set how many shards are without a reader."""
        self._unread.set(shards)

    def count_restart(self) -> None:
        """Count one restart of the daemon."""
        self._restarts.inc()

    def serve(self, port: int) -> Callable[[], None]:
        """Serve the counters on loopback, from a thread, until the process ends or the returned function is called.

        Raises:
            SettingsError: the port is taken.
        """
        from prometheus_client import start_http_server  # noqa: PLC0415 - only with minutebook.metricsPort

        try:
            server, thread = start_http_server(port, addr=_LOOPBACK, registry=self.registry)
        except OSError as exc:
            raise SettingsError(
                f"minutebook.metricsPort={port}: {exc.strerror}", next_step="choose a free port"
            ) from exc

        def stop() -> None:
            server.shutdown()
            server.server_close()
            thread.join()

        return stop
