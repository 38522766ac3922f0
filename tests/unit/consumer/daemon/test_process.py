"""The daemon's command line, and how its end and its fork server's are told apart."""

import io
import os
import signal
from pathlib import Path

import pytest

from consumer.daemon.prepared.classes import MAIN_CLASS, Classes
from consumer.daemon.process import Child, ChildOutput, DaemonRun, daemon_command
from consumer.preflight.java import find_shims

_CLASSES = Classes(("-XX:SharedArchiveFile=it",), (Path("a.jar"), Path("b.jar")))
_COMMAND = daemon_command(Path("java"), _CLASSES, Path("state/w.properties"), Path("logback.xml"))


def test_classes_come_before_the_folder_of_the_properties() -> None:
    """A class archive is for a class path that begins as it did."""
    assert _COMMAND[_COMMAND.index("-cp") + 1].split(":") == ["a.jar", "b.jar", "state"]
    assert _COMMAND.index("-XX:SharedArchiveFile=it") < _COMMAND.index("-cp")


def test_the_daemon_ends_when_memory_runs_out() -> None:
    """KCL would go on behind the batch that it could not hold; the option must come before the class."""
    assert _COMMAND.index("-XX:+ExitOnOutOfMemoryError") < _COMMAND.index(MAIN_CLASS)


def test_our_main_class_is_shipped() -> None:
    """In the folder that is on the class path."""
    assert (find_shims() / MAIN_CLASS.replace(".", "/")).with_suffix(".class").is_file()


@pytest.mark.parametrize(
    ("number", "is_stopping", "is_lost"),
    [(signal.SIGTERM, True, False), (signal.SIGTERM, False, True), (signal.SIGKILL, True, True)],
)
def test_a_fork_server_may_end_in_a_stop_alone(number: signal.Signals, *, is_stopping: bool, is_lost: bool) -> None:
    """By SIGTERM, which everybody is sent in some stops, before it could ignore that."""
    output = ChildOutput(io.BytesIO(), io.BytesIO(), bytes, bytes)
    daemon, server = Child(["/bin/sleep", "60"], {}, output), Child(["/bin/sleep", "60"], {}, output)
    run = DaemonRun(daemon, server)
    assert not run.has_lost_its_processors(is_stopping=is_stopping)
    os.kill(server.pid, number)
    os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOWAIT)

    assert run.has_lost_its_processors(is_stopping=is_stopping) is is_lost
    run.reap()
