"""One stream of a fleet, in a thread of its own: open it, begin it, watch it, end it, begin it anew.

open ............ checks, start, lock: as for one stream; an error is this stream's alone
begin ........... the steps before a start, then the JVM gets a Scheduler for it
a failure ....... its Scheduler is ended, and begun anew by the restart policy of one stream
it gave up ...... the others run; it is tried again every ten minutes, as a scheduler of tasks would do, and sooner
                  where a service did not answer
a stop .......... as soon as its processors have ended in order, its leases are handed over
"""

import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from consumer.boundaries.pool import JobPool
from consumer.child_logs.kcl_log import KclEvent
from consumer.child_logs.processor_log import OPENED, POLL_SECONDS, ProcessorEvent
from consumer.daemon.consume import restart_limits
from consumer.daemon.opened import Fleetwide, OpenedStream, TakenWorker, open_stream, take_worker
from consumer.daemon.restart_policy import DaemonExit, Restart
from consumer.daemon.stream_run import StreamRun
from consumer.daemon.supervisor import LEAVING_POLL_SECONDS
from consumer.fleet.bounds import OpenShards, check_stream
from consumer.fleet.host import FleetHost, StreamSession
from consumer.leases.hand_over import HandedCounts
from consumer.liveness.poll import INITIALISED
from consumer.monitoring.outputs import health_written, make_watch
from consumer.settings.settings import LoadedSettings
from consumer.stream.kinesis import KinesisStream
from minutebook.clock import Clock
from minutebook.errors import MinutebookError, StoreUnavailable

AGAIN_SECONDS: Final = 600.0
_SOON_SECONDS: Final = 30.0
"""Where nobody has to correct anything; twice as long each time in a row, up to `AGAIN_SECONDS`."""
_INTERRUPT_SECONDS: Final = 10.0
_END_SECONDS: Final = 90.0
"""More than KCL takes for the requests that it has begun; then the JVM is killed."""
_LAST_LINES_SECONDS: Final = 2.0
_AFTER_CHECKS: Final = "correct what they name; the stream is tried again by itself, and the others go on"
_BUG: Final = "this is a defect of Minutebook: report the stack; the other streams go on"


@dataclass(slots=True)
class _Ending:
    """Since when a Scheduler is to end, and how often the JVM was told."""

    since: float
    told: int = 0


class Shared(NamedTuple):
    """What the streams of a fleet share. `opening` bounds how many are checked at once."""

    host: FleetHost
    shards: OpenShards
    handed: HandedCounts
    pool: JobPool
    opening: threading.Semaphore


