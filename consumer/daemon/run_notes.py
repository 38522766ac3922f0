"""What one run of the daemon told: by its processors' lines, by its own log, and by what happened to it.

It ends with exit code 1 or 0 whatever went wrong. Why it ended is, in this order:

    a processor said so ......................... its own error and exit code
    KCL was refused a permission ................ exit 2: a person must act; KCL itself tries for ever, or exits 0
    a processor is gone without a last word ..... it was killed, mostly by the kernel for want of memory
    the supervisor killed the daemon ............ the supervisor's reason
    KCL's last error ............................ only named: it may not be the cause
"""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from consumer.child_logs.kcl_log import KclError
from consumer.child_logs.processor_log import FAILED, Killed, ProcessorEvent

_RELATED_SECONDS: Final = 120
"""An error of the daemon's that lies further back than this is not why it ended."""
_COUNTERS: Final = (Path("/sys/fs/cgroup/memory.events"), Path("/proc/vmstat"))
DENIED: Final = "kcl_denied"
KILLED: Final = "processor_killed"

GRANT: Final = "grant the task's role the actions of `minutebook docs operations permissions`; doctor tries them"


def count_oom_kills() -> int:
    """Return how many processes the kernel has killed for want of memory, in this container or on this machine."""
    for path in _COUNTERS:
        try:
            rows = [line.split() for line in path.read_text().splitlines()]
        except OSError:
            continue
        found = [int(row[1]) for row in rows if row[0] == "oom_kill"]
        if found:
            return found[0]
    return 0


class RunNotes:
    """The notes of one run. Lines come from other threads; `monotonic` is the supervisor's clock."""

    def __init__(self, monotonic: Callable[[], float], count_kills: Callable[[], int] = count_oom_kills) -> None:
        self._lock = threading.Lock()
        self._monotonic = monotonic
        self._count_kills = count_kills
        self._kills_before = count_kills()
        self._told: ProcessorEvent | None = None
        self._denied: tuple[float, ProcessorEvent] | None = None
        self._denied_since: float | None = None
        self._killed: ProcessorEvent | None = None
        self._error: tuple[float, str] | None = None
        self.killed_because: ProcessorEvent | None = None
        """Why the supervisor killed the daemon."""
        self.killed_unasked = False
        """And nobody had asked it to stop: a request that comes meanwhile finds no daemon."""
        self.lost: ProcessorEvent | None = None
        """The first processor that was killed when it had been asked to commit and leave."""
        self.left_in_order = False
        """Everybody left as asked but those that had died before."""

    @property
    def told(self) -> ProcessorEvent | None:
        """The first failure that a processor told of, or that the daemon's log told in its place."""
        return self._told

    def note(self, event: ProcessorEvent) -> None:
        """Take a processor's line."""
        if event.event == FAILED:
            self.blame(event)

    def blame(self, event: ProcessorEvent) -> None:
        """Take a failure; the first counts."""
        with self._lock:
            self._told = self._told or event

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
        """Take a processor that is gone without a last word; return what is to be said of it."""
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
                self.lost = self.lost or event
        return event

    def denied_seconds(self) -> float | None:
        """Return for how long it is known that KCL lacks a permission; None when it lacks none."""
        with self._lock:
            return None if self._denied_since is None else self._monotonic() - self._denied_since

    def evidence(self) -> ProcessorEvent | None:
        """Return why the daemon ended, where no processor told."""
        with self._lock:
            is_denied = self._denied is not None and self._is_related(self._denied[0])
            denied = self._denied[1] if self._denied is not None and is_denied else None
            return denied or self._killed or self.killed_because

    def last_error(self) -> str:
        """Return KCL's own last error; empty when there was none near the end."""
        with self._lock:
            return self._error[1] if self._error is not None and self._is_related(self._error[0]) else ""

    def _is_related(self, at: float) -> bool:
        return self._monotonic() - at <= _RELATED_SECONDS
