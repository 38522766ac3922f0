"""Reading the processors' log lines, whatever else is printed on their stderr."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator

import pytest

from consumer.child_logs.processor_log import (
    ENDED,
    FAILED,
    OPENED,
    REAPED,
    STARTED,
    Killed,
    ProcessorEvent,
    ProcessorWatch,
    read_event,
)
from tests.fakes.clock import ManualClock


@pytest.mark.parametrize(
    "line",
    [
        b"Traceback (most recent call last):\n",
        b"\n",
        b"{half a line",
        b'{"no": "event"}\n',
        b'{"event": 7}\n',
        b'{"event": "x", "records": "many"}\n',
        b'{"event": "\xff"}\n',
        b"[1]\n",
    ],
)
def test_other_lines_are_no_events(line: bytes) -> None:
    """A line that is not an event of ours is only passed on."""
    assert read_event(line) is None


def test_an_event_keeps_what_is_counted() -> None:
    """Fields that nobody counts are left out."""
    line = b'{"event": "processor_failed", "exit_code": 6, "error": "e", "next_step": "n", "stack": [1]}\n'

    assert read_event(line) == ProcessorEvent(event="processor_failed", exit_code=6, error="e", next_step="n")


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    """Take every descriptor below 1,100."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2000), hard))
    taken = [os.open(os.devnull, os.O_RDONLY)]
    while taken[-1] < 1100:
        taken.append(os.dup(taken[0]))
    yield
    for descriptor in taken:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_descriptors")
def test_a_thousand_processors_can_be_watched() -> None:
    """A worker may hold more shards than select(2) knows descriptors."""
    process = subprocess.Popen([sys.executable, "-I", "-S", "-c", "input()"], stdin=subprocess.PIPE)
    watch = ProcessorWatch()
    watch.note(ProcessorEvent(event=STARTED, pid=process.pid))
    assert not watch.is_deserted()
    assert not watch.all_ended_in_order()
    watch.note(ProcessorEvent(event=ENDED, pid=process.pid))
    process.communicate(b"\n")
    assert watch.all_ended_in_order()
    watch.close()


def test_silence_is_counted_from_the_last_line_of_a_living_processor() -> None:
    """Of a shard that it has opened. Each line counts, and what the fork server says of it does not."""
    clock = ManualClock()
    watch = ProcessorWatch(clock.monotonic)
    pid = os.getpid()
    watch.note(ProcessorEvent(event=STARTED, pid=pid))
    assert watch.silences() == {}
    watch.note(ProcessorEvent(event=OPENED, pid=pid, shard="s"))
    clock.advance(100)
    assert watch.silences() == {"s": 100}
    watch.note(ProcessorEvent(event="progress", pid=pid, shard="s"))
    clock.advance(7)
    watch.note(ProcessorEvent(event=REAPED, pid=pid))
    assert watch.silences() == {"s": 7}
    watch.close()
    assert watch.silences() == {}


class Scene:
    """A watch and the processes it is told of, each of which ends when it is told to."""

    def __init__(self) -> None:
        self.watch = ProcessorWatch()
        self._processes: list[subprocess.Popen[bytes]] = []

    def begin(self) -> subprocess.Popen[bytes]:
        """Start a processor, and let it say so."""
        process = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE)
        self._processes.append(process)
        self.say(STARTED, process)
        return process

    def say(self, event: str, process: subprocess.Popen[bytes], exit_code: int = 1) -> None:
        """Let a line come that names a processor."""
        self.watch.note(ProcessorEvent(event=event, pid=process.pid, exit_code=exit_code))

    def leave(self, process: subprocess.Popen[bytes]) -> None:
        """Let a processor end in order."""
        self.say(ENDED, process)
        process.communicate()

    def polls(self, times: int) -> list[bool]:
        """Ask so many times whether the daemon is deserted."""
        return [self.watch.is_deserted() for _ in range(times)]

    def end(self) -> None:
        """Leave nothing behind."""
        self.watch.close()
        for process in self._processes:
            process.kill()
            process.communicate()


@pytest.fixture
def scene() -> Iterator[Scene]:
    """Return one, and end it."""
    scene = Scene()
    yield scene
    scene.end()


def kill(process: subprocess.Popen[bytes]) -> None:
    """Let a processor die by SIGKILL; it is not a zombie then."""
    process.kill()
    process.wait()


def test_processors_that_began_after_a_death_are_not_waited_for(scene: Scene) -> None:
    """KCL takes leases up again that were let go of at its shutdown: those processors live as long as it waits."""
    dead, other = scene.begin(), scene.begin()
    kill(dead)
    assert scene.polls(2) == [False] * 2
    scene.begin()
    scene.leave(other)
    assert scene.polls(4) == [False, False, True, True]


def test_processors_that_were_there_have_the_time_to_leave(scene: Scene) -> None:
    """They commit what they hold; one that hangs, or waits for a store, does not hold up all shards."""
    dead, _ = scene.begin(), scene.begin()
    kill(dead)
    assert scene.polls(11) == [False] * 10 + [True]


def test_who_told_of_its_failure_is_dead_at_once(scene: Scene) -> None:
    """No other word is to come."""
    failed = scene.begin()
    scene.say(FAILED, failed)
    kill(failed)
    assert scene.watch.is_deserted()


