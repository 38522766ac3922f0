"""Stopping the demo: whatever ends it, no process of it is left."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from consumer.daemon.prepared.classes import MAIN_CLASS
from demo.processes import Process, descendants
from tests.searching import only_deep
from tests.witness.waiting import PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.e2e

MINUTEBOOK = Path(sys.executable).with_name("minutebook")
_DAEMON = MAIN_CLASS
_TERMINATED = "e2e/test_demo_stop.py::test_a_demo_that_is_asked_to_stop_leaves_nothing"
"""The same with SIGTERM, which the demo turns into what SIGINT is."""


@pytest.fixture
def demo(tmp_path: Path, embedded_aws: object) -> Iterator[subprocess.Popen[bytes]]:  # noqa: ARG001 - all is installed
    """Run the demo until its first daemon is up."""
    with (tmp_path / "demo.log").open("wb") as log:
        process = subprocess.Popen([MINUTEBOOK, "demo"], stdout=log, stderr=subprocess.STDOUT)
    try:
        wait_until(lambda: any(_DAEMON in child.command for child in descendants(process.pid)), "the daemon is up")
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=only_deep(_TERMINATED)), signal.SIGTERM])
def test_a_demo_that_is_asked_to_stop_leaves_nothing(demo: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Ctrl-C and SIGTERM end servers, workers, daemons and processors before the demo itself ends with 130."""
    started = descendants(demo.pid)
    demo.send_signal(number)
    assert demo.wait(PATIENCE_SECONDS) == 130
    wait_until(lambda: not _alive(started), "all have ended")


def test_a_demo_that_is_killed_leaves_nothing(demo: subprocess.Popen[bytes]) -> None:
    """SIGKILL: every process is tied to its own parent, daemons have their grace."""
    started = descendants(demo.pid)
    demo.kill()
    demo.wait()
    wait_until(lambda: not _alive(started), "all have ended")


def _alive(started: list[Process]) -> list[Process]:
    """Return those that still run; a process id may have been given to somebody else meanwhile."""
    return [process for process in started if _command(process.pid) == process.command]


def _command(pid: int) -> tuple[str, ...] | None:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return tuple(os.fsdecode(words).rstrip("\0").split("\0"))
