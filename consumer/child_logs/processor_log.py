"""The processors' log lines, which the supervisor passes on from stderr, and what it learns from them.

The daemon loses a child's exit code and always exits 1. So the code is read from the child's own last line,
`processor_failed`.

When a processor dies, the daemon ends itself and asks the others to commit and leave. It then waits for the dead one
until `shutdownGraceMillis` is over, and meanwhile takes the leases that the others have just released (KCL 3.1.3
takes leases every third of the failover time until all have answered), for new processors that end with it. That wait
is useless once the processors that lived at the death have left, or had the time to: log lines tell which of them
live.
"""

import os
import select
import signal
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from minutebook.clock import SystemClock

POLL_SECONDS: Final = 0.5
STARTED: Final = "processor_started"
OPENED: Final = "shard_opened"
COMMITTED: Final = "segment_committed"
LEFT: Final = frozenset({"lease_lost", "shard_end_checkpointed"})
"""The last line about a shard that its processor reads no more."""
ENDED: Final = "processor_ended"
FAILED: Final = "processor_failed"
REAPED: Final = "processor_reaped"
"""Logged by the fork server for each processor that has ended; `exit_code` is negative for a signal."""
_monotonic: Final = SystemClock().monotonic
_LAST_LINE_POLLS: Final = 4
"""Polls in which a dead processor's last line may still arrive: it comes through the daemon."""
_FAREWELL_POLLS: Final = 10
"""Polls in which the others may leave. What they do not commit is read again; without this limit, a store that does
not answer, or a processor that hangs, would hold up all shards."""


class ProcessorEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One log line of a processor; keys that the line lacks have their defaults."""

    event: str
    pid: int = 0
    properties: str = ""
    """The stem of its stream's file, in a fleet."""
    shard: str = ""
    records: int = 0
    payload_bytes: int = 0
    body_bytes: int = 0
    attempts: int = 0
    commit_seconds: float = 0
    oldest_ms: int | None = None
    buffer_bytes: int = 0
    behind_ms: int | None = None
    covered_from_ms: int | None = None
    covered_until_ms: int | None = None
    continuity: str | None = None
    minute: str = ""
    last: str | None = None
    after: str = ""
    exit_code: int = 1
    error: str = ""
    next_step: str = ""


_DECODER: Final = msgspec.json.Decoder(ProcessorEvent)


def read_event(line: bytes) -> ProcessorEvent | None:
    """Return the event of a log line; None for any other output."""
    if not line.startswith(b"{"):
        return None
    try:
        return _DECODER.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


class Killed(NamedTuple):
    """A processor that ended without a last line, which none of ours does by itself. `shard` is empty if unknown.

    `was_asked`: it had been asked to stop, and so to commit its buffer.
    """

    pid: int
    shard: str
    was_asked: bool = False


