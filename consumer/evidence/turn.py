"""One shard of a worker at a time: read marks must not make hundreds of shards ask Kinesis in the same second."""

import fcntl
import os
from contextlib import suppress
from typing import Protocol


class Turn(Protocol):
    """Whose turn it is to ask."""

    def take(self) -> bool:
        """Take the turn; False while another shard has it."""
        ...

    def release(self) -> None:
        """Give it back."""
        ...


class FreeTurn:
    """Nobody else asks."""

    def take(self) -> bool:
        """Take it."""
        return True

    def release(self) -> None:
        """Give it back."""


class FileTurn:
    """A lock on a file that all processors of a worker read: its properties file. It ends with the process."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def take(self) -> bool:
        """Take the lock, without waiting."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return True  # a file system without locks: thrift, not safety
        return True

    def release(self) -> None:
        """Give the lock back."""
        with suppress(OSError):  # as above
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