class FleetStream:
    """`name` is the stem of its file. `code`: the exit code if the fleet ended now."""

    def __init__(
        self,
        name: str,
        loaded: LoadedSettings,
        environ: Mapping[str, str],
        state_folder: Path | None,
        shared: Shared,
        clock: Clock,
        *,
        again_seconds: float = AGAIN_SECONDS,
    ) -> None:
        self.name = name
        self.loaded = loaded
        self.watch = make_watch(loaded.settings, clock)
        self.opened: OpenedStream | None = None
        self.worker: TakenWorker | None = None
        """Taken before the checks, so that the JVM inherits its lock although they fail, and are repeated later."""
        self.code = 0
        self.has_given_up = False
        self.is_opened_or_refused = threading.Event()
        """It will not change what the fleet must know before its first start."""
        self._environ = environ
        self._state_folder = state_folder
        self._shared = shared
        self._host = shared.host
        self._shards = shared.shards
        self._clock = clock
        self._again_seconds = again_seconds
        self._may_begin = threading.Event()
        self._is_counted = False
        self._times_away = 0
        self._run: StreamRun | None = None
        self._session: StreamSession | None = None
        self._log = structlog.get_logger()
        self._thread = threading.Thread(target=self._live, name=f"stream-{name}", daemon=True)

    # From the main thread

    def start(self) -> None:
        """Open the stream; it does not begin before `begin`."""
        self._thread.start()

    def begin(self) -> None:
        """Let it begin: the other streams are opened, too."""
        self._may_begin.set()

    def join(self, seconds: float) -> bool:
        """Wait for its end; return whether it has ended."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    # Lines, from the threads that read them

    def note(self, event: ProcessorEvent) -> None:
        """Take a line of one of its processors."""
        if event.event == OPENED:
            self._host.note_started(self.name)
        if self._run is not None:
            with self._named():
                self._run.note(event)

    def read_output(self, line: bytes) -> None:
        """Take a line of KCL that is of this stream."""
        if INITIALISED in line:
            self._host.note_started(self.name)
        if self._run is not None:
            with self._named():
                self._run.read_output(line)

    def note_skipped(self, event: KclEvent) -> None:
        """Take that the daemon of all streams has run out of memory."""
        if self._run is not None:
            with self._named():
                self._run.note_skipped(event)

    def _named(self) -> AbstractContextManager[None]:
        return structlog.contextvars.bound_contextvars(properties=self.name)

    # Its own thread

    def _live(self) -> None:
        structlog.contextvars.bind_contextvars(properties=self.name)
        while not self._host.is_stopping():
            try:
                self.code = self._open_and_supervise()
            except MinutebookError as exc:
                self.code = exc.exit_code
                self._log.error("stream_not_opened", error=str(exc), next_step=exc.next_step, exit_code=exc.exit_code)
            except Exception:  # noqa: BLE001 - logged; the other streams go on
                self.code = 1
                self._log.exception("stream_failed", next_step=_BUG, exit_code=1)
            if self._host.is_stopping():
                return
            self.has_given_up = True
            self.is_opened_or_refused.set()
            self._host.pause(self.seconds_to_next_try())
            self.has_given_up = self._host.is_stopping()

    def seconds_to_next_try(self) -> float:
        """Return how long to wait after it gave up with `code`; each call counts as one more time in a row."""
        if self.code != StoreUnavailable.exit_code:
            self._times_away = 0
            return self._again_seconds
        self._times_away += 1
        return min(self._again_seconds, _SOON_SECONDS * 2.0 ** (self._times_away - 1))

    def _open_and_supervise(self) -> int:
        """Archive the stream until a stop or too many failures; return the exit code. Raises MinutebookError."""
        if self.opened is None:
            check_stream(self.loaded)
            if self.worker is None:
                self.worker = take_worker(self.loaded, self._environ, self._state_folder, self._clock)
            fleetwide = Fleetwide(
                bound=self._shards.bound,
                handed=self._shared.handed,
                before_start=self.count_again,
                worker=self.worker,
            )
            with self._shared.opening:
                if self._host.is_stopping():
                    return 0
                opened = open_stream(
                    self.loaded, self._environ, self._state_folder, self.watch, self._clock, fleetwide
                )
            if isinstance(opened, int):
                error = "its checks have failed: see the lines before this one"
                self._log.error("stream_not_opened", error=error, next_step=_AFTER_CHECKS, exit_code=opened)
                return opened
            self.count_opened(opened.stream)
            self._times_away = 0
            self.opened = opened
        self.is_opened_or_refused.set()
        self._may_begin.wait()
        with ExitStack() as stack:
            stack.enter_context(health_written(self.watch, self.opened.health, self._clock))
            stack.enter_context(self._shared.pool.serving(self.opened.boundaries))
            return self._supervise(self.opened)

    def count_opened(self, stream: KinesisStream) -> None:
        """Count its shards when it is opened."""
        self._shards.count(self.name, stream)
        self._is_counted = True

    def count_again(self, stream: KinesisStream) -> None:
        """Count its shards before a start, but for the first one: they were counted when it was opened."""
        if not self._is_counted:
            self._shards.count(self.name, stream)
        self._is_counted = False

    def _supervise(self, opened: OpenedStream) -> int:
        run = self._run = StreamRun(
            opened.plan, self._clock, restart_limits(opened.loaded.settings), self.watch, self._kill
        )
        while True:
            ended = self._run_once(run, opened)
            if ended is None:
                return 0
            decision = run.decide(ended)
            if isinstance(decision, Restart):
                self._host.pause(decision.wait_seconds)
                if not self._host.is_stopping():
                    continue
                if ended.failure is None:
                    run.hand_over()
                return 0
            if decision.exit_code == 0 and ended.failure is None:
                run.hand_over()
            if decision.exit_code:
                run.gave_up(decision)
            return decision.exit_code

    def _run_once(self, run: StreamRun, opened: OpenedStream) -> DaemonExit | None:
        """Run its Scheduler once; None if the fleet is asked to stop before it begins."""
        failure = run.prepare()
        if failure is not None:
            return DaemonExit(code=1, ran_seconds=0, stop_requested=self._host.is_stopping(), failure=failure)
        session = self._host.begin(self.name, opened.effective)
        if session is None:
            run.hand_over()
            return None
        self._session = session
        self._log.info("stream_started")
        with run.reading(session.daemon):
            try:
                code = self._wait_for_end(run, session)
            finally:
                self._leave_none_behind(run, session)
        if session.reason is not None:
            run.notes.note_kill_of_run(session.reason, unasked=True)
        return run.ended(code, stop_requested=self._host.is_stopping())

    def _wait_for_end(self, run: StreamRun, session: StreamSession) -> int:
        """Return the code when the Scheduler has ended, or the JVM with it."""
        is_asked = False
        ending: _Ending | None = None
        while session.code is None:
            if self._host.is_stopping() and not is_asked:
                is_asked = True
                run.stop_asked()
            if is_asked:
                if run.waits_for_the_dead():
                    ending = ending or _Ending(self._clock.monotonic())
                elif run.processors.all_ended_in_order():
                    run.hand_over()
            elif ending is None and (reason := run.kill_reason()) is not None:
                self._log.error(reason.event, shard=reason.shard, error=reason.error, next_step=reason.next_step)
                run.notes.note_kill_of_run(reason, unasked=True)
                run.processors.kill()
                ending = _Ending(self._clock.monotonic())
            if ending is not None:
                self._end(session, ending)
            self._host.wait(session, LEAVING_POLL_SECONDS if is_asked else POLL_SECONDS)
        self._read_last_lines(session)
        return session.code

    def _leave_none_behind(self, run: StreamRun, session: StreamSession) -> None:
        """After an error of ours, end a Scheduler that nobody watches: the JVM takes no second one of the stream."""
        ending = _Ending(self._clock.monotonic())
        while session.code is None:
            run.processors.kill()
            self._end(session, ending)
            self._host.wait(session, POLL_SECONDS)

    def _end(self, session: StreamSession, ending: "_Ending") -> None:
        """End the Scheduler; once more after some time, and then the JVM with it."""
        waited = self._clock.monotonic() - ending.since
        if ending.told == 0 or (ending.told == 1 and waited >= _INTERRUPT_SECONDS):
            ending.told += 1
            self._host.end(self.name, session)
        if waited >= _END_SECONDS:
            self._host.doom(
                ProcessorEvent(
                    event="scheduler_hangs",
                    error=f"KCL's scheduler of {self.name} has not ended for {waited:.0f} s: the daemon of all "
                    "streams is killed",
                    next_step="nothing: all streams begin anew, and nothing is lost; report it if it happens again",
                )
            )

    def _read_last_lines(self, session: StreamSession) -> None:
        """Wait until the processors' lines that were written before the end are read: they say why it ended."""
        until = self._clock.monotonic() + _LAST_LINES_SECONDS
        while not session.daemon.has_told_its_errors() and self._clock.monotonic() < until:
            self._clock.sleep(0.02)

    def _kill(self) -> None:
        """End the run at once, from any thread: KCL has skipped a batch, and delivers the next one."""
        run, session = self._run, self._session
        if run is not None and session is not None:
            run.processors.kill()
            self._host.end(self.name, session)
