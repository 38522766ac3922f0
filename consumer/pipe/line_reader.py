"""Read lines from the daemon's pipe into one mmap buffer that grows for a long line and shrinks after it.

Python's `readline` assembles a long line from pieces of 8 KB: that takes twice the CPU time and holds the line twice,
and the process keeps what `malloc` allocated for it. An mmap grows in place, pages that were never written cost
nothing, and released memory returns to the system at once.
"""

import ctypes
import errno
import io
import mmap
import os
from collections.abc import Callable
from typing import BinaryIO, Final, cast

from minutebook.codec.library import native_library
from minutebook.codec.pipe import PipeReading

LEAST_BYTES: Final = 64 << 10
"""The size of the buffer between long lines."""
_LINE_BREAK: Final = ord("\n")
_memchr: Final = ctypes.CDLL(None).memchr
_memchr.restype, _memchr.argtypes = ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)


class _StreamReading:
    """Reads any stream, a piece at a time: the twin of `minutebook.codec.pipe` in Python."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def read(self, memory: mmap.mmap, filled: int) -> tuple[int, int]:
        """Read once into the free part of `memory`; see `PipeReading.read`."""
        with memoryview(memory) as whole, whole[filled:] as free:
            got = self._stream.readinto(free)  # type: ignore[attr-defined] # FileIO and BytesIO have it
        if got is None:  # a non-blocking descriptor without data
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return filled + got, _find_break(memory, filled, filled + got)


class LineReader:
    """The lines of a stream, of at most `most_bytes`. Each is a view that the next call releases: keep no part of it.

    `next_line` returns as soon as a line is complete and never reads on: the daemon sends nothing more until it gets
    an answer. A `BufferedReader` is read below its buffer, because its `readinto1` reads on after a complete line.
    `library` returns the native codec, None if there is none.
    """

    def __init__(
        self, stream: BinaryIO, most_bytes: int, library: Callable[[], ctypes.CDLL | None] = native_library
    ) -> None:
        self._reading = _reading(stream.raw if isinstance(stream, io.BufferedReader) else stream, library())
        self._most_bytes = most_bytes
        self._memory = mmap.mmap(-1, LEAST_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._filled = 0
        self._line = memoryview(b"")

    @property
    def mapped_bytes(self) -> int:
        """Return the current size of the buffer."""
        return len(self._memory)

    def next_line(self) -> memoryview:
        """Return the next line with its line break; empty at the end of input.

        A line without a break was cut off, by the end of input or by `most_bytes`. Raises OSError if the pipe cannot
        be read.
        """
        self._release()
        size = _find_break(self._memory, 0, self._filled)
        while not size:
            before = self._filled
            if before < self._most_bytes:
                size = self._read_on()
            if self._filled == before:
                size = before
                break
        self._line = memoryview(self._memory)[:size]
        return self._line

    def _release(self) -> None:
        """Drop the last line. After a short one, shrink a buffer that an earlier long line has enlarged."""
        size = len(self._line)
        self._line.release()
        self._filled -= size
        is_long = self._filled or size > LEAST_BYTES
        # Resize even to the same size: it raises BufferError if a caller kept a part of the line.
        self._resize(len(self._memory) if is_long else LEAST_BYTES)
        if self._filled:  # never, except for stray bytes: the daemon waits for an answer to each message
            self._memory.move(0, size, self._filled)

    def _resize(self, size: int) -> None:
        try:
            self._memory.resize(size)
        except OSError as exc:  # mremap(2) has no memory
            raise MemoryError(f"{size} bytes for a line: {exc.strerror}") from exc

    def _read_on(self) -> int:
        """Read once; return the index after the line break, 0 if none was read."""
        if self._filled == len(self._memory):
            self._resize(min(2 * self._filled, self._most_bytes))
        self._filled, behind = self._reading.read(self._memory, self._filled)
        return behind


def _reading(stream: BinaryIO | io.RawIOBase, library: ctypes.CDLL | None) -> PipeReading | _StreamReading:
    if library is None or not isinstance(stream, io.FileIO):
        return _StreamReading(cast("BinaryIO", stream))
    return PipeReading(library, stream.fileno())


def _find_break(memory: mmap.mmap, begin: int, end: int) -> int:
    """Return the index after the first line break in [begin, end); 0 if there is none."""
    # `mmap.find` of Python 3.11 compares byte by byte; searching a copy would cost a fifth of the reading.
    source = ctypes.c_char.from_buffer(memory)
    at = ctypes.addressof(source)
    del source  # it exports the buffer, which could not be resized
    address = _memchr(at + begin, _LINE_BREAK, end - begin)
    return 0 if address is None else int(address) - at + 1
