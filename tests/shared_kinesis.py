"""One Kinesis for all workers of a run: its server takes seconds of CPU time until it is compiled, in each process.

    first worker   |--starts it, writes its port--tests--------|--waits for the others--stops it
    the others           |--read the port--------------tests--------|

Each worker holds the lock of users while it uses the server. The system takes it from a process that dies.
"""

import fcntl
from collections.abc import Callable
from pathlib import Path

from demo.embedded import EmbeddedAws


class SharedKinesis:
    """What the workers know of each other, in a folder of the run. Locks are a process's, which makes this once."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._port = folder / "port"
        self._turn = (folder / "turn").open("a+b")
        self._users = (folder / "users").open("a+b")
        self._is_first = False

    def join(self, start: Callable[[int | None], EmbeddedAws]) -> EmbeddedAws:
        """Return what `start` makes of the server's port; of None for the first worker, which starts the server."""
        fcntl.lockf(self._users, fcntl.LOCK_SH)
        fcntl.lockf(self._turn, fcntl.LOCK_EX)
        try:
            if not self._port.exists():
                aws = start(None)
                self._port.write_text(str(aws.kinesis_port))
                self._is_first = True
                return aws
        finally:
            fcntl.lockf(self._turn, fcntl.LOCK_UN)
        return start(int(self._port.read_text()))

    def leave(self, aws: EmbeddedAws) -> None:
        """Stop what `start` made; the first worker waits until nobody else uses the server any more."""
        fcntl.lockf(self._users, fcntl.LOCK_UN)
        if self._is_first:
            fcntl.lockf(self._users, fcntl.LOCK_EX)
            self._port.unlink()
        aws.stop()
        self._users.close()
        self._turn.close()
