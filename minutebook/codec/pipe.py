"""Reading a line of a pipe to its end, without Python between its pieces (minutebook/codec/src/read_pipe.c).

The twin is `consumer.pipe.line_reader`, which reads any stream.
"""

import ctypes
import errno
import os
from mmap import mmap
from typing import Final

_NAME: Final = "minutebook_read_pipe"
_END_OF_INPUT: Final = -1


class _PipeEnd(ctypes.Structure):
    """`struct pipe_end` of read_pipe.c."""

    _fields_ = (("behind", ctypes.c_int64), ("stopped", ctypes.c_int64))


class PipeReading:
    """Reads one descriptor, which blocks. Python's lock is free while it waits."""

    def __init__(self, library: ctypes.CDLL, descriptor: int) -> None:
        self._read = library[_NAME]
        self._read.restype = ctypes.c_int64
        self._read.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p]
        self._descriptor = descriptor
        self._end = _PipeEnd()
        self._end_at = ctypes.addressof(self._end)

    def read(self, memory: mmap, filled: int) -> tuple[int, int]:
        """Read behind what is filled, until a line has ended or the memory is full.

        Returns how much is filled then, as much as before at the end of input, and the index behind the line break, 0
        when none came. An end or error behind some bytes is told by the next call: it may come only once.

        Raises:
            OSError: of read(2).
        """
        while True:
            found = filled if self._end.stopped else self._fill(memory, filled)
            if found > filled:
                return found, self._end.behind
            stopped, self._end.stopped = self._end.stopped, 0
            if stopped in {0, _END_OF_INPUT}:
                return found, 0
            if stopped != errno.EINTR:  # a signal: its handler has run, and reading goes on (PEP 475)
                raise OSError(stopped, os.strerror(stopped))

    def _fill(self, memory: mmap, filled: int) -> int:
        source = ctypes.c_char.from_buffer(memory)
        try:
            found: int = self._read(self._descriptor, ctypes.addressof(source), filled, len(memory), self._end_at)
        finally:
            del source  # it holds the memory, which grows and is given back
        return found
