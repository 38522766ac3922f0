"""The threads beside the daemon: one looks once a second what is due, and some do it. Nothing waits for them.

A supervisor has one pool for all of its streams: 240 threads that only wait cost a fleet of forty a tenth of a core.
What is due of a stream is a job with a name, and no two jobs of one name run at once: a stream holds no more threads
than it has jobs, and where the services of many streams hang, the others wait for as long as a request may take.
"""

import contextvars
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Protocol

from minutebook.clock import Clock

Job = Callable[[], bool | None]
"""Returns True if it has more to do, and waits for its next turn behind the other jobs."""
_TICK_SECONDS: Final = 1.0
_JOIN_SECONDS: Final = 2.0


class Due(Protocol):
    """Somebody with things to do now and then, such as the boundaries of a stream."""

    def jobs(self) -> Mapping[str, Job]:
        """Return what is due by name; asks no service. A job raises nothing."""
        ...


class _Member:
    """`names`: the jobs that wait or run. `context`: what its log lines are bound to."""

    def __init__(self, due: Due) -> None:
        self.due = due
        self.context = contextvars.copy_context()
        self.names: set[str] = set()
        self.is_over = False


class JobPool:
    """`threads` do the jobs. They are daemon threads: a request that hangs must not hold up the process's end."""

    def __init__(self, clock: Clock, *, threads: int) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._members: list[_Member] = []
        self._queue: queue.SimpleQueue[tuple[_Member, str, Job] | None] = queue.SimpleQueue()
        self._stop = threading.Event()
        bodies = [("boundary-tick", self._tick), *((f"boundary-{number}", self._work) for number in range(threads))]
        self._threads = [threading.Thread(target=body, name=name, daemon=True) for name, body in bodies]

    @contextmanager
    def running(self) -> Iterator["JobPool"]:
        """Run the threads while the block runs."""
        for thread in self._threads:
            thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            for _ in self._threads:
                self._queue.put(None)
            until = self._clock.monotonic() + _JOIN_SECONDS
            for thread in self._threads:
                thread.join(max(0.0, until - self._clock.monotonic()))

    @contextmanager
    def serving(self, due: Due | None) -> Iterator[None]:
        """Do what is due of somebody while the block runs; a job that hangs is not waited for long."""
        if due is None:
            yield
            return
        member = _Member(due)
        with self._changed:
            self._members.append(member)
        try:
            yield
        finally:
            with self._changed:
                member.is_over = True
                self._members.remove(member)
                self._changed.wait_for(lambda: not member.names, _JOIN_SECONDS)

    def tick(self) -> None:
        """Hand out what is due; each second."""
        with self._changed:
            members = list(self._members)
        for member in members:
            for name, job in member.context.copy().run(member.due.jobs).items():
                with self._changed:
                    if member.is_over or name in member.names:
                        continue
                    member.names.add(name)
                self._queue.put((member, name, job))

    def _tick(self) -> None:
        while not self._stop.wait(_TICK_SECONDS):
            self.tick()

    def _work(self) -> None:
        while (given := self._queue.get()) is not None:
            member, name, job = given
            goes_on = False
            try:
                goes_on = not member.is_over and bool(member.context.copy().run(job)) and not member.is_over
            finally:
                if goes_on:
                    self._queue.put(given)
                else:
                    with self._changed:
                        member.names.discard(name)
                        self._changed.notify_all()