class ProcessorWatch:
    """The processors of one run of the daemon, known by their own log lines. Lines come from another thread."""

    def __init__(self, monotonic: Callable[[], float] = _monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._heard_at: dict[int, float] = {}
        self._alive: dict[int, int] = {}
        """Pidfds by pid."""
        self._shards: dict[int, str] = {}
        self._last_lines: set[int] = set()
        """Pids whose last line, ENDED or FAILED, was read."""
        self._ended_in_order: set[int] = set()
        self._gone: dict[int, int] = {}
        """Polls since the end was noticed, by pid; without those that ended in order."""
        self._peers: dict[int, frozenset[int]] = {}
        """By the pid of an ended processor, those that lived when its end was noticed."""
        self._signalled: set[int] = set()
        self._reported: set[int] = set()
        self._gone_at_stop: frozenset[int] | None = None
        """Pids that had ended before the request to stop; None: there was no request."""

    def note(self, event: ProcessorEvent) -> None:
        """Take a log line of a processor."""
        with self._lock:
            if event.event != REAPED:
                self._heard_at[event.pid] = self._monotonic()
            if event.event == STARTED and event.pid not in self._alive:
                try:
                    self._alive[event.pid] = os.pidfd_open(event.pid)
                except ProcessLookupError:  # it ended before we read its first line
                    self._note_gone(event.pid)
            elif event.event == OPENED:
                self._shards[event.pid] = event.shard
            elif event.event in {ENDED, FAILED}:
                self._last_lines.add(event.pid)
                if event.event == ENDED:
                    self._ended_in_order.add(event.pid)
            elif event.event == REAPED:
                if event.exit_code < 0:
                    self._signalled.add(event.pid)
                    self._note_peers(event.pid)
                elif event.exit_code == 0:
                    self._ended_in_order.add(event.pid)

    def is_deserted(self) -> bool:
        """Return whether a processor died, by a signal or an error, and its peers have left or had the time to.

        Call it every `POLL_SECONDS`. A processor counts as dead at once if it logged its failure or the fork server
        logged a signal, else after some polls without a last line.
        """
        with self._lock:
            self._poll()
            return any(
                self._is_dead(pid) and (polls > _FAREWELL_POLLS or self._peers[pid].isdisjoint(self._alive))
                for pid, polls in self._gone.items()
            )

    def _poll(self) -> None:
        ended = _ended(self._alive.values())
        for pid in [pid for pid, descriptor in self._alive.items() if descriptor in ended]:
            os.close(self._alive.pop(pid))
            self._note_gone(pid)
        for pid in list(self._gone):
            self._gone[pid] += 1
            if pid in self._ended_in_order:
                del self._gone[pid]
                self._peers.pop(pid, None)  # of a thousand shards 33 KB

    def _note_gone(self, pid: int) -> None:
        self._gone[pid] = 0
        self._note_peers(pid)

    def _note_peers(self, pid: int) -> None:
        self._peers.setdefault(pid, frozenset(self._alive) - {pid})

    def _is_dead(self, pid: int) -> bool:
        is_certain = pid in self._signalled or pid in self._last_lines or self._gone[pid] > _LAST_LINE_POLLS
        return is_certain and pid not in self._ended_in_order

    def all_ended_in_order(self) -> bool:
        """Return whether there were processors, and all have ended in order, with their buffers committed."""
        with self._lock:
            ended = _ended(self._alive.values())
            if any(map(self._is_dead, self._gone)):
                return False
            if any(descriptor not in ended for descriptor in self._alive.values()):
                return False
            return bool(self._ended_in_order) and self._ended_in_order.issuperset([*self._alive, *self._gone])

    def note_stop(self) -> None:
        """Note that the living processors are asked to stop now."""
        with self._lock:
            self._poll()
            self._gone_at_stop = frozenset(self._signalled.union(self._gone))

    def only_dead_remain(self) -> bool:
        """Return whether the daemon waits only for processors killed before the stop: their peers left in order.

        Call it repeatedly: without a fork server, a death is certain only after some calls. Processors that the
        daemon started after the death do not count: it asks nobody to leave twice.
        """
        with self._lock:
            self._poll()  # also for processors killed from now on, which `take_killed` reports
            if not self._gone_at_stop:
                return False
            peers = frozenset[int]().union(*(self._peers[pid] for pid in self._gone))
            is_over = bool(self._gone) and all(map(self._is_dead, self._gone)) and peers.isdisjoint(self._alive)
            return is_over and self._gone.keys() <= self._gone_at_stop - self._last_lines

    def only_failed_remain(self) -> bool:
        """Return whether the daemon waits only for processors that logged their failure: their peers have left.

        Processors that the daemon started after the failure do not count, as in `only_dead_remain`.
        """
        with self._lock:
            self._poll()
            failed = self._gone.keys() & self._last_lines
            return bool(failed) and all(self._peers[pid].isdisjoint(self._alive) for pid in failed)

    def take_killed(self, *, has_ended: bool = False) -> list[Killed]:
        """Return, once each, the processors that ended without a last line.

        `has_ended`: the daemon has ended, so no more lines can arrive. A processor that ended together with the
        daemon is left out, because nothing passed its last line on; one that ended before the request to stop is not.
        """
        with self._lock:
            patience = 1 if has_ended else _LAST_LINE_POLLS
            gone_at_stop = self._gone_at_stop or frozenset()
            certain = self._signalled | (gone_at_stop if has_ended else frozenset())
            known = self._last_lines | self._reported | self._ended_in_order
            killed = [
                pid for pid, polls in self._gone.items() if (polls > patience or pid in certain) and pid not in known
            ]
            self._reported.update(killed)
            was_asked = self._gone_at_stop is not None
            return [Killed(pid, self._shards.get(pid, ""), was_asked and pid not in gone_at_stop) for pid in killed]

    def opened(self) -> frozenset[str]:
        """Return the shards that a living processor has opened."""
        with self._lock:
            return frozenset(self._shards[pid] for pid in self._alive if pid in self._shards)

    def silences(self) -> dict[str, float]:
        """Return, by shard, the seconds since its living processor logged its last line.

        A processor that KCL calls logs one every five seconds (`consumer/processor/processor`).
        """
        with self._lock:
            now = self._monotonic()
            return {self._shards[pid]: now - self._heard_at[pid] for pid in self._alive if pid in self._shards}

    def kill(self) -> None:
        """Send SIGKILL to the living processors, from any thread; safe because commits are atomic."""
        with self._lock:
            for descriptor in self._alive.values():
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)

    def close(self) -> None:
        """Close the pidfds."""
        with self._lock:
            while self._alive:
                os.close(self._alive.popitem()[1])


def _ended(descriptors: Iterable[int]) -> frozenset[int]:
    """Return the pidfds whose process has ended; by poll(2), because select(2) takes no descriptor beyond 1023."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return frozenset(descriptor for descriptor, _ in poll.poll(0))
