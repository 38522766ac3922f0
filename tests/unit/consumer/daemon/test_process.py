"""The daemon's command line, its fork server's socket, and how the ends of the two are told apart."""

import errno
import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from consumer.daemon.fork_server import open_door, socket_of
from consumer.daemon.prepared.classes import MAIN_CLASS, Classes
from consumer.daemon.process import Child, ChildOutput, DaemonRun, Pump, daemon_command
from consumer.forks import stub
from consumer.forks.stub import connect
from consumer.preflight.java import find_shims

_CLASSES = Classes(("-XX:SharedArchiveFile=it",), (Path("a.jar"), Path("b.jar")))
_COMMAND = daemon_command(Path("java"), ["-XX:+OurFlag"], _CLASSES, Path("state/w.properties"), Path("logback.xml"))


def test_classes_come_before_the_folder_of_the_properties() -> None:
    """A class archive is for a class path that begins as it did."""
    assert _COMMAND[_COMMAND.index("-cp") + 1].split(":") == ["a.jar", "b.jar", "state"]
    assert _COMMAND.index("-XX:SharedArchiveFile=it") < _COMMAND.index("-cp")


def test_the_daemon_ends_when_memory_runs_out() -> None:
    """KCL would go on behind the batch that it could not hold; the option must come before the class."""
    assert _COMMAND.index("-XX:+ExitOnOutOfMemoryError") < _COMMAND.index(MAIN_CLASS)


def test_flags_come_before_the_class() -> None:
    """Behind it they would be its arguments."""
    assert _COMMAND.index("-XX:+OurFlag") < _COMMAND.index(MAIN_CLASS)


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


def test_a_log_is_read_to_its_end_when_nothing_of_it_is_left() -> None:
    """Neither in the pipe, nor as a line that is not whole yet: boundaries stand on that."""
    read_end, write_end = os.pipe()
    passed = list[bytes]()
    held, go_on = threading.Event(), threading.Event()

    def pass_on(line: bytes) -> bytes:
        if line == b"slow\n":
            held.set()
            go_on.wait()
        passed.append(line)
        return b""

    pump = Pump(os.fdopen(read_end, "rb"), io.BytesIO(), pass_on)
    assert pump.is_read_to_its_end()
    os.write(write_end, b"slow\n")
    assert held.wait(10)
    assert not pump.is_read_to_its_end()
    go_on.set()
    _until(pump.is_read_to_its_end)
    os.write(write_end, b"half a")
    _until(lambda: not pump.is_read_to_its_end())
    os.write(write_end, b" line\n")
    _until(pump.is_read_to_its_end)
    assert passed == [b"slow\n", b"half a line\n"]

    os.write(write_end, b"last words")
    os.close(write_end)
    pump.join(10)

    assert passed[-1] == b"last words"
    assert pump.is_read_to_its_end()


def test_an_error_at_a_line_costs_nobody_the_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    """The line is passed on and told once; but not every line was heeded, so no boundary may stand on them."""
    read_end, write_end = os.pipe()
    sink = io.BytesIO()

    def pass_on(line: bytes) -> bytes:
        if line.startswith(b"bad"):
            raise OSError(errno.EMFILE, "Too many open files")
        return line

    pump = Pump(os.fdopen(read_end, "rb"), sink, pass_on)
    os.write(write_end, b"bad 1\ngood\nbad 2\n")
    os.close(write_end)
    pump.join(10)
    assert sink.getvalue() == b"bad 1\ngood\nbad 2\n"
    assert not pump.is_read_to_its_end()
    assert capsys.readouterr().out.count("log_line_failed") == 1


def test_no_boundary_stands_on_a_daemon_one_of_whose_lines_was_not_heeded() -> None:
    """Be it one of its errors: a processor may have begun there, whose shard nobody knows."""

    def fail(line: bytes) -> bytes:
        raise OSError(errno.EMFILE, line)

    output = ChildOutput(io.BytesIO(), io.BytesIO(), bytes, fail)
    child = Child(["/bin/sh", "-c", "echo started >&2; exec cat"], {}, output, [], takes_commands=True)
    _until(lambda: not child.is_read_to_its_end())
    child.kill()
    child.reap()
    assert not child.is_read_to_its_end()


def _until(is_so: Callable[[], bool]) -> None:
    """Wait for another thread; the test's time-out ends it."""
    while not is_so():
        pass
