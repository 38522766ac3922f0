"""What is done beside the daemon of a stream: look, store rows, and publish. Nothing waits for it.

The supervisor's `JobPool` asks once a second what is due, and does it.

    boundary + 61 s ..... the leader tries to publish, every ten seconds until it is done
    boundary + 121 s .... every other worker does, every thirty: the leader may be dead, or of an older version

An error costs time and nothing else: it is logged, once in ten minutes, and tried again.
"""

import threading
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Protocol

import structlog

from consumer.boundaries.known import KnownShards, ReadShard
from consumer.boundaries.looks import AGAIN_SECONDS, IN_FLIGHT, Look, Looker, is_due
from consumer.boundaries.pool import Job
from consumer.boundaries.saying import DaemonRuns, RowWriter
from consumer.child_logs.processor_log import ProcessorEvent
from consumer.settings.settings import Settings
from consumer.stream.port import StreamPort
from minutebook.clock import Clock
from minutebook.completeness.folding import Hold, next_boundary
from minutebook.completeness.publisher import Publisher
from minutebook.errors import MinutebookError
from minutebook.format.boundaries import CompleteMarker
from minutebook.format.markers import ApplicationRecord
from minutebook.format.minute import MINUTE_MS, iso_time
from minutebook.store.retrying import RetryingStore

_TURN_SECONDS: Final = 1.0
"""For one look after the other; then other streams have a turn."""
_LEADER_MS: Final = 61_000
_OTHERS_MS: Final = 121_000
_LEADER_SECONDS: Final = 10.0
_OTHERS_SECONDS: Final = 30.0
_LATE_MS: Final = 15 * MINUTE_MS
JOBS: Final = IN_FLIGHT + 2
"""Of one stream at once: looks, rows and a publication."""
_STORING_SECONDS: Final = 3.0
_TOLD_SECONDS: Final = 600.0
_TRIED: Final = "archiving goes on, and this is tried again"


class DaemonLog(Protocol):
    """The daemon's own log, as far as it was read."""

    def is_read_to_its_end(self) -> bool:
        """Return whether all that the daemon has written by now was read."""


