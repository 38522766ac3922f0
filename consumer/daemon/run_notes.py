"""Why one run of the daemon ended, from its processors' lines, its own log, and what the supervisor did.

The daemon exits 1 or 0 whatever went wrong. The cause is the first of these:

    a processor logged its failure .............. its own error and exit code
    KCL was denied a permission ................. exit 2: a person must act; KCL itself retries for ever, or exits 0
    a processor ended without a last line ....... it was killed, mostly by the kernel for want of memory
    the supervisor killed the daemon ............ the supervisor's reason
    KCL's last error ............................ only quoted: it may not be the cause
"""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from consumer.child_logs.kcl_log import KclError
from consumer.child_logs.processor_log import FAILED, Killed, ProcessorEvent

_RELATED_SECONDS: Final = 120
"""An older error of the daemon is not why it ended."""
_COUNTERS: Final = (Path("/sys/fs/cgroup/memory.events"), Path("/proc/vmstat"))
DENIED: Final = "kcl_denied"
KILLED: Final = "processor_killed"

GRANT: Final = "grant the task's role the actions of `minutebook docs operations permissions`; doctor tries them"


def count_oom_kills() -> int:
    """Return the kernel's count of out-of-memory kills, in this container or on this machine."""
    for path in _COUNTERS:
        try:
            rows = [line.split() for line in path.read_text().splitlines()]
        except OSError:
            continue
        counts = [int(row[1]) for row in rows if row[0] == "oom_kill"]
        if counts:
            return counts[0]
    return 0


class RunNotes:
    """The notes of one run. Lines come from other threads; `monotonic` is the supervisor's clock."""

    def __init__(self, monotonic: Callable[[], float], count_kills: Callable[[], int] = count_oom_kills) -> None:
        self._lock = threading.Lock()
        self._monotonic = monotonic
        self._count_kills = count_kills
        self._kills_before = count_kills()
        self._denied: tuple[float, ProcessorEvent] | None = None
        self._denied_since: float | None = None
        self._killed: ProcessorEvent | None = None
        self._error: tuple[float, str] | None = None
        self.failure: ProcessorEvent | None = None
        """The first failure in a processor's line, or in the daemon's log on its behalf."""
        self.kill_reason: ProcessorEvent | None = None
        """Why the supervisor killed the daemon."""
        self.killed_unasked = False
        """The supervisor killed the daemon before any request to stop: a later one does not make that a stop."""
        self.killed_stopping: ProcessorEvent | None = None
        """The first processor that was killed after it was asked to commit and leave."""
        self.left_in_order = False
        """All processors left as asked, except some that had died before."""

    def note(self, event: ProcessorEvent) -> None:
        """Take a processor's line."""
        if event.event == FAILED:
            self.note_failure(event)

    def note_failure(self, event: ProcessorEvent) -> None:
        """Take a failure; only the first counts."""
        with self._lock:
            self.failure = self.failure or event

    def note_error(self, error: KclError) -> None:
        """Take an error of the daemon's own log."""
        with self._lock:
            now = self._monotonic()
            self._error = now, error.error
            if error.denied:
                event = ProcessorEvent(
                    event=DENIED, exit_code=2, error=f"KCL lacks a permission: {error.error}", next_step=GRANT
                )
                self._denied = now, event
                self._denied_since = now if self._denied_since is None else self._denied_since

    def note_killed(self, killed: Killed) -> ProcessorEvent:
        """Take a processor that ended without a last line; return the event to log."""
        kills = self._count_kills() - self._kills_before
        of_shard = f" of {killed.shard}" if killed.shard else ""
        what = "the kernel killed it for want of memory" if kills else "somebody or something killed it"
        event = ProcessorEvent(
            event=KILLED,
            pid=killed.pid,
            shard=killed.shard,
            error=f"the processor{of_shard} (pid {killed.pid}) ended without a last word: {what}",
            next_step="give the task more memory (see minutebook docs operations); nothing is lost"
            if kills
            else "look at who sends SIGKILL: the host's or the container's log names it; nothing is lost",
        )
        with self._lock:
            self._killed = self._killed or event
            if killed.was_asked:
                self.killed_stopping = self.killed_stopping or event
        return event

    def note_kill_of_run(self, reason: ProcessorEvent, *, unasked: bool) -> None:
        """Take why the whole run is ended by us; `unasked`: before any request to stop."""
        self.kill_reason, self.killed_unasked = reason, unasked

    def denied_seconds(self) -> float | None:
        """Return the seconds since KCL was first denied a permission; None when it was not."""
        with self._lock:
            return None if self._denied_since is None else self._monotonic() - self._denied_since

    def evidence(self) -> ProcessorEvent | None:
        """Return why the daemon ended, where no processor logged a failure."""
        with self._lock:
            denied = self._denied[1] if self._denied is not None and self._is_recent(self._denied[0]) else None
            return denied or self._killed or self.kill_reason

    def last_error(self) -> str:
        """Return KCL's last error; empty when there was none near the end."""
        with self._lock:
            return self._error[1] if self._error is not None and self._is_recent(self._error[0]) else ""

    def _is_recent(self, at: float) -> bool:
        return self._monotonic() - at <= _RELATED_SECONDS