def test_the_fork_server_knows_at_once_who_was_killed(scene: Scene) -> None:
    """And it is named at once, while a processor that ended by itself may still have a word on its way."""
    dead, ended = scene.begin(), scene.begin()
    kill(dead)
    kill(ended)
    scene.say(REAPED, dead, exit_code=-9)
    scene.say(REAPED, ended, exit_code=2)
    assert scene.watch.is_deserted()
    assert [killed.pid for killed in scene.watch.take_killed()] == [dead.pid]


def test_what_began_behind_the_fork_servers_word_is_not_waited_for(scene: Scene) -> None:
    """Even where the death is looked at later."""
    dead = scene.begin()
    kill(dead)
    scene.say(REAPED, dead, exit_code=-9)
    scene.begin()
    assert scene.watch.is_deserted()


def test_who_ended_well_is_not_taken_for_dead(scene: Scene) -> None:
    """However late its last line comes: the fork server has seen its exit code."""
    ended, other = scene.begin(), scene.begin()
    kill(ended)
    scene.say(REAPED, ended, exit_code=0)
    assert scene.polls(20) == [False] * 20
    assert not scene.watch.all_ended_in_order()
    scene.leave(other)
    assert scene.watch.all_ended_in_order()


def test_a_stop_waits_for_nobody_who_was_killed_before(scene: Scene) -> None:
    """The others have their time. Who is killed behind the request held what it was asked to commit."""
    dead, other = scene.begin(), scene.begin()
    kill(dead)
    scene.say(REAPED, dead, exit_code=-9)
    scene.watch.note_stop()
    assert not scene.watch.only_dead_remain()
    scene.leave(other)
    assert scene.watch.only_dead_remain()
    late = scene.begin()
    kill(late)
    scene.say(REAPED, late, exit_code=-9)
    assert not scene.watch.only_dead_remain()


def test_a_processor_that_failed_is_not_one_that_was_killed(scene: Scene) -> None:
    """It has a code of its own, which the stop ends with."""
    failed = scene.begin()
    scene.say(FAILED, failed, exit_code=5)
    kill(failed)
    scene.say(REAPED, failed, exit_code=5)
    scene.watch.note_stop()
    assert scene.watch.is_deserted()
    assert not scene.watch.only_dead_remain()


def test_a_stop_waits_for_nobody_who_failed(scene: Scene) -> None:
    """The daemon would wait for its answer until the grace is over; the others have their time."""
    failed, other = scene.begin(), scene.begin()
    scene.watch.note_stop()
    scene.say(FAILED, failed, exit_code=5)
    kill(failed)
    assert not scene.watch.only_failed_remain()
    scene.begin()
    scene.leave(other)
    assert scene.watch.only_failed_remain()
    assert not scene.watch.only_dead_remain()


def test_a_stop_waits_for_who_left_in_order(scene: Scene) -> None:
    """Their last lines are no failures: the daemon ends by itself, and gives the leases away."""
    ended = scene.begin()
    scene.watch.note_stop()
    scene.leave(ended)
    assert not scene.watch.only_failed_remain()


def test_a_stop_knows_who_was_gone_before_without_a_fork_server(scene: Scene) -> None:
    """Or before it has told: a last word may still come, and then it was no death."""
    dead, other = scene.begin(), scene.begin()
    kill(dead)
    scene.watch.note_stop()
    scene.leave(other)
    assert [scene.watch.only_dead_remain() for _ in range(5)] == [False] * 3 + [True] * 2
    scene.say(ENDED, dead)
    assert not scene.watch.only_dead_remain()
    assert scene.watch.all_ended_in_order()


def test_a_stop_waits_for_nobody_who_began_behind_a_death(scene: Scene) -> None:
    """The daemon ends already, has asked everybody to leave, and takes up leases again: it asks nobody twice."""
    dead, other = scene.begin(), scene.begin()
    kill(dead)
    scene.say(REAPED, dead, exit_code=-9)
    scene.begin()
    scene.watch.note_stop()
    assert not scene.watch.only_dead_remain()
    scene.leave(other)
    assert scene.watch.only_dead_remain()


@pytest.mark.parametrize("is_forked", [True, False])
def test_who_dies_in_the_instant_of_the_request_is_named(scene: Scene, *, is_forked: bool) -> None:
    """Even where the daemon ends before it is looked at again: it was gone when the daemon lived."""
    dead = scene.begin()
    kill(dead)
    if is_forked:
        scene.say(REAPED, dead, exit_code=-9)
    scene.watch.note_stop()
    assert scene.watch.take_killed(has_ended=True) == [Killed(dead.pid, "", was_asked=False)]


def test_who_dies_behind_the_request_is_named(scene: Scene) -> None:
    """It had been asked to commit. Who goes with the daemon has nobody to pass its last word on."""
    scene.watch.note_stop()
    dead, other, last = scene.begin(), scene.begin(), scene.begin()
    kill(dead)
    scene.leave(other)
    assert [scene.watch.only_dead_remain() for _ in range(3)] == [False] * 3
    kill(last)
    assert not scene.watch.only_dead_remain()
    assert scene.watch.take_killed(has_ended=True) == [Killed(dead.pid, "", was_asked=True)]
