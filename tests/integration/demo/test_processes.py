"""Freezing processes: they stop, they go on, and nobody stays frozen when the demo is killed."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.processes import Frozen, descendants, has_unread_input
from tests.witness.waiting import wait_until

_FREEZING_OWNER = """
import sys
from demo.processes import Frozen

frozen = Frozen([int(sys.argv[1])])
print("frozen", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """Run a process that reads its stdin only when told to by a signal, which is never."""
    with subprocess.Popen(["sleep", "600"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_a_frozen_process_stops_and_goes_on(sleeper: subprocess.Popen[bytes]) -> None:
    """SIGSTOP for as long as the block lasts."""
    with Frozen([sleeper.pid]):
        wait_until(lambda: _state(sleeper.pid) == "T", "its state is T")
    wait_until(lambda: _state(sleeper.pid) == "S", "its state is S")


def test_nobody_stays_frozen_when_the_owner_is_killed(sleeper: subprocess.Popen[bytes]) -> None:
    """The helper sees its stdin end and lets them go on."""
    owner = subprocess.Popen(
        [sys.executable, "-c", _FREEZING_OWNER, str(sleeper.pid)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"frozen\n"
        wait_until(lambda: _state(sleeper.pid) == "T", "it has stopped")
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    wait_until(lambda: _state(sleeper.pid) == "S", "its state is S")


def test_a_process_that_is_gone_is_no_error() -> None:
    """It may end between the look and the signal."""
    process = subprocess.Popen(["true"])
    process.wait()
    Frozen([process.pid]).thaw()


def test_unread_input_is_seen(sleeper: subprocess.Popen[bytes]) -> None:
    """Bytes in the pipe of a process that does not read."""
    assert sleeper.stdin is not None
    assert not has_unread_input(sleeper.pid)
    sleeper.stdin.write(b"x")
    sleeper.stdin.flush()
    assert has_unread_input(sleeper.pid)


def test_descendants_are_found_through_generations() -> None:
    """A child and a grandchild, parents first."""
    with subprocess.Popen(["sh", "-c", "sh -c 'echo up; read line; :' ; :"], stdin=-1, stdout=-1) as parent:
        assert parent.stdout is not None
        assert parent.stdin is not None
        assert parent.stdout.readline() == b"up\n"
        (child,) = descendants(parent.pid)
        assert (child.parent, child.command[0]) == (parent.pid, "sh")
        parent.stdin.close()


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
