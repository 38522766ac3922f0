"""Looking at processes (Linux, /proc), and freezing some of them without ever leaving one frozen."""

import array
import fcntl
import os
import signal
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

_FREEZER = Path(__file__).with_name("freezer.py")


class Process(NamedTuple):
    """A process: pid, parent's pid, and its command line."""

    pid: int
    parent: int
    command: tuple[str, ...]


def descendants(pid: int) -> list[Process]:
    """Return the living descendants of `pid`, parents before children."""
    by_parent: dict[int, list[Process]] = {}
    for process in _all_processes():
        by_parent.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    queue = [pid]
    while queue:
        children = by_parent.get(queue.pop(0), [])
        found += children
        queue += [child.pid for child in children]
    return found


class Frozen:
    """Processes stopped with SIGSTOP for as long as this object lives.

    A helper of its own stops them and lets them go on when its stdin ends: also when this process is killed.
    """

    def __init__(self, pids: list[int]) -> None:
        self._helper = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_FREEZER), *map(str, pids)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        if self._helper.stdout is not None:
            self._helper.stdout.readline()  # all are stopped

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.thaw()

    def thaw(self) -> None:
        """Let them go on; may be called twice."""
        if self._helper.stdin and self._helper.stdout and not self._helper.stdin.closed:
            self._helper.stdin.close()
            self._helper.stdout.close()
            self._helper.wait()


def has_unread_input(pid: int) -> bool:
    """Tell whether bytes wait in a process's stdin, a pipe; False when the process has ended."""
    try:
        pipe = os.open(f"/proc/{pid}/fd/0", os.O_RDONLY | os.O_NONBLOCK)
    except (FileNotFoundError, ProcessLookupError):
        return False
    try:
        waiting = array.array("i", [0])
        fcntl.ioctl(pipe, termios.FIONREAD, waiting)
        return waiting[0] > 0
    finally:
        os.close(pipe)


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process that may have ended meanwhile."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _all_processes() -> list[Process]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                status = (folder / "stat").read_text()
                command = (folder / "cmdline").read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue
            state, parent = status.rsplit(")", 1)[1].split()[:2]
            if state != "Z":
                words = command.decode(errors="replace").rstrip("\0").split("\0")
                found.append(Process(int(folder.name), int(parent), tuple(words)))
    return found
