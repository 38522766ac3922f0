"""The processes of a fleet: one JVM, one fork server, and the pipe by which streams are started and ended in the JVM.

The main thread starts and reaps both (`serve`); the streams' threads ask for a Scheduler (`begin`) and end it
(`end`). What the JVM answers, and when it dies, is in the `StreamSession` that `begin` returns.

    {"act": "start", "stream": NAME, "file": PROPERTIES}  ...> JVM
    {"act": "end", "stream": NAME}                        ...> JVM: without asking the processors
    JVM ...> {"event": "fleet_ready", "heap_bytes": N}
    JVM ...> {"event": "stream_ended", "stream": NAME, "error": TEXT}

At most `_STARTING` Schedulers are on their way to their worker loop at once: on a busy machine the requests of forty
would time out while they wait for each other, and each would begin anew.

The JVM dies of want of memory, with the fork server, or because a Scheduler does not end; then all streams begin
anew in the next one.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import structlog

from consumer.child_logs.processor_log import ProcessorEvent
from consumer.daemon.fork_server import FORK_SERVER_ENDED, ForkPlan, start_fork_server
from consumer.daemon.process import Child, ChildOutput, DaemonRun
from consumer.daemon.supervisor import log_started
from minutebook.clock import Clock

_STARTING: Final = 12
_START_SECONDS: Final = 15.0
"""KCL's line that a Scheduler works is missing if the user raised its log level; then it counts as started by now."""
_FLEET_EVENT: Final = b'{"event":"'


class HostPlan(NamedTuple):
    """What to run; `forks` None: the JVM starts each processor itself. `keep_open`: the locks of the worker ids."""

    command: Sequence[str]
    environment: Mapping[str, str]
    forks: ForkPlan | None
    keep_open: Sequence[int]


class _Answer(msgspec.Struct):
    event: str
    stream: str = ""
    error: str = ""
    heap_bytes: int = 0


class StreamSession:
    """One stream's Scheduler in one life of the JVM."""

    def __init__(self, daemon: Child) -> None:
        self.daemon = daemon
        self.code: int | None = None
        """Set when it has ended: the JVM's exit code, or 0 or 1 if the JVM lives on."""
        self.reason: ProcessorEvent | None = None
        """Why the JVM was killed."""
        self.error = ""
        """What KCL's Scheduler threw, if it did."""


