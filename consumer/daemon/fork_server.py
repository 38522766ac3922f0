"""How the supervisor starts the fork server: its socket, its command line, and the stub that the daemon starts.

The socket lies in the application's state folder, which only its owner can use. It listens before the daemon starts:
a stub that connects early waits in its queue.
"""

import hashlib
import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from consumer.child_logs.processor_log import ProcessorEvent
from consumer.daemon.process import Child, ChildOutput
from consumer.daemon.properties import unsplittable
from consumer.forks import memory, stub
from minutebook.errors import SettingsError

_PROGRAM: Final = "consumer.forks.program"
FORK_SERVER_ENDED: Final = ProcessorEvent(
    event="fork_server_ended",
    error="the fork server has ended, and every processor with it",
    next_step="look at its last line, if there is one; else something killed it, mostly for want of memory: the "
    "host's log names it; nothing is lost",
)
_NAME_BYTES: Final = 64
_WAITING: Final = 4096
"""Length of the socket's queue; the stubs of all shards may connect at once."""


def stub_command(python: Path) -> str:
    """Return the daemon's `executableName` where processors are forked; raises SettingsError for a blank in it."""
    return f"{unsplittable(python)} -I -S {unsplittable(Path(stub.__file__))}"


class ForkPlan(NamedTuple):
    """The socket's path, each stream's properties file, and the processors' environment.

    The only stream of a worker has no name.
    """

    socket: Path
    files: Mapping[str, Path]
    environment: Mapping[str, str]


def socket_of(state: Path, worker: str) -> Path:
    """Return the socket's path for a worker's file name; a long name is hashed.

    A socket address holds 107 bytes (unix(7)), and `open_door` needs about 20 of them for the folder.
    """
    short = worker if len(worker) <= _NAME_BYTES else hashlib.sha256(worker.encode()).hexdigest()
    return state / f"{short}.socket"


def start_fork_server(plan: ForkPlan, output: ChildOutput, parent: int | None = None) -> Child:
    """Start the fork server; connections wait until it is ready. Raises SettingsError as `open_door` does.

    It ends by itself after the process `parent`; None: this process.
    """
    with open_door(plan.socket) as door:
        files = [word for name, path in plan.files.items() for word in (name, str(path))]
        arguments = [str(door.fileno()), str(parent or os.getpid()), *files]
        command = [sys.executable, "-P", "-m", _PROGRAM, *arguments]
        environment = {**memory.ENVIRONMENT, **plan.environment}
        return Child(command, environment, output, keep_open=[door.fileno()])


def open_door(path: Path) -> socket.socket:
    """Return a socket that listens at `path`, for its owner only; raises SettingsError if it cannot be created."""
    # A socket address holds 107 bytes (unix(7)), and the state folder's path may be longer.
    try:
        folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
        try:
            path.unlink(missing_ok=True)
            door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            door.bind(f"/proc/self/fd/{folder}/{path.name}")
            path.chmod(0o600)
            door.listen(_WAITING)
        finally:
            os.close(folder)
    except OSError as exc:
        raise SettingsError(
            f"{path} cannot be made: {exc.strerror or exc}",
            next_step="name a folder on another disk with --state-dir, or set minutebook.forkServer=false",
        ) from exc
    return door
