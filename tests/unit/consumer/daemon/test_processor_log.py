"""Reading the processors' log lines, whatever else is printed on their stderr."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator

import pytest

from consumer.daemon.processor_log import ENDED, STARTED, ProcessorEvent, ProcessorWatch, read_event


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
    assert not watch.have_left()
    watch.note(ProcessorEvent(event=ENDED, pid=process.pid))
    process.communicate(b"\n")
    assert watch.have_left()
    watch.close()
