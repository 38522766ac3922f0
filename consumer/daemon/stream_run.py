"""One stream under a supervisor: the steps around each run of its daemon, its notes, and what its lines say.

The supervisor of one stream and each stream of a fleet (consumer/fleet) have one of these. It starts and kills
nothing: whoever has it says when a run begins and ends, and passes the lines of processors and daemon.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import structlog

from consumer.boundaries.due import Boundaries, DaemonLog
from consumer.child_logs.kcl_log import NEXT_STEPS, KclError, KclEvent, Skipped, read_kcl_error, read_kcl_line
from consumer.child_logs.processor_log import FAILED, ProcessorEvent, ProcessorWatch
from consumer.daemon.restart_policy import DaemonExit, EndSupervisor, Restart, RestartLimits, RestartPolicy
from consumer.daemon.run_notes import DENIED, GRANT, RunNotes
from consumer.leases.hand_over import Leaving
from consumer.liveness.poll import ReaderPoll
from consumer.monitoring.watch import Watch
from minutebook.clock import Clock
from minutebook.errors import MinutebookError

_DENIED_SECONDS: Final = 60
"""If no shard is open by then, KCL needs the denied permission; else it can do without."""
DESERTED: Final = ProcessorEvent(
    event="daemon_deserted",
    error="a processor died, the others have left or had the time to, and the daemon only waits",
    next_step="look at the lines before this one: they say which processor died, and why",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamPlan:
    """What belongs to one stream.

    before_start: called before every start, while no daemon reads the stream for this worker; an error counts as a
    failed start.
    after_end: called after every run, when the daemon's log has been read; an error counts as the run's failure.
    on_skipped: called from another thread when KCL logs that it skipped a batch; for each open shard if the line
        names none.
    on_out_of_memory: called from another thread when the daemon logs that its heap is full.
    readers: finds shards without a reader while the daemon runs.
    leaving: hands the leases over at a stop, unless a processor failed.
    boundaries: says until when the shards are archived; None: nobody does.
    """

    before_start: Sequence[Callable[[], None]] = ()
    after_end: Sequence[Callable[[], None]] = ()
    on_skipped: Callable[[KclEvent], None] | None = None
    on_out_of_memory: Callable[[], None] | None = None
    readers: ReaderPoll | None = None
    leaving: Leaving | None = None
    boundaries: Boundaries | None = None


class StreamRun:
    """The present run of one stream, and how often it has failed. `kill` ends the run at once, from any thread."""

    def __init__(
        self, plan: StreamPlan, clock: Clock, limits: RestartLimits, watch: Watch, kill: Callable[[], None]
    ) -> None:
        self._plan = plan
        self._clock = clock
        self._policy = RestartPolicy(limits)
        self._kill = kill
        self._begun = 0.0
        self._log = structlog.get_logger()
        self.monitoring = watch
        self.notes = RunNotes(clock.monotonic)
        self.processors = ProcessorWatch(clock.monotonic)

    # A run, in the order of its life

    def prepare(self) -> ProcessorEvent | None:
        """Begin new notes, and do the steps before a start; return the error of one of them."""
        self.notes = RunNotes(self._clock.monotonic)
        self.processors = ProcessorWatch(self._clock.monotonic)
        return attempt(self._plan.before_start)

    @contextmanager
    def reading(self, daemon: DaemonLog) -> Iterator[None]:
        """Watch a daemon that reads the stream while the block runs, which must not end before the daemon has."""
        self._started(daemon)
        try:
            yield
        finally:
            if self._plan.readers is not None:
                self._plan.readers.stop()
            self.monitoring.daemon_ended()
            self._report_killed(has_ended=True)
            self.processors.close()

    def _started(self, daemon: DaemonLog) -> None:
        self._begun = self._clock.monotonic()
        if self._plan.boundaries is not None:
            self._plan.boundaries.daemon_started(daemon)
        self.monitoring.daemon_started(polls_leases=self._plan.readers is not None)
        if self._plan.readers is not None:
            self._plan.readers.start(self.processors.opened, self.processors.silences)

    def kill_reason(self) -> ProcessorEvent | None:
        """Return why the run must be ended and begun again; None while it works. Call it every `POLL_SECONDS`."""
        is_deserted = self.processors.is_deserted()
        self._report_killed()
        if is_deserted:
            return DESERTED
        denied_seconds = self.notes.denied_seconds()
        if denied_seconds is not None and denied_seconds > _DENIED_SECONDS and not self.processors.opened():
            return self.notes.evidence()
        return None if self._plan.readers is None else self._plan.readers.kill_reason

    def stop_asked(self) -> None:
        """Note that the processors are asked to commit and leave now."""
        self.processors.note_stop()
        if self._plan.leaving is not None:
            self._plan.leaving.begin()

    def waits_for_the_dead(self) -> bool:
        """Return whether the daemon waits, after a request to stop, only for processors that will never answer."""
        self.notes.left_in_order = self.processors.only_dead_remain()
        return self.notes.left_in_order or self.processors.only_failed_remain()

    def ended(self, code: int, *, stop_requested: bool) -> DaemonExit:
        """Do the steps after a run, and return how it ended; `code` is the daemon's."""
        ended = DaemonExit(
            code=code,
            ran_seconds=self._clock.monotonic() - self._begun,
            stop_requested=stop_requested and not self.notes.killed_unasked,
            failure=attempt(self._plan.after_end) or self.notes.failure,
            evidence=self.notes.evidence(),
            last_error=self.notes.last_error(),
            left_in_order=self.notes.left_in_order,
            killed_stopping=self.notes.killed_stopping,
        )
        self._log.info("daemon_ended", code=code, ran_seconds=round(ended.ran_seconds, 1), asked=ended.stop_requested)
        return ended

    def decide(self, ended: DaemonExit) -> EndSupervisor | Restart:
        """Return what to do after a run, and log a restart."""
        decision = self._policy.after(ended)
        if isinstance(decision, Restart):
            self._log.warning(
                "daemon_restarting",
                error=decision.reason,
                wait_seconds=decision.wait_seconds,
                crashes_in_a_row=decision.crashes_in_a_row,
                next_step=decision.next_step,
            )
            self.monitoring.restarted()
        return decision

    def hand_over(self) -> None:
        """Hand the leases over, once; see `Leaving.finish`."""
        if self._plan.leaving is not None:
            self._plan.leaving.finish()

    def gave_up(self, decision: EndSupervisor) -> None:
        """Log why the stream is not started any more."""
        self._log.error(
            "gave_up",
            error=decision.reason,
            exit_code=decision.exit_code,
            next_step=decision.next_step or "look at the error lines before this one, and at minutebook docs runbook",
        )

    def _report_killed(self, *, has_ended: bool = False) -> None:
        """Log each processor that ended without a last line."""
        for killed in self.processors.take_killed(has_ended=has_ended):
            event = self.notes.note_killed(killed)
            self._log.error(event.event, shard=event.shard, error=event.error, next_step=event.next_step)
            self.monitoring.killed()

    # Lines, from other threads

    def note(self, event: ProcessorEvent) -> None:
        """Take a line of a processor."""
        self.processors.note(event)
        self.notes.note(event)
        self.monitoring.note(event)
        if self._plan.boundaries is not None:
            self._plan.boundaries.note(event)

    def read_output(self, line: bytes) -> None:
        """Take a line of the daemon's own log; end the run before KCL delivers the batch after a skipped one."""
        if self._plan.readers is not None:
            self._plan.readers.read_output(line)
        event = read_kcl_line(line)
        if event is not None:
            self.note_skipped(event)
            return
        kcl_error = read_kcl_error(line)
        if kcl_error is not None:
            self._note_error(kcl_error)

    def note_skipped(self, event: KclEvent) -> None:
        """Take what KCL gave up on."""
        name = "daemon_out_of_memory" if event.skipped is Skipped.NOTHING else "kcl_skipped"
        self._log.error(name, **event._asdict(), next_step=NEXT_STEPS[event.skipped])
        if event.skipped is not Skipped.AGGREGATE_REST:
            prefix = f"KCL skipped a batch of {event.shard}: " if event.skipped is Skipped.BATCH else ""
            error = prefix + event.error
            self.notes.note_failure(ProcessorEvent(event=name, error=error, next_step=NEXT_STEPS[event.skipped]))
        if event.skipped is Skipped.BATCH and self._plan.boundaries is not None:
            self._plan.boundaries.skipped(event.shard)
        if event.skipped is Skipped.BATCH:
            self._kill()
        self.monitoring.skipped(event)
        if event.skipped is Skipped.NOTHING and self._plan.on_out_of_memory is not None:
            self._plan.on_out_of_memory()
        if self._plan.on_skipped is not None and event.skipped is Skipped.BATCH:
            for shard in [event.shard] if event.shard else sorted(self.processors.opened()):
                self._plan.on_skipped(event._replace(shard=shard))

    def _note_error(self, error: KclError) -> None:
        if error.denied and self.notes.denied_seconds() is None:
            self._log.error(DENIED, error=error.error, next_step=GRANT)
        self.notes.note_error(error)


def attempt(steps: Sequence[Callable[[], None]]) -> ProcessorEvent | None:
    """Call the steps before or after a run; return the first error in the form of a processor's failure."""
    try:
        for step in steps:
            step()
    except MinutebookError as exc:
        return ProcessorEvent(event=FAILED, exit_code=exc.exit_code, error=str(exc), next_step=exc.next_step)
    return None
