"""The processors' log lines, which pass through the supervisor's hands on stderr, and what it learns from them.

The daemon loses a child's exit code: it exits 1 whatever the child said. So the code is read from the child's own
last line, `processor_failed`.

When a processor dies, the daemon ends itself, and asks the others to commit and leave. It then waits out the whole
`shutdownGraceMillis` for the dead one, and meanwhile takes up again the leases that the others have just let go of
(KCL 3.1.3 looks for its leases every third of the failover time until all have answered): new processors begin, and
end with it. Nothing can come of that wait once those that were there at the death have left, or had the time to:
their log lines tell which processors live.
"""

import os
import select
import threading
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import msgspec

from minutebook.clock import SystemClock

POLL_SECONDS: Final = 0.5
STARTED: Final = "processor_started"
OPENED: Final = "shard_opened"
ENDED: Final = "processor_ended"
FAILED: Final = "processor_failed"
REAPED: Final = "processor_reaped"
"""Said by the fork server, of each processor that has ended, and how: `exit_code`, below 0 by a signal."""
_monotonic: Final = SystemClock().monotonic
_SILENT_POLLS: Final = 4
"""A processor's last line takes its way through the daemon: so many polls long it may still come."""
_FAREWELL_POLLS: Final = 10
"""So long the others may take to leave. What they do not commit is read again; a store that does not answer, or a
processor that hangs, would hold up all shards."""


class ProcessorEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One log line of a processor; what the line does not say has its default."""

    event: str
    pid: int = 0
    shard: str = ""
    records: int = 0
    payload_bytes: int = 0
    body_bytes: int = 0
    attempts: int = 0
    commit_seconds: float = 0
    oldest_ms: int | None = None
    buffer_bytes: int = 0
    behind_ms: int | None = None
    covered_until_ms: int | None = None
    exit_code: int = 1
    error: str = ""
    next_step: str = ""


_DECODER: Final = msgspec.json.Decoder(ProcessorEvent)


def read_event(line: bytes) -> ProcessorEvent | None:
    """Return the event of a log line; None when the line is not one, for whatever reason it was printed."""
    if not line.startswith(b"{"):
        return None
    try:
        return _DECODER.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


class Killed(NamedTuple):
    """A processor that is gone without a last word: none of ours ends like that. `shard` is empty if unknown.

    `was_asked`: it was asked to leave by then, and so to commit what it held.
    """

    pid: int
    shard: str
    was_asked: bool = False


class ProcessorWatch:
    """The processors of one run of the daemon, known by their own log lines. Lines come from another thread."""

    def __init__(self, monotonic: Callable[[], float] = _monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._heard: dict[int, float] = {}
        self._alive: dict[int, int] = {}
        self._shards: dict[int, str] = {}
        self._spoke: set[int] = set()
        self._ended_well: set[int] = set()
        self._silent: dict[int, int] = {}
        self._beside: dict[int, frozenset[int]] = {}
        """By the pid of one that is gone, those that lived when that was seen."""
        self._died: set[int] = set()
        self._told: set[int] = set()
        self._gone_before: frozenset[int] | None = None
        """Those that were gone when all were asked to leave; None: nobody was."""

    def note(self, event: ProcessorEvent) -> None:
        """Take a log line of a processor."""
        with self._lock:
            if event.event != REAPED:
                self._heard[event.pid] = self._monotonic()
            if event.event == STARTED and event.pid not in self._alive:
                try:
                    self._alive[event.pid] = os.pidfd_open(event.pid)
                except ProcessLookupError:  # it is gone already, before we read its first line
                    self._note_gone(event.pid)
            elif event.event == OPENED:
                self._shards[event.pid] = event.shard
            elif event.event in {ENDED, FAILED}:
                self._spoke.add(event.pid)
                if event.event == ENDED:
                    self._ended_well.add(event.pid)
            elif event.event == REAPED:
                if event.exit_code < 0:
                    self._died.add(event.pid)
                    self._note_beside(event.pid)
                elif event.exit_code == 0:
                    self._ended_well.add(event.pid)

    def is_deserted(self) -> bool:
        """Tell whether a processor has died, by a signal or an error, and those beside it have left or had the time.

        Ask every `POLL_SECONDS`: a processor has died when it is gone for some polls without having said good-bye; at
        once, when it told of its failure, or the fork server of the signal that ended it.
        """
        with self._lock:
            self._look()
            return any(
                self._is_dead(pid) and (polls > _FAREWELL_POLLS or self._beside[pid].isdisjoint(self._alive))
                for pid, polls in self._silent.items()
            )

    def _look(self) -> None:
        gone = _ended(self._alive.values())
        for pid in [pid for pid, descriptor in self._alive.items() if descriptor in gone]:
            os.close(self._alive.pop(pid))
            self._note_gone(pid)
        for pid in list(self._silent):
            self._silent[pid] += 1
            if pid in self._ended_well:
                del self._silent[pid]

    def _note_gone(self, pid: int) -> None:
        self._silent[pid] = 0
        self._note_beside(pid)

    def _note_beside(self, pid: int) -> None:
        self._beside.setdefault(pid, frozenset(self._alive) - {pid})

    def _is_dead(self, pid: int) -> bool:
        is_certain = pid in self._died or pid in self._spoke or self._silent[pid] > _SILENT_POLLS
        return is_certain and pid not in self._ended_well

    def have_left(self) -> bool:
        """Tell whether there were processors, and all have ended in order: what they held is stored and said so."""
        with self._lock:
            gone = _ended(self._alive.values())
            if any(map(self._is_dead, self._silent)):
                return False
            if any(descriptor not in gone for descriptor in self._alive.values()):
                return False
            return bool(self._ended_well) and self._ended_well.issuperset([*self._alive, *self._silent])

    def note_stop(self) -> None:
        """Take it that everybody is asked to leave now. Who is gone by then was not asked."""
        with self._lock:
            self._look()
            self._gone_before = frozenset(self._died.union(self._silent))

    def have_left_the_dead(self) -> bool:
        """Tell whether somebody was killed before all were asked to leave, and those beside it have left in order.

        Ask every now and then: where no fork server tells of a death, it is known after some times. Whom the daemon
        has started behind the death is not waited for: it asks nobody twice.
        """
        with self._lock:
            self._look()  # also for those that are killed from now on, which somebody has to name
            if not self._gone_before:
                return False
            beside = frozenset[int]().union(*(self._beside[pid] for pid in self._silent))
            is_over = bool(self._silent) and all(map(self._is_dead, self._silent)) and beside.isdisjoint(self._alive)
            return is_over and self._silent.keys() <= self._gone_before - self._spoke

    def take_killed(self, *, has_ended: bool = False) -> list[Killed]:
        """Return, once each, the processors that are gone without a last word.

        `has_ended`: the daemon has, so that no word can come any more. Who went with the daemon is not named: its
        last word had nobody to pass it on. Who was gone before the daemon was asked to stop did not go with it.
        """
        with self._lock:
            patience = 1 if has_ended else _SILENT_POLLS
            gone_before = self._gone_before or frozenset()
            certain = self._died | (gone_before if has_ended else frozenset())
            killed = [
                pid
                for pid, polls in self._silent.items()
                if (polls > patience or pid in certain) and pid not in self._spoke | self._told | self._ended_well
            ]
            self._told.update(killed)
            was_asked = self._gone_before is not None
            return [Killed(pid, self._shards.get(pid, ""), was_asked and pid not in gone_before) for pid in killed]

    def opened(self) -> frozenset[str]:
        """Return the shards that a living processor has opened."""
        with self._lock:
            return frozenset(self._shards[pid] for pid in self._alive if pid in self._shards)

    def silences(self) -> dict[str, float]:
        """Return, for each shard that a living processor has opened, for how long that one has said nothing.

        One that is called says so every five seconds (`consumer/processor/progress`).
        """
        with self._lock:
            now = self._monotonic()
            return {self._shards[pid]: now - self._heard[pid] for pid in self._alive if pid in self._shards}

    def close(self) -> None:
        """Let go of the processors."""
        with self._lock:
            while self._alive:
                os.close(self._alive.popitem()[1])


def _ended(descriptors: Iterable[int]) -> frozenset[int]:
    """Return those whose process has ended; poll(2), because select(2) knows no descriptor beyond 1023."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return frozenset(descriptor for descriptor, _ in poll.poll(0))
