"""Store a supervisor's news: `_until/<boundary>/<run>-<ms>.json`, at most one in half a minute."""

from typing import Final

from consumer.boundaries.known import KnownShards
from minutebook.clock import Clock
from minutebook.format.boundaries import RowsObject, encode_boundary, rows_key
from minutebook.store.retrying import RetryingStore

EVERY_SECONDS: Final = 30.0


class DaemonRuns:
    """The names of a supervisor's runs of the daemon: `<id>.<number>`. `name` is that of the present one.

    What a run has said of a shard ends with it: the next one reads again what KCL had skipped.
    """

    def __init__(self, supervisor: str) -> None:
        self.supervisor = supervisor
        self._number = 0

    @property
    def name(self) -> str:
        """The name of the present run."""
        return f"{self.supervisor}.{self._number}"

    def begin(self) -> None:
        """Begin the next run."""
        self._number += 1


class RowWriter:
    """Writes the rows of a supervisor. An object is sent until S3 acknowledges it, then the next one."""

    def __init__(
        self,
        store: RetryingStore,
        prefix: str,
        known: KnownShards,
        clock: Clock,
        *,
        worker: str,
        runs: DaemonRuns,
        every_ms: int,
    ) -> None:
        self._store = store
        self._prefix = prefix
        self._known = known
        self._clock = clock
        self._worker = worker
        self._runs = runs
        self._every_ms = every_ms
        self._unanswered: tuple[str, bytes] | None = None
        self._stored_at: float | None = None
        self._last_ms = 0

    def is_due(self) -> bool:
        """Return whether `store` would store something now."""
        has_news = self._unanswered is not None or self._known.has_news()
        return has_news and self._may_store(self._clock.monotonic())

    def store(self, service_ms: int, *, at_once: bool = False) -> bool:
        """Store what is new, if it is time to, or `at_once`; return whether anything was stored. Raises as the store.

        `service_ms` is the service's time; it names the boundary at or before it.
        """
        now = self._clock.monotonic()
        if not at_once and not self._may_store(now):
            return False
        stored = self._send()
        news = self._known.take_news()
        if news:
            self._last_ms = max(service_ms, self._last_ms + 1)
            boundary_ms = service_ms // self._every_ms * self._every_ms
            document = RowsObject(worker=self._worker, run=self._runs.name, rows=news)
            key = rows_key(self._prefix, boundary_ms, self._runs.name, self._last_ms)
            self._unanswered = key, encode_boundary(document)
            stored = self._send() or stored
        if stored:
            self._stored_at = now
        return stored

    def _may_store(self, now: float) -> bool:
        return self._stored_at is None or now - self._stored_at >= EVERY_SECONDS

    def _send(self) -> bool:
        """Send the object whose answer is not known; the key is ours alone, so that it exists means that we did."""
        if self._unanswered is None:
            return False
        self._store.put_if_absent(*self._unanswered)
        self._unanswered = None
        return True
