"""A worker under test: the real MultiLangDaemon with its processors, alone or under `minutebook consume`."""

import fcntl
import os
import signal
import subprocess
import termios
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from demo.processes import Process, descendants, send
from tests.witness.events import EventLog
from tests.witness.waiting import PATIENCE_SECONDS


class Worker:
    """A running command and all that it starts. Leaving the `with` block kills and reaps what is left."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        with log.open("ab") as sink:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.PIPE,
                env=dict(environment),
                start_new_session=True,
            )
        assert self._process.stderr is not None
        self.log = log
        self.events = EventLog(self._process.stderr)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """SIGKILL, deepest first: a stopped process dies too. The orphans are reaped by init."""
        if self._process.poll() is None:  # else its pid may be somebody else's by now
            for process in reversed(descendants(self.pid)):
                send(process.pid, signal.SIGKILL)
            self._process.kill()
        self._process.wait()
        self.events.join()

    @property
    def pid(self) -> int:
        """The process id of the command."""
        return self._process.pid

    def daemons(self) -> list[Process]:
        """Return the living JVMs: one, or none while a supervisor waits."""
        return [*self._living("MultiLangDaemon"), *self._living("multilang.FleetDaemon")]

    def processors(self) -> list[Process]:
        """Return the living processors."""
        return self._living("minutebook-processor")

    def fork_servers(self) -> list[Process]:
        """Return the living fork servers: one under `minutebook consume`."""
        return self._living("consumer.forks.program")

    def stubs(self) -> list[Process]:
        """Return what the daemon started for its shards."""
        return self._living("minutebook-stub")

    def is_initialised(self) -> bool:
        """Tell whether KCL takes leases by now: its log says so, and nothing else does."""
        return b"Initialization complete. Starting worker loop." in self.log.read_bytes()

    def terminate(self) -> None:
        """Send SIGTERM to the command alone."""
        self._process.terminate()

    def wait(self) -> int:
        """Return the exit code once the command has ended and its log is read to the end."""
        try:
            code = self._process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running; the last lines:\n{self.events.tail}") from None
        self.events.join()
        return code

    def _living(self, word: str) -> list[Process]:
        own = Process(self.pid, 0, _command_of(self.pid))
        return [process for process in [own, *descendants(self.pid)] if _runs(process, word)]


def is_running(pid: int) -> bool:
    """Tell whether a process runs; one that waits to be reaped by init does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def unread_bytes(process: Process) -> int:
    """Return how much lies in the pipe that is the process's stdin."""
    answer = array("i", [0])
    descriptor = os.open(f"/proc/{process.pid}/fd/0", os.O_RDONLY | os.O_NONBLOCK)
    try:
        fcntl.ioctl(descriptor, termios.FIONREAD, answer)
    finally:
        os.close(descriptor)
    return answer[0]


def kill(process: Process, number: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to a process that must be there."""
    os.kill(process.pid, number)


def _runs(process: Process, word: str) -> bool:
    """Tell whether it is the program itself; `parent_death`, which becomes it, names it only as an argument."""
    return any(word in part for part in process.command) and "parent_death.py" not in " ".join(process.command)


def _command_of(pid: int) -> tuple[str, ...]:
    try:
        return tuple(Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0"))
    except (FileNotFoundError, ProcessLookupError):
        return ()
