"""The supervisor: keeps one daemon running, forwards the request to stop, and ends with a code that says why."""

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Final

import structlog

from consumer.child_logs.kcl_log import NEXT_STEPS, KclError, KclEvent, Skipped, read_kcl_error, read_kcl_line
from consumer.child_logs.processor_log import FAILED, POLL_SECONDS, ProcessorEvent, ProcessorWatch, read_event
from consumer.daemon.fork_server import FORK_SERVER_ENDED, ForkPlan, start_fork_server
from consumer.daemon.process import Child, ChildOutput, DaemonRun
from consumer.daemon.restart_policy import DaemonExit, EndSupervisor, Restart, RestartLimits, RestartPolicy
from consumer.daemon.run_notes import DENIED, GRANT, RunNotes
from consumer.daemon.stop_signals import StopSignals, listen
from consumer.leases.hand_over import Leaving
from consumer.liveness.poll import ReaderPoll
from consumer.monitoring import log_lines
from consumer.monitoring.watch import Watch
from minutebook.clock import Clock
from minutebook.errors import MinutebookError


@dataclass(frozen=True, kw_only=True, slots=True)
class DaemonPlan:
    """What to run. `grace_seconds` is the time between SIGTERM and SIGKILL.

    `keep_open` are descriptors that the daemon inherits, such as the lock that says it is alive. `before_start` is
    called before every start, when no daemon of this plan lives; what it raises counts as a start that failed.
    `after_end` is called after every run, when the daemon's log has been read; what it raises counts as the run's
    failure. `on_skipped` is called, from another thread, when KCL's log says that it skipped a batch; where the line
    names no shard, for each that is read; `on_out_of_memory` when the daemon says that its heap is full. `readers`
    looks for shards that nobody reads while the daemon runs.
    `log_level` is the lowest level of the processors' lines that are passed on.
    `leaving` gives the leases away at a stop, if no failure was told. `forks`: processors are forked;
    None: the daemon starts each.
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
"""A permission that is missing has consequences by then: no shard is open. Else KCL can do without it."""
_LEAVING_POLL_SECONDS: Final = 0.2
"""KCL takes some seconds more to end when its processors have."""


class Supervisor:
    """Runs the plan until it is asked to stop or has to give up. Main thread only: it owns the signals."""

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
        self._watching = Watch(clock) if watch is None else watch
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
        """Return the exit code of the whole."""
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
                    self._watching.restarted()
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
            return DaemonExit(code=1, ran_seconds=0, asked=bool(signals.received), failure=failure)
        begun, run = self._clock.monotonic(), self._run
        pids = {"daemon_pid": run.daemon_pid, "fork_server_pid": run.fork_server_pid, "supervisor_pid": os.getpid()}
        self._log.info("daemon_started", **pids)
        self._watching.daemon_started(looks_at_leases=self._plan.readers is not None)
        if self._plan.readers is not None:
            self._plan.readers.start(self._processors.opened, self._processors.silences)
        try:
            self._watch(run, signals)
        finally:
            if self._plan.readers is not None:
                self._plan.readers.stop()
            code = run.reap()
            self._watching.daemon_ended()
            self._report_killed(has_ended=True)
            self._processors.close()
        ended = DaemonExit(
            code=code,
            ran_seconds=self._clock.monotonic() - begun,
            asked=bool(signals.received) and not self._notes.killed_unasked,
            failure=_try(self._plan.after_end) or self._notes.told,
            evidence=self._notes.evidence(),
            last_error=self._notes.last_error(),
            left_in_order=self._notes.left_in_order,
            lost=self._notes.lost,
        )
        self._log.info("daemon_ended", code=code, ran_seconds=round(ended.ran_seconds, 1), asked=ended.asked)
        return ended

    def _start(self) -> None:
        """Start the daemon, behind the fork server that it needs."""
        forks = self._plan.forks
        fork_server = None if forks is None else start_fork_server(forks, self._output)
        self._run = DaemonRun(
            Child(self._plan.command, self._plan.environment, self._output, keep_open=self._plan.keep_open),
            fork_server,
        )

    def _watch(self, run: DaemonRun, signals: StopSignals) -> None:
        """Return when the daemon has ended. The first signal asks it to stop; a second Ctrl-C kills it."""
        asked_at: float | None = None
        while not run.has_ended():
            left = POLL_SECONDS
            doom = self._find_doom() if asked_at is None else None
            if run.has_lost_its_processors(is_stopping=bool(signals.received)):
                doom = FORK_SERVER_ENDED
            if doom is not None:
                self._log.error(doom.event, error=doom.error, next_step=doom.next_step)
                self._notes.killed_because = doom
                self._notes.killed_unasked = asked_at is None
                run.kill()
                return
            if signals.received and asked_at is None:
                self._processors.note_stop()
                self._log.info("stopping", signal=signals.received[0].name, grace_seconds=self._plan.grace_seconds)
                if self._plan.leaving is not None:
                    self._plan.leaving.begin()
                run.ask_to_stop()
                asked_at = self._clock.monotonic()
            if asked_at is not None:
                left = asked_at + self._plan.grace_seconds - self._clock.monotonic()
                if left <= 0 or signals.received[1:].count(signal.SIGINT):
                    self._kill_late(run, round(self._clock.monotonic() - asked_at, 1))
                    return
                left = min(left, _LEAVING_POLL_SECONDS)
                if self._processors.only_dead_remain():  # KCL would wait for them until its grace is over
                    self._notes.left_in_order = True
                    run.kill()
                    return
                if self._plan.leaving is not None and self._processors.all_ended_in_order():
                    self._plan.leaving.finish()
            signals.wait(run.exit_descriptors, left)

    def _kill_late(self, run: DaemonRun, waited_seconds: float) -> None:
        self._log.error(
            "daemon_killed",
            waited_seconds=waited_seconds,
            next_step="nothing is lost; if it happens again, raise shutdownGraceMillis and the container's stop "
            "time-out",
        )
        self._notes.killed_because = ProcessorEvent(
            event="daemon_killed", error=f"the daemon had not stopped after {waited_seconds} s and was killed"
        )
        run.kill()

    def _find_doom(self) -> ProcessorEvent | None:
        """Return why nothing more can come of this daemon; None while something can."""
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
        return None if self._plan.readers is None else self._plan.readers.doom

    def _report_killed(self, *, has_ended: bool = False) -> None:
        """Name each processor that is gone without a last word: nobody else will."""
        for killed in self._processors.take_killed(has_ended=has_ended):
            event = self._notes.note_killed(killed)
            self._log.error(event.event, shard=event.shard, error=event.error, next_step=event.next_step)
            self._watching.killed()

    def _wait(self, signals: StopSignals, seconds: float) -> None:
        until = self._clock.monotonic() + seconds
        while not signals.received and (left := until - self._clock.monotonic()) > 0:
            signals.wait([], left)

    def _read_line(self, line: bytes) -> bytes:
        """Take a line of the daemon's stderr; return what of it goes to the log."""
        event = read_event(line)
        if event is not None:
            self._processors.note(event)
            self._notes.note(event)
            self._watching.note(event)
        return log_lines.of_processor(line, self._plan.log_level, self._clock.now_ms())

    def _read_output(self, line: bytes) -> bytes:
        """Take a line of the daemon's own log; return it as it goes to ours."""
        self._heed(line)
        return log_lines.of_daemon(line, self._clock.now_ms())

    def _heed(self, line: bytes) -> None:
        """Do what a line of the daemon's own log asks for.

        After a skipped batch the daemon goes on with the next one, and a processor would chain it: kill it first.
        """
        if self._plan.readers is not None:
            self._plan.readers.read_output(line)
        event = read_kcl_line(line)
        if event is None:
            error = read_kcl_error(line)
            if error is not None:
                self._note_error(error)
            return
        name = "daemon_out_of_memory" if event.skipped is Skipped.NOTHING else "kcl_skipped"
        self._log.error(name, **event._asdict(), next_step=NEXT_STEPS[event.skipped])
        if event.skipped is not Skipped.AGGREGATE_REST:
            what = f"KCL skipped a batch of {event.shard}: " if event.skipped is Skipped.BATCH else ""
            self._notes.blame(
                ProcessorEvent(event=name, error=what + event.error, next_step=NEXT_STEPS[event.skipped])
            )
        if event.skipped is Skipped.BATCH and self._run is not None:
            self._run.kill()
        self._watching.skipped(event)
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
    """Do what comes before or after a run; return what went wrong, as if a processor had told it."""
    try:
        for step in steps:
            step()
    except MinutebookError as exc:
        return ProcessorEvent(event=FAILED, exit_code=exc.exit_code, error=str(exc), next_step=exc.next_step)
    return None
