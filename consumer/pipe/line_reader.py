"""Lines of the daemon's pipe, in one piece of memory that grows with the longest line and is given back behind it.

Python's own `readline` puts a long line together from pieces of 8 KB: it takes twice the CPU time, and holds the line
twice; what `malloc` held for it once, the process keeps. Here the memory is mapped by ourselves: it grows in place,
pages that were never written cost nothing, and what is given back is gone at once.
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
"""What is kept between short lines."""
_LINE_BREAK: Final = ord("\n")
_memchr: Final = ctypes.CDLL(None).memchr
_memchr.restype, _memchr.argtypes = ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)


class _StreamReading:
    """Reads any stream, a piece at a time: the twin of `minutebook.codec.pipe`, and what it does."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def read(self, memory: mmap.mmap, filled: int) -> tuple[int, int]:
        """Read once behind what is filled; see `PipeReading.read`."""
        with memoryview(memory) as whole, whole[filled:] as free:
            got = self._stream.readinto(free)  # type: ignore[attr-defined] # FileIO and BytesIO have it
        if got is None:  # a descriptor that does not block
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return filled + got, _find_break(memory, filled, filled + got)


class LineReader:
    """The lines of a stream. Each is a view that the next call takes back: nothing of it may be kept.

    `most_bytes` is the longest line that is read; `library` gives the native codec, None where there is none.

    Read is what is there, and never more than once for that: the daemon waits for an answer behind each line. A
    `BufferedReader` is read beneath its buffer, whose `readinto1` asks for more although it holds the end of a line.
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
        """Return how much memory is held for lines now."""
        return len(self._memory)

    def next_line(self) -> memoryview:
        """Return the next line with its break; empty at the end of input.

        Without a break where the input ended in the middle of it, or where it is longer than may be: then as far as
        it was read.

        Raises:
            OSError: the pipe cannot be read.
        """
        self._take_back()
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

    def _take_back(self) -> None:
        """Drop the line that was handed out last, and the memory that only a longer one than it needed."""
        size = len(self._line)
        self._line.release()
        self._filled -= size
        is_long = self._filled or size > LEAST_BYTES
        # Of one size, too: where anybody kept a part of the line, this fails (BufferError).
        self._resize(len(self._memory) if is_long else LEAST_BYTES)
        if self._filled:  # the daemon waits for an answer to each message: so never, but for stray bytes
            self._memory.move(0, size, self._filled)

    def _resize(self, size: int) -> None:
        try:
            self._memory.resize(size)
        except OSError as exc:  # of mremap(2): told as every other lack of memory is
            raise MemoryError(f"{size} bytes for a line: {exc.strerror}") from exc

    def _read_on(self) -> int:
        """Read what is there; returns the index behind the line break, 0 when none came."""
        if self._filled == len(self._memory):
            self._resize(min(2 * self._filled, self._most_bytes))
        self._filled, behind = self._reading.read(self._memory, self._filled)
        return behind


def _reading(stream: BinaryIO | io.RawIOBase, library: ctypes.CDLL | None) -> PipeReading | _StreamReading:
    if library is None or not isinstance(stream, io.FileIO):
        return _StreamReading(cast("BinaryIO", stream))
    return PipeReading(library, stream.fileno())


def _find_break(memory: mmap.mmap, begin: int, end: int) -> int:
    """Return the index behind the first line break between both; 0 when there is none."""
    # `mmap.find` of Python 3.11 compares byte by byte, and a copy to search in takes a fifth of the reading.
    source = ctypes.c_char.from_buffer(memory)
    at = ctypes.addressof(source)
    del source  # it holds the memory, which is given back and grows
    found = _memchr(at + begin, _LINE_BREAK, end - begin)
    return 0 if found is None else int(found) - at + 1
