"""Read a line of a pipe to its end in one call (src/read_pipe.c).

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
    """Reads a blocking descriptor; the GIL is released meanwhile."""

    def __init__(self, library: ctypes.CDLL, descriptor: int) -> None:
        self._read = library[_NAME]
        self._read.restype = ctypes.c_int64
        self._read.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p]
        self._descriptor = descriptor
        self._end = _PipeEnd()
        self._end_at = ctypes.addressof(self._end)

    def read(self, memory: mmap, filled: int) -> tuple[int, int]:
        """Read into the memory after `filled` bytes, until a line ends or the memory is full; raises OSError.

        Returns the number of filled bytes, unchanged at the end of input, and the index after the line break, or 0.
        An end or error after some bytes is kept for the next call, because read(2) may report it only once.
        """
        while True:
            total = filled if self._end.stopped else self._fill(memory, filled)
            if total > filled:
                return total, self._end.behind
            stopped, self._end.stopped = self._end.stopped, 0
            if stopped in {0, _END_OF_INPUT}:
                return total, 0
            if stopped != errno.EINTR:  # its signal handler has run: read again (PEP 475)
                raise OSError(stopped, os.strerror(stopped))

    def _fill(self, memory: mmap, filled: int) -> int:
        source = ctypes.c_char.from_buffer(memory)
        try:
            total: int = self._read(self._descriptor, ctypes.addressof(source), filled, len(memory), self._end_at)
        finally:
            del source  # it would prevent the owner from resizing the memory
        return total
