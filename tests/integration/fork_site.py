"""Processors from a fork server: the server as the supervisor starts it, and daemon doubles on its stubs."""

import io
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from consumer.daemon.fork_server import ForkPlan, start_fork_server, stub_command
from consumer.daemon.process import Child, ChildOutput
from demo.processes import Process, descendants
from minutebook.properties_file import FORKS_VARIABLE, SUPERVISED_VARIABLE
from tests.fakes.daemon_double import Lease
from tests.integration.process_daemon import PROGRAM, ProcessDaemon
from tests.witness.events import EventLog
from tests.witness.waiting import wait_until

_ROOT = Path(__file__).parents[2]
PYTHON = PROGRAM.parent / "python"


class Forks:
    """One fork server on a properties file; leaving the block ends it and its processors.

    `parent` is a process in the place of its supervisor: when it has ended, so will the server.
    """

    def __init__(self, folder: Path, properties: Path, environment: Mapping[str, str]) -> None:
        self.socket = folder / "forks.socket"
        # The code beside these tests, wherever they lie: a mutation is a copy of both.
        path = os.pathsep.join(filter(None, [environment.get("PYTHONPATH"), str(_ROOT)]))
        self._environment = {
            **environment,
            "PYTHONPATH": path,
            SUPERVISED_VARIABLE: "1",
            FORKS_VARIABLE: str(self.socket),
        }
        read_end, write_end = os.pipe()
        self._log = os.fdopen(write_end, "wb", buffering=0)
        self.events = EventLog(os.fdopen(read_end, "rb"))
        output = ChildOutput(io.BytesIO(), self._log, bytes, bytes)
        self.parent = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE)
        plan = ForkPlan(self.socket, {"": properties}, self._environment)
        self.server: Child = start_fork_server(plan, output, self.parent.pid)
        self._is_reaped = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.reap()

    def reap(self) -> int:
        """End it, and return its exit code."""
        if self._is_reaped:
            return 0
        self._is_reaped = True
        code = self.server.reap()
        self.parent.communicate()
        self._log.close()
        self.events.join()
        return code

    def lose_supervisor(self) -> None:
        """Let its parent be gone, and whoever reads its lines; the one that is being waited for is still read."""
        self.parent.communicate()
        pipe = self.server._process.stderr
        assert pipe is not None
        with Path(os.devnull).open("rb") as nothing:
            os.dup2(nothing.fileno(), pipe.fileno())

    def processor(self, lease: Lease, **environment: str) -> ProcessDaemon:
        """Start a processor as the daemon does; `environment` is what a fleet's daemon adds."""
        return ProcessDaemon(lease, self.socket, {**self._environment, **environment}, stub_command(PYTHON).split())

    def processors(self) -> list[Process]:
        """Return the living processors, in the order of their starts."""
        found = [process for process in descendants(self.server.pid) if process.command[0] == PROGRAM.name]
        return sorted(found, key=lambda process: process.pid)

    def wait_for(self, count: int) -> list[Process]:
        """Return the processors as soon as there are so many."""
        wait_until(lambda: len(self.processors()) == count, f"{count} processors")
        return self.processors()


def links(pid: int) -> dict[int, str]:
    """Return what the descriptors of a process are."""
    folder = Path(f"/proc/{pid}/fd")
    return {int(path.name): str(path.readlink()) for path in folder.iterdir()}
