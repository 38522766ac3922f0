"""Reading a line of a pipe to its end, without Python between its pieces (archive/native/src/read_pipe.c).

The twin is `consumer.pipe.line_reader`, which reads any stream.
"""

import ctypes
import errno
import os
from mmap import mmap
from typing import Final

_NAME: Final = "minutebook_read_pipe"


class PipeReading:
    """Reads one descriptor, which blocks. Python's lock is free while it waits."""

    def __init__(self, library: ctypes.CDLL, descriptor: int) -> None:
        self._read = library[_NAME]
        self._read.restype = ctypes.c_int64
        self._read.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p]
        self._descriptor = descriptor
        self._behind = ctypes.c_int64()
        self._behind_at = ctypes.addressof(self._behind)

    def read(self, memory: mmap, filled: int) -> tuple[int, int]:
        """Read behind what is filled, until a line has ended or the memory is full.

        Returns how much is filled then, as much as before at the end of input, and the index behind the line break, 0
        when none came.

        Raises:
            OSError: of read(2).
        """
        source = ctypes.c_char.from_buffer(memory)
        try:
            while True:
                found = self._read(self._descriptor, ctypes.addressof(source), filled, len(memory), self._behind_at)
                if found >= 0:
                    return found, self._behind.value
                if found != -errno.EINTR:  # a signal: its handler runs before the next round (PEP 475)
                    raise OSError(-found, os.strerror(-found))
        finally:
            del source  # it holds the memory, which grows and is given back; an error would hold it, too
