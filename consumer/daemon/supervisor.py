"""The supervisor: keeps one daemon running, forwards the request to stop, and ends with a code that says why."""

import os
import select
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import BinaryIO, Final

import structlog

from consumer.child_logs.processor_log import POLL_SECONDS, ProcessorEvent, read_event
from consumer.daemon.fork_server import FORK_SERVER_ENDED, ForkPlan, start_fork_server
from consumer.daemon.process import Child, ChildOutput, DaemonRun
from consumer.daemon.restart_policy import DaemonExit, EndSupervisor, Restart, RestartLimits
from consumer.daemon.stream_run import StreamPlan, StreamRun, attempt
from consumer.monitoring import log_lines
from consumer.monitoring.watch import Watch
from minutebook.clock import Clock


@dataclass(frozen=True, kw_only=True, slots=True)
class DaemonPlan:
    """What to run, for one stream.

    stream: the steps around each run, and who looks at it.
    grace_seconds: time between SIGTERM and SIGKILL.
    keep_open: descriptors that the daemon inherits, such as the lock of its worker id.
    log_level: the lowest level of the daemon's and the processors' lines that are passed on.
    forks: the fork server to start; None: the daemon starts each processor itself.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    stream: StreamPlan
    grace_seconds: float = 40
    keep_open: Sequence[int] = ()
    log_level: str = "info"
    forks: ForkPlan | None = None


LEAVING_POLL_SECONDS: Final = 0.2
"""KCL takes some more seconds to end after its processors."""
_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class StopSignals:
    """The stop signals that arrived since `listen`, oldest first."""

    def __init__(self, wake: int) -> None:
        self.received: list[signal.Signals] = []
        self._wake = wake

    def note(self, number: int, _frame: FrameType | None) -> None:
        """Take a signal; the handler."""
        self.received.append(signal.Signals(number))

    def wait(self, descriptors: Sequence[int], seconds: float | None) -> None:
        """Return when a descriptor is readable, a signal has arrived, or `seconds` have passed."""
        ready, _, _ = select.select([*descriptors, self._wake], [], [], seconds)
        if self._wake in ready:
            os.read(self._wake, 4096)


@contextmanager
def listen() -> Iterator[StopSignals]:
    """Handle the stop signals in this block, except those that are ignored (nohup). Main thread only."""
    read_end, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signals = StopSignals(read_end)
    numbers = [number for number in _STOP_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, signals.note) for number in numbers}
    wakeup_before = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    try:
        yield signals
    finally:
        signal.set_wakeup_fd(wakeup_before)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(read_end)
        os.close(write_end)


class Supervisor:
    """Runs the plan until it is asked to stop or gives up. Main thread only: it owns the signals."""

    def __init__(
        self,
        plan: DaemonPlan,
        clock: Clock,
        *,
        limits: RestartLimits,
        watch: Watch | None = None,
        stdout: BinaryIO | None = None,
        stderr: BinaryIO | None = None,
    ) -> None:
        self._plan = plan
        self._clock = clock
        self._stream = StreamRun(plan.stream, clock, limits, Watch(clock) if watch is None else watch, self._kill)
        self._run: DaemonRun | None = None
        self._output = ChildOutput(
            sys.stdout.buffer if stdout is None else stdout,
            sys.stderr.buffer if stderr is None else stderr,
            self._read_output,
            self._read_line,
        )
        self._log = structlog.get_logger()

    def run(self) -> int:
        """Run; return the exit code of `consume`."""
        with listen() as signals:
            while True:
                ended = self._run_once(signals)
                decision = self._stream.decide(ended)
                if isinstance(decision, Restart):
                    self._wait(signals, decision.wait_seconds)
                    if not signals.received:
                        continue
                    decision = EndSupervisor(0, "asked to stop while no daemon ran")
                if decision.exit_code == 0 and ended.failure is None:
                    self._stream.hand_over()
                return self._end(decision)

    def _run_once(self, signals: StopSignals) -> DaemonExit:
        failure = self._stream.prepare() or attempt([self._start])
        if failure is not None or self._run is None:
            return DaemonExit(code=1, ran_seconds=0, stop_requested=bool(signals.received), failure=failure)
        run = self._run
        log_started(run)
        with self._stream.reading(run.daemon):
            try:
                self._wait_for_end(run, signals)
            finally:
                code = run.reap()
        return self._stream.ended(code, stop_requested=bool(signals.received))

    def _start(self) -> None:
        """Start the fork server, if the plan has one, then the daemon."""
        plan = self._plan
        fork_server = None if plan.forks is None else start_fork_server(plan.forks, self._output)
        self._run = DaemonRun(Child(plan.command, plan.environment, self._output, plan.keep_open), fork_server)

    def _kill(self) -> None:
        if self._run is not None:
            self._run.kill()

    def _wait_for_end(self, run: DaemonRun, signals: StopSignals) -> None:
        """Return when the daemon has ended or is killed. A signal asks it to stop; a second Ctrl-C kills it."""
        stream = self._stream
        asked_at: float | None = None
        while not run.daemon.has_ended():
            wait_seconds = POLL_SECONDS
            reason = stream.kill_reason() if asked_at is None else None
            if run.has_lost_its_processors(is_stopping=bool(signals.received)):
                reason = FORK_SERVER_ENDED
            if reason is not None:
                self._log.error(reason.event, error=reason.error, next_step=reason.next_step)
                stream.notes.note_kill_of_run(reason, unasked=asked_at is None)
                run.kill()
                return
            if signals.received and asked_at is None:
                self._log.info("stopping", signal=signals.received[0].name, grace_seconds=self._plan.grace_seconds)
                stream.stop_asked()
                run.daemon.ask_to_stop()  # it asks its processors to commit, then ends with 143
                asked_at = self._clock.monotonic()
            if asked_at is not None:
                wait_seconds = asked_at + self._plan.grace_seconds - self._clock.monotonic()
                if wait_seconds <= 0 or signals.received[1:].count(signal.SIGINT):
                    stream.notes.note_kill_of_run(
                        log_late(round(self._clock.monotonic() - asked_at, 1)), unasked=False
                    )
                    run.kill()
                    return
                wait_seconds = min(wait_seconds, LEAVING_POLL_SECONDS)
                if stream.waits_for_the_dead():
                    run.kill()  # KCL would wait for them until its grace is over
                    return
                if stream.processors.all_ended_in_order():
                    stream.hand_over()
            signals.wait(run.exit_descriptors, wait_seconds)

    def _wait(self, signals: StopSignals, seconds: float) -> None:
        until = self._clock.monotonic() + seconds
        while not signals.received and (remaining := until - self._clock.monotonic()) > 0:
            signals.wait([], remaining)

    def _read_line(self, line: bytes) -> bytes:
        """Take a line of the daemon's stderr; return it for our log, or nothing if it is below the log's level."""
        event = read_event(line)
        if event is not None:
            self._stream.note(event)
        return log_lines.of_processor(line, self._plan.log_level, self._clock.now_ms())

    def _read_output(self, line: bytes) -> bytes:
        """Take a line of the daemon's own log; return it for our log, or nothing if it is below the log's level."""
        self._stream.read_output(line)
        return log_lines.of_daemon(line, self._plan.log_level, self._clock.now_ms())

    def _end(self, stop: EndSupervisor) -> int:
        if stop.exit_code == 0:
            self._log.info("supervisor_stopped", reason=stop.reason)
        else:
            self._stream.gave_up(stop)
        return stop.exit_code


def log_started(run: DaemonRun) -> None:
    """Log the processes of a run."""
    structlog.get_logger().info(
        "daemon_started",
        daemon_pid=run.daemon.pid,
        fork_server_pid=None if run.fork_server is None else run.fork_server.pid,
        supervisor_pid=os.getpid(),
    )


def log_late(waited_seconds: float) -> ProcessorEvent:
    """Log that a daemon that has not stopped in time is killed; return that as the reason."""
    structlog.get_logger().error(
        "daemon_killed",
        waited_seconds=waited_seconds,
        next_step="nothing is lost; if it happens again, raise shutdownGraceMillis and the container's stop time-out",
    )
    return ProcessorEvent(
        event="daemon_killed", error=f"the daemon had not stopped after {waited_seconds} s and was killed"
    )
