"""Where the fork server's socket lies, and the stub that looks for it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from consumer.daemon.fork_server import open_door, socket_of
from consumer.forks import stub
from consumer.forks.stub import connect


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