class Boundaries:
    """The boundaries of one supervisor: `note`, `skipped` and the ends of runs come from the supervisor.

    `leads`: this worker is KCL's leader. `on_complete` gets the newest boundary in epoch ms.
    """

    def __init__(
        self,
        known: KnownShards,
        looker: Looker,
        writer: RowWriter,
        publisher: Publisher,
        stream: StreamPort,
        clock: Clock,
        *,
        every_ms: int,
        leads: Callable[[], bool],
        runs: DaemonRuns,
        on_complete: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._runs = runs
        self._known = known
        self._looker = looker
        self._writer = writer
        self._publisher = publisher
        self._stream = stream
        self._clock = clock
        self._every_ms = every_ms
        self._leads = leads
        self._on_complete = on_complete
        self._log = structlog.get_logger()
        self._daemon_log: DaemonLog | None = None
        self._storing = threading.Lock()
        self._newest: CompleteMarker | None = None
        self._tried_at: float | None = None
        self._not_before: dict[str, float] = {}
        self._in_flight: set[str] = set()
        self._due: deque[ReadShard] = deque()
        self._handing_out = threading.Lock()
        self._failed_at: dict[str, float] = {}
        self._began_ms: int | None = None
        self._held: frozenset[str | None] = frozenset()
        self._has_skipped = False
        self._skipped_runs = self._judged_runs = 0

    # From the supervisor

    def daemon_started(self, log: DaemonLog) -> None:
        """Begin a run of the daemon."""
        self._runs.begin()
        self._known.daemon_started()
        self._daemon_log = log
        self._skipped_runs += self._has_skipped  # its marker was stored before
        self._has_skipped = False

    def note(self, event: ProcessorEvent) -> None:
        """Take a line of a processor."""
        self._known.note(event)

    def skipped(self, shard_id: str) -> None:
        """Take a line of the daemon that it skipped a batch of a shard (empty: not known of which)."""
        self._has_skipped = True
        self._known.skipped(shard_id)

    def store_last(self) -> None:
        """Store the rows of a run of the daemon that has ended. An error is logged: the archive knows it, too."""
        self.settle()
        self._daemon_log = None
        self._guarded("rows", lambda: self.store(at_once=True))

    # From the pool

    def jobs(self) -> Mapping[str, Job]:
        """Return what is due by name; asks no service."""
        jobs: dict[str, Job] = {}
        self._guarded("jobs", lambda: jobs.update(self._jobs()))
        return jobs

    def _jobs(self) -> dict[str, Job]:
        if self._stream.service_ms() is None:
            # Its answer has the service's time.
            return {"time": partial(self._guarded, "looks", self._stream.describe)}
        self.settle()
        with self._handing_out:
            self._due = deque(self.due_shards())
            looks = range(min(IN_FLIGHT, len(self._due)))
        jobs: dict[str, Job] = {f"look-{number}": self._look_on for number in looks}
        if self._writer.is_due():
            jobs["rows"] = partial(self._guarded, "rows", self.store)
        if self.is_time_to_publish():
            jobs["publishing"] = partial(self._guarded, "publishing", self.publish)
        return jobs

    # One step of each job

    def settle(self) -> None:
        """Count the lines that have come, if the daemon's log was read to its end after them."""
        log, number = self._daemon_log, self._known.staged()
        if log is not None and log.is_read_to_its_end():
            self._known.settle(number, self._stream.service_ms())

    def store(self, *, at_once: bool = False) -> None:
        """Store the news. Raises as the store does."""
        service_ms = self._stream.service_ms() or self._clock.now_ms()
        # At a stop the other thread's request may hang.
        if self._storing.acquire(timeout=_STORING_SECONDS):
            try:
                self._writer.store(service_ms, at_once=at_once)
            finally:
                self._storing.release()

    def due_shards(self) -> list[ReadShard]:
        """Return the shards at which to look now."""
        service_ms, now = self._service_ms(), self._clock.monotonic()
        shards = self._known.to_read()
        self._looker.forget({shard.shard_id for shard in shards})
        return [
            shard
            for shard in shards
            if is_due(shard, service_ms, self._every_ms)
            and shard.shard_id not in self._in_flight
            and now >= self._not_before.get(shard.shard_id, now)
        ]

    def look(self, shard: ReadShard) -> Look:
        """Look at a shard, and take what it says. Raises as the stream does."""
        state = None if self._newest is None else self._newest.shards.get(shard.shard_id)
        self._not_before[shard.shard_id] = self._clock.monotonic() + AGAIN_SECONDS
        look = self._looker.look(shard, state)
        if look.goes_on:
            del self._not_before[shard.shard_id]
        if look.row is not None and look.base is not None:
            self._known.looked(shard.shard_id, look.base, look.row)
        return look

    def is_time_to_publish(self) -> bool:
        """Return whether a boundary may be reached that nobody has published, or one is to be withdrawn."""
        now, service_ms, leads = self._clock.monotonic(), self._service_ms(), self._leads()
        wait = _LEADER_SECONDS if leads else _OTHERS_SECONDS
        if self._tried_at is not None and now - self._tried_at < wait:
            return False
        if self._newest is None or self._skipped_runs > self._judged_runs:
            return True
        after_ms = _LEADER_MS if leads else _OTHERS_MS
        return service_ms - after_ms >= next_boundary(self._newest.boundary_ms, self._every_ms)

    def publish(self) -> None:
        """Publish what is reached. Raises as the publisher does."""
        self._tried_at = self._clock.monotonic()
        service_ms, runs = self._service_ms(), self._skipped_runs
        attempt = self._publisher.attempt(service_ms, withdraws=runs > self._judged_runs)
        self._judged_runs = runs
        self._newest = attempt.newest
        if attempt.newest is not None:
            self._on_complete(attempt.newest.boundary_ms)
        if attempt.withdrawn:
            self._log.error(
                "boundary_withdrawn",
                gaps=attempt.withdrawn,
                next_step="what was said to be complete has a gap: minutebook wait names it, and minutebook audit "
                "--level stream says what is missing",
            )
        self._tell_holds(attempt.newest, attempt.holds, service_ms)

    # The rest

    def _tell_holds(self, newest: CompleteMarker | None, holds: tuple[Hold, ...], service_ms: int) -> None:
        """Log what holds a boundary for long; once for the same shards."""
        self._began_ms = service_ms if self._began_ms is None else self._began_ms
        last_ms = self._began_ms if newest is None else newest.boundary_ms
        is_late = service_ms - last_ms > _LATE_MS + self._every_ms
        held = frozenset(hold.shard for hold in holds) if is_late else frozenset[str | None]()
        if held and held != self._held:
            first = min(holds, key=lambda hold: hold.reached_ms)
            self._log.warning(
                "boundary_held",
                complete_until=None if newest is None else newest.boundary,
                shards=len(holds),
                shard=first.shard,
                reached=iso_time(first.reached_ms) if first.reached_ms else None,
                why=first.why,
                next_step="see whether the shard's worker lives, and is of this version: minutebook status",
            )
        self._held = held

    def _service_ms(self) -> int:
        service_ms = self._stream.service_ms()
        if service_ms is None:
            self._stream.describe()  # its answer has the service's time
            service_ms = self._stream.service_ms()
        return self._clock.now_ms() if service_ms is None else service_ms

    def _look_on(self) -> bool:
        """Look at one shard after the other that is due, for a turn; return whether more are."""
        until = self._clock.monotonic() + _TURN_SECONDS
        while self._clock.monotonic() < until:
            with self._handing_out:
                if not self._due:
                    return False
                shard = self._due.popleft()
                self._in_flight.add(shard.shard_id)
            self._guarded("looks", partial(self.look, shard))
            self._in_flight.discard(shard.shard_id)
        return True

    def _guarded(self, what: str, act: Callable[[], object]) -> None:
        """Do something that must not end the thread; log its failure."""
        try:
            act()
        except MinutebookError as exc:
            if self._is_news(what):
                self._log.warning("boundaries_failed", what=what, error=str(exc), next_step=exc.next_step or _TRIED)
        except Exception as exc:  # noqa: BLE001 - a defect here must not end the archiving; it is logged whole
            if self._is_news(what):
                step = "this is a defect of Minutebook: report the stack; archiving goes on"
                self._log.exception("boundaries_failed", what=what, error=str(exc), next_step=step)

    def _is_news(self, what: str) -> bool:
        """Return whether a failure is to be logged: one of its kind in a while, whichever shard it is of."""
        now = self._clock.monotonic()
        is_news = now - self._failed_at.get(what, -_TOLD_SECONDS) >= _TOLD_SECONDS
        if is_news:
            self._failed_at[what] = now
        return is_news


def make_boundaries(
    settings: Settings,
    record: ApplicationRecord,
    stream: StreamPort,
    store: RetryingStore,
    row_store: RetryingStore,
    clock: Clock,
    *,
    worker: str,
    runs: DaemonRuns,
    leads: Callable[[], bool],
    on_complete: Callable[[int], None],
) -> Boundaries | None:
    """Return the boundaries of one supervisor; None if the settings ask for none.

    `runs` names the runs of the daemon, as the markers of skipped batches do. A stop waits for `row_store`.
    """
    if not settings.complete_slot_seconds:
        return None
    known, every_ms = KnownShards(), settings.complete_slot_seconds * 1000
    return Boundaries(
        known,
        Looker(stream, clock),
        RowWriter(row_store, settings.prefix, known, clock, worker=worker, runs=runs, every_ms=every_ms),
        Publisher(store, settings.prefix, every_ms=every_ms, begin_ms=record.begin_ms, writer=runs.supervisor),
        stream,
        clock,
        every_ms=every_ms,
        leads=leads,
        runs=runs,
        on_complete=on_complete,
    )
