"""The supervisor: keeps one daemon running, forwards the request to stop, and ends with a code that says why."""

import os
import select
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import BinaryIO, Final

import structlog

from consumer.child_logs.kcl_log import NEXT_STEPS, KclError, KclEvent, Skipped, read_kcl_error, read_kcl_line
from consumer.child_logs.processor_log import FAILED, POLL_SECONDS, ProcessorEvent, ProcessorWatch, read_event
from consumer.daemon.fork_server import FORK_SERVER_ENDED, ForkPlan, start_fork_server
from consumer.daemon.process import Child, ChildOutput, DaemonRun
from consumer.daemon.restart_policy import DaemonExit, EndSupervisor, Restart, RestartLimits, RestartPolicy
from consumer.daemon.run_notes import DENIED, GRANT, RunNotes
from consumer.leases.hand_over import Leaving
from consumer.liveness.poll import ReaderPoll
from consumer.monitoring import log_lines
from consumer.monitoring.watch import Watch
from minutebook.clock import Clock
from minutebook.errors import MinutebookError


@dataclass(frozen=True, kw_only=True, slots=True)
class DaemonPlan:
    """What to run.

    grace_seconds: time between SIGTERM and SIGKILL.
    keep_open: descriptors that the daemon inherits, such as the lock of its worker id.
    before_start: called before every start, while no daemon of this plan lives; an error counts as a failed start.
    after_end: called after every run, when the daemon's log has been read; an error counts as the run's failure.
    on_skipped: called from another thread when KCL logs that it skipped a batch; for each open shard if the line
        names none.
    on_out_of_memory: called from another thread when the daemon logs that its heap is full.
    readers: finds shards without a reader while the daemon runs.
    log_level: the lowest level of the daemon's and the processors' lines that are passed on.
    leaving: hands the leases over at a stop, unless a processor failed.
    forks: the fork server to start; None: the daemon starts each processor itself.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    grace_seconds: float = 40
    keep_open: Sequence[int] = ()
    before_start: Sequence[Callable[[], None]] = ()
    after_end: Sequence[Callable[[], None]] = ()
    on_skipped: Callable[[KclEvent], None] | None = None
    on_out_of_memory: Callable[[], None] | None = None
    readers: ReaderPoll | None = None
    log_level: str = "info"
    leaving: Leaving | None = None
    forks: ForkPlan | None = None


_DENIED_SECONDS: Final = 60
"""If no shard is open by then, KCL needs the denied permission; else it can do without."""
_LEAVING_POLL_SECONDS: Final = 0.2
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
        self._policy = RestartPolicy(limits)
        self._monitoring = Watch(clock) if watch is None else watch
        self._run: DaemonRun | None = None
        self._output = ChildOutput(
            sys.stdout.buffer if stdout is None else stdout,
            sys.stderr.buffer if stderr is None else stderr,
            self._read_output,
            self._read_line,
        )
        self._notes = RunNotes(clock.monotonic)
        self._processors = ProcessorWatch(self._clock.monotonic)
        self._log = structlog.get_logger()

    def run(self) -> int:
        """Run; return the exit code of `consume`."""
        with listen() as signals:
            while True:
                ended = self._run_once(signals)
                decision = self._policy.after(ended)
                if isinstance(decision, Restart):
                    self._log.warning(
                        "daemon_restarting",
                        error=decision.reason,
                        wait_seconds=decision.wait_seconds,
                        crashes_in_a_row=decision.crashes_in_a_row,
                        next_step=decision.next_step,
                    )
                    self._monitoring.restarted()
                    self._wait(signals, decision.wait_seconds)
                    if not signals.received:
                        continue
                    decision = EndSupervisor(0, "asked to stop while no daemon ran")
                if decision.exit_code == 0 and ended.failure is None and self._plan.leaving is not None:
                    self._plan.leaving.finish()
                return self._end(decision)

    def _run_once(self, signals: StopSignals) -> DaemonExit:
        self._notes = RunNotes(self._clock.monotonic)
        self._processors = ProcessorWatch(self._clock.monotonic)
        failure = _try([*self._plan.before_start, self._start])
        if failure is not None or self._run is None:
            return DaemonExit(code=1, ran_seconds=0, stop_requested=bool(signals.received), failure=failure)
        begun, run = self._clock.monotonic(), self._run
        self._log.info(
            "daemon_started",
            daemon_pid=run.daemon.pid,
            fork_server_pid=None if run.fork_server is None else run.fork_server.pid,
            supervisor_pid=os.getpid(),
        )
        self._monitoring.daemon_started(polls_leases=self._plan.readers is not None)
        if self._plan.readers is not None:
            self._plan.readers.start(self._processors.opened, self._processors.silences)
        try:
            self._wait_for_end(run, signals)
        finally:
            if self._plan.readers is not None:
                self._plan.readers.stop()
            code = run.reap()
            self._monitoring.daemon_ended()
            self._report_killed(has_ended=True)
            self._processors.close()
        ended = DaemonExit(
            code=code,
            ran_seconds=self._clock.monotonic() - begun,
            stop_requested=bool(signals.received) and not self._notes.killed_unasked,
            failure=_try(self._plan.after_end) or self._notes.failure,
            evidence=self._notes.evidence(),
            last_error=self._notes.last_error(),
            left_in_order=self._notes.left_in_order,
            killed_stopping=self._notes.killed_stopping,
        )
        self._log.info("daemon_ended", code=code, ran_seconds=round(ended.ran_seconds, 1), asked=ended.stop_requested)
        return ended

    def _start(self) -> None:
        """Start the fork server, if the plan has one, then the daemon."""
        plan = self._plan
        fork_server = None if plan.forks is None else start_fork_server(plan.forks, self._output)
        self._run = DaemonRun(Child(plan.command, plan.environment, self._output, plan.keep_open), fork_server)

    def _wait_for_end(self, run: DaemonRun, signals: StopSignals) -> None:
        """Return when the daemon has ended or is killed. A signal asks it to stop; a second Ctrl-C kills it."""
        asked_at: float | None = None
        while not run.daemon.has_ended():
            wait_seconds = POLL_SECONDS
            reason = self._kill_reason() if asked_at is None else None
            if run.has_lost_its_processors(is_stopping=bool(signals.received)):
                reason = FORK_SERVER_ENDED
            if reason is not None:
                self._log.error(reason.event, error=reason.error, next_step=reason.next_step)
                self._notes.kill_reason = reason
                self._notes.killed_unasked = asked_at is None
                run.kill()
                return
            if signals.received and asked_at is None:
                self._processors.note_stop()
                self._log.info("stopping", signal=signals.received[0].name, grace_seconds=self._plan.grace_seconds)
                if self._plan.leaving is not None:
                    self._plan.leaving.begin()
                run.daemon.ask_to_stop()  # it asks its processors to commit, then ends with 143
                asked_at = self._clock.monotonic()
            if asked_at is not None:
                wait_seconds = asked_at + self._plan.grace_seconds - self._clock.monotonic()
                if wait_seconds <= 0 or signals.received[1:].count(signal.SIGINT):
                    self._kill_late(run, round(self._clock.monotonic() - asked_at, 1))
                    return
                wait_seconds = min(wait_seconds, _LEAVING_POLL_SECONDS)
                self._notes.left_in_order = self._processors.only_dead_remain()
                if self._notes.left_in_order or self._processors.only_failed_remain():
                    run.kill()  # KCL would wait for them until its grace is over
                    return
                if self._plan.leaving is not None and self._processors.all_ended_in_order():
                    self._plan.leaving.finish()
            signals.wait(run.exit_descriptors, wait_seconds)

    def _kill_late(self, run: DaemonRun, waited_seconds: float) -> None:
        self._log.error(
            "daemon_killed",
            waited_seconds=waited_seconds,
            next_step="nothing is lost; if it happens again, raise shutdownGraceMillis and the container's stop "
            "time-out",
        )
        self._notes.kill_reason = ProcessorEvent(
            event="daemon_killed", error=f"the daemon had not stopped after {waited_seconds} s and was killed"
        )
        run.kill()

    def _kill_reason(self) -> ProcessorEvent | None:
        """Return why the daemon must be killed and started again; None while it works."""
        is_deserted = self._processors.is_deserted()
        self._report_killed()
        if is_deserted:
            return ProcessorEvent(
                event="daemon_deserted",
                error="a processor died, the others have left or had the time to, and the daemon only waits",
                next_step="look at the lines before this one: they say which processor died, and why",
            )
        denied_seconds = self._notes.denied_seconds()
        if denied_seconds is not None and denied_seconds > _DENIED_SECONDS and not self._processors.opened():
            return self._notes.evidence()
        return None if self._plan.readers is None else self._plan.readers.kill_reason

    def _report_killed(self, *, has_ended: bool = False) -> None:
        """Log each processor that ended without a last line."""
        for killed in self._processors.take_killed(has_ended=has_ended):
            event = self._notes.note_killed(killed)
            self._log.error(event.event, shard=event.shard, error=event.error, next_step=event.next_step)
            self._monitoring.killed()

    def _wait(self, signals: StopSignals, seconds: float) -> None:
        until = self._clock.monotonic() + seconds
        while not signals.received and (remaining := until - self._clock.monotonic()) > 0:
            signals.wait([], remaining)

    def _read_line(self, line: bytes) -> bytes:
        """Take a line of the daemon's stderr; return it for our log, or nothing if it is below the log's level."""
        event = read_event(line)
        if event is not None:
            self._processors.note(event)
            self._notes.note(event)
            self._monitoring.note(event)
        return log_lines.of_processor(line, self._plan.log_level, self._clock.now_ms())

    def _read_output(self, line: bytes) -> bytes:
        """Take a line of the daemon's own log; return it for our log, or nothing if it is below the log's level."""
        self._act_on(line)
        return log_lines.of_daemon(line, self._plan.log_level, self._clock.now_ms())

    def _act_on(self, line: bytes) -> None:
        """Act on a line of the daemon's own log; kill the daemon before it delivers the batch after a skipped one."""
        if self._plan.readers is not None:
            self._plan.readers.read_output(line)
        event = read_kcl_line(line)
        if event is None:
            kcl_error = read_kcl_error(line)
            if kcl_error is not None:
                self._note_error(kcl_error)
            return
        name = "daemon_out_of_memory" if event.skipped is Skipped.NOTHING else "kcl_skipped"
        self._log.error(name, **event._asdict(), next_step=NEXT_STEPS[event.skipped])
        if event.skipped is not Skipped.AGGREGATE_REST:
            prefix = f"KCL skipped a batch of {event.shard}: " if event.skipped is Skipped.BATCH else ""
            error = prefix + event.error
            self._notes.note_failure(ProcessorEvent(event=name, error=error, next_step=NEXT_STEPS[event.skipped]))
        if event.skipped is Skipped.BATCH and self._run is not None:
            self._run.kill()
        self._monitoring.skipped(event)
        if event.skipped is Skipped.NOTHING and self._plan.on_out_of_memory is not None:
            self._plan.on_out_of_memory()
        if self._plan.on_skipped is not None and event.skipped is Skipped.BATCH:
            for shard in [event.shard] if event.shard else sorted(self._processors.opened()):
                self._plan.on_skipped(event._replace(shard=shard))

    def _note_error(self, error: KclError) -> None:
        if error.denied and self._notes.denied_seconds() is None:
            self._log.error(DENIED, error=error.error, next_step=GRANT)
        self._notes.note_error(error)

    def _end(self, stop: EndSupervisor) -> int:
        if stop.exit_code == 0:
            self._log.info("supervisor_stopped", reason=stop.reason)
        else:
            self._log.error(
                "gave_up",
                error=stop.reason,
                exit_code=stop.exit_code,
                next_step=stop.next_step or "look at the error lines before this one, and at minutebook docs runbook",
            )
        return stop.exit_code


def _try(steps: Sequence[Callable[[], None]]) -> ProcessorEvent | None:
    """Call the steps before or after a run; return the first error in the form of a processor's failure."""
    try:
        for step in steps:
            step()
    except MinutebookError as exc:
        return ProcessorEvent(event=FAILED, exit_code=exc.exit_code, error=str(exc), next_step=exc.next_step)
    return None
