"""Threads that many streams share: no stream waits for another one's service."""

import threading
from collections.abc import Iterator, Mapping

import pytest
import structlog

from consumer.boundaries.pool import Job, JobPool
from minutebook.clock import SystemClock
from tests.witness.waiting import wait_until


class _Stream:
    """Has one job, which waits until the test lets it go on."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.begun = 0
        self.ended = 0
        self.bound: object = None

    def jobs(self) -> Mapping[str, Job]:
        """Return the job, as if it were due all the time."""
        return {"look": self._look}

    def _look(self) -> None:
        self.begun += 1
        self.bound = structlog.contextvars.get_contextvars().get("properties")
        self.go_on.wait(20)
        self.ended += 1


@pytest.fixture
def pool() -> Iterator[JobPool]:
    """Run one with two threads; a test ticks it by hand as well."""
    with JobPool(SystemClock(), threads=2).running() as pool:
        yield pool


def test_a_stream_that_hangs_holds_one_thread(pool: JobPool) -> None:
    """However long it hangs, no second job of that name begins, and another stream's goes on."""
    hanging, healthy = _Stream(), _Stream()
    healthy.go_on.set()
    with pool.serving(hanging), pool.serving(healthy):
        pool.tick()
        wait_until(lambda: hanging.begun == 1, "the first one hangs")
        for number in range(1, 4):
            pool.tick()
            wait_until(lambda number=number: healthy.ended >= number, "the other one is served")  # type: ignore[misc]
        assert hanging.begun == 1
        hanging.go_on.set()
        wait_until(lambda: hanging.ended == 1, "it goes on")
        pool.tick()
        wait_until(lambda: hanging.begun > 1, "and is served again")


def test_a_job_that_goes_on_has_its_turns_at_once(pool: JobPool) -> None:
    """Behind the others, and without waiting for the next second: a stream may have a thousand shards to look at."""
    turns: list[str] = []

    class Long:
        """A stream whose job is due once, and takes three turns."""

        def __init__(self, name: str) -> None:
            self.name = name
            self._due: dict[str, Job] = {"look": self._look}

        def jobs(self) -> Mapping[str, Job]:
            """Return it, once."""
            due, self._due = self._due, {}
            return due

        def _look(self) -> bool:
            turns.append(self.name)
            return turns.count(self.name) < 3

    with pool.serving(Long("a")), pool.serving(Long("b")):
        pool.tick()
        wait_until(lambda: len(turns) >= 6, "all turns")
    assert sorted(turns) == ["a"] * 3 + ["b"] * 3


def test_a_jobs_lines_are_its_streams(pool: JobPool) -> None:
    """The thread is anybody's."""
    stream = _Stream()
    stream.go_on.set()
    with structlog.contextvars.bound_contextvars(properties="orders"), pool.serving(stream):
        pool.tick()
        wait_until(lambda: stream.ended > 0, "it is served")
    assert stream.bound == "orders"


def test_nothing_is_done_of_a_stream_that_has_left(pool: JobPool) -> None:
    """Its last job has ended by then."""
    stream = _Stream()
    stream.go_on.set()
    with pool.serving(stream):
        pool.tick()
    done = stream.begun
    pool.tick()
    assert (stream.begun, stream.ended) == (done, done)
