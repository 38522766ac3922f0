"""The daemon's command line, its fork server's socket, and how the ends of the two are told apart."""

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from consumer.daemon.fork_server import open_door, socket_of
from consumer.daemon.prepared.classes import MAIN_CLASS, Classes
from consumer.daemon.process import Child, ChildOutput, DaemonRun, daemon_command
from consumer.forks import stub
from consumer.forks.stub import connect
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


@pytest.mark.parametrize("worker", ["w", "w" * 64, "w" * 65, "a-pod-of-kubernetes" * 13, "w" * 247])
def test_a_worker_of_any_name_has_a_socket(tmp_path: Path, worker: str) -> None:
    """An address holds 107 bytes; a worker id as long as a file's name may be was no reason to refuse the start."""
    path = socket_of(tmp_path, worker)
    with open_door(path) as door:
        connect(bytes(path)).close()
        door.settimeout(1)
        door.accept()[0].close()


def test_two_workers_have_two_sockets(tmp_path: Path) -> None:
    """Also where their long names differ at the end alone."""
    assert len({socket_of(tmp_path, "w" * 80 + end) for end in ("", "1", "2")}) == 3


def test_a_stub_loads_nothing_of_weight(tmp_path: Path) -> None:
    """One per shard, all at once after a crash: `signal` alone takes twice as long to load as Python itself."""
    _, loaded = run_stub(tmp_path / "none", "-X", "importtime")
    modules = {line.rpartition("|")[2].strip() for line in loaded.splitlines() if line.startswith("import time:")}
    assert "_socket" in modules
    assert not modules & {"os", "signal", "enum", "socket", "pathlib", "json", "site"}


def test_a_stub_that_finds_nobody_says_so_whatever_the_path(tmp_path: Path) -> None:
    """One line of JSON, which the supervisor reads; a file's name is bytes, and may hold quotes."""
    code, said = run_stub(tmp_path / os.fsdecode(b'n"\xff\\') / "w.socket")
    line = json.loads(said)
    assert (code, line["event"], line["exit_code"], bool(line["next_step"])) == (1, "processor_failed", 1, True)
    assert "cannot be reached" in line["error"]


def run_stub(path: Path, *options: str) -> tuple[int, str]:
    """Start a stub as the daemon does; returns its exit code and what it said."""
    ended = subprocess.run(
        [sys.executable, "-I", "-S", *options, stub.__file__],
        env={stub.SOCKET_VARIABLE: str(path)},
        capture_output=True,
        check=False,
        text=True,
    )
    return ended.returncode, ended.stderr