class FleetHost:
    """Thread-safe, but `serve` and `kill` of the main thread."""

    def __init__(
        self,
        make_plan: Callable[[], HostPlan],
        output: ChildOutput,
        on_heap: Callable[[int], None],
        clock: Clock,
        *,
        starting: int = _STARTING,
    ) -> None:
        self._make_plan = make_plan
        self._output = output
        self._on_heap = on_heap
        self._clock = clock
        self._most_starting = starting
        self._starting: dict[str, float] = {}
        """Since when each stream is on its way to its worker loop."""
        self._changed = threading.Condition()
        self._run: DaemonRun | None = None
        self._is_ready = False
        self._is_stopping = False
        self._waiting: set[str] = set()
        self._sessions: dict[str, StreamSession] = {}
        self._doom: ProcessorEvent | None = None

    # From the streams' threads

    def begin(self, name: str, file: Path) -> StreamSession | None:
        """Start the stream's Scheduler, as soon as a JVM takes it; None: the fleet is asked to stop."""
        with self._changed:
            self._waiting.add(name)
            self._changed.wait_for(lambda: self._is_stopping or self._may_start())
            self._waiting.discard(name)
            if self._is_stopping or self._run is None:
                return None
            self._starting[name] = self._clock.monotonic()
            session = self._sessions[name] = StreamSession(self._run.daemon)
        self._tell(session.daemon, act="start", stream=name, file=str(file))
        return session

    def _may_start(self) -> bool:
        return self._is_ready and len(self._starting) < self._most_starting

    def note_started(self, name: str) -> None:
        """Note that the stream's Scheduler works; another one may start."""
        with self._changed:
            if self._starting.pop(name, None) is not None:
                self._changed.notify_all()

    def end(self, name: str, session: StreamSession) -> None:
        """End the stream's Scheduler at once; called again, it may not wait for anything any more."""
        self._tell(session.daemon, act="end", stream=name)

    def wait(self, session: StreamSession, seconds: float) -> None:
        """Return when the session has ended, the fleet is asked to stop, or `seconds` have passed."""
        with self._changed:
            stopping = self._is_stopping
            self._changed.wait_for(lambda: session.code is not None or self._is_stopping != stopping, seconds)

    def pause(self, seconds: float) -> None:
        """Wait, or until the fleet is asked to stop."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopping, seconds)

    def doom(self, reason: ProcessorEvent) -> None:
        """Let the main thread kill the JVM: a Scheduler in it does not end."""
        with self._changed:
            self._doom = self._doom or reason

    def is_stopping(self) -> bool:
        """Return whether the fleet is asked to stop."""
        return self._is_stopping

    # From the main thread

    @property
    def waiting(self) -> frozenset[str]:
        """The streams that wait for a JVM."""
        with self._changed:
            return frozenset(self._waiting)

    @property
    def run(self) -> DaemonRun | None:
        """The processes; None while there are none."""
        return self._run

    def start(self) -> None:
        """Start the fork server, then the JVM. Raises SettingsError."""
        plan = self._make_plan()
        fork_server = None if plan.forks is None else start_fork_server(plan.forks, self._output)
        daemon = Child(plan.command, plan.environment, self._output, plan.keep_open, takes_commands=True)
        with self._changed:
            self._run = DaemonRun(daemon, fork_server)
        log_started(self._run)

    def stop(self) -> None:
        """Let no stream begin any more, and ask the JVM to stop: it asks the processors of all streams to commit."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        if self._run is not None:
            self._run.daemon.ask_to_stop()

    def look(self) -> None:
        """Reap the processes if the JVM has ended or must; tell the streams. Let no start hold up others for long."""
        now = self._clock.monotonic()
        for name in [name for name, since in [*self._starting.items()] if now - since >= _START_SECONDS]:
            self.note_started(name)
        run = self._run
        if run is None:
            return
        reason = self._doom
        if reason is None and run.has_lost_its_processors(is_stopping=self._is_stopping):
            reason = FORK_SERVER_ENDED
        if reason is not None:
            structlog.get_logger().error(reason.event, error=reason.error, next_step=reason.next_step)
        if reason is not None or run.daemon.has_ended():
            self.reap(reason)

    def reap(self, reason: ProcessorEvent | None = None) -> None:
        """Kill what is left, and tell the streams why."""
        run = self._run
        if run is None:
            return
        if reason is not None:
            run.kill()
        code = run.reap()
        structlog.get_logger().info("fleet_ended", code=code)
        with self._changed:
            self._run, self._is_ready, self._doom = None, False, None
            for session in self._sessions.values():
                self._finish(session, code, reason)
            self._sessions.clear()
            self._starting.clear()
            self._changed.notify_all()

    # From the thread that reads the JVM's stdout

    def read_answer(self, line: bytes) -> bool:
        """Take a line that is an answer of the JVM; return whether it is one."""
        if not line.startswith(_FLEET_EVENT):
            return False
        try:
            answer = msgspec.json.decode(line, type=_Answer)
        except msgspec.MsgspecError:
            return False
        if answer.event == "fleet_ready":
            self._on_heap(answer.heap_bytes)
        with self._changed:
            if answer.event == "fleet_ready":
                self._is_ready = True
            elif answer.event == "stream_ended" and (session := self._sessions.pop(answer.stream, None)) is not None:
                session.error = answer.error
                self._starting.pop(answer.stream, None)
                self._finish(session, 1 if answer.error else 0, None)
            self._changed.notify_all()
        return True

    def _finish(self, session: StreamSession, code: int, reason: ProcessorEvent | None) -> None:
        session.reason, session.code = reason, code

    def _tell(self, daemon: Child, **command: str) -> None:
        daemon.tell(msgspec.json.encode(command) + b"\n")
