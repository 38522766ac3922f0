"""A lock that one shard of a worker holds at a time, so that read marks of hundreds do not ask Kinesis at once."""

import fcntl
import os
from contextlib import suppress
from typing import Protocol


class WorkerLock(Protocol):
    """Held by the shard that asks."""

    def take(self) -> bool:
        """Take the lock; False while another shard has it."""
        ...

    def release(self) -> None:
        """Give it back."""
        ...


class NoLock:
    """For a worker of one shard: nobody else asks."""

    def take(self) -> bool:
        """Take it."""
        return True

    def release(self) -> None:
        """Give it back."""


class FileLock:
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
