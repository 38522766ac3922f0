"""A pipe's lines by the codec: what Python reads of the same pieces, and nothing that is not there yet."""

import ctypes
import errno
import io
import os
import random
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from mmap import mmap
from pathlib import Path
from types import FrameType
from typing import BinaryIO

import pytest

from consumer.pipe.line_reader import LEAST_BYTES, LineReader
from minutebook.codec.pipe import PipeReading
from tests.fakes.compiled_codec import COMPILER, compiled_codec

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler")
MOST = 1 << 20
PATIENCE_SECONDS = 20


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    """Return the codec of the sources as they are."""
    return compiled_codec()


def reader(stream: BinaryIO, library: ctypes.CDLL | None) -> LineReader:
    """Return what reads the lines of a stream by that codec."""
    return LineReader(stream, MOST, lambda: library)


@contextmanager
def pipe() -> Iterator[tuple[io.BufferedReader, io.FileIO]]:
    """Open a pipe: the end for reading, the end for writing."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stream, os.fdopen(writing, "wb", buffering=0) as free:
        yield stream, free


def read(lines: LineReader) -> list[bytes]:
    """Read to the end of input."""
    found = []
    while line := lines.next_line():
        found.append(bytes(line))
    return found


@pytest.mark.parametrize("seed", range(40))
def test_lines_are_those_of_the_twin(library: ctypes.CDLL, seed: int) -> None:
    """Any lines, in any pieces, the last one without its break."""
    rng = random.Random(seed)
    sizes = rng.choices([0, 1, 2, 100, 4095, 4096, LEAST_BYTES - 1, LEAST_BYTES, 200_000, MOST + 5], k=12)
    content = b"".join(b"x" * size + b"\n" for size in sizes)[: rng.choice([-1, None])]
    cuts = sorted({0, len(content), *(rng.randrange(len(content) + 1) for _ in range(rng.choice([0, 3, 30])))})
    with pipe() as (stream, free):

        def write() -> None:
            with free:
                for begin, end in pairwise(cuts):
                    left = memoryview(content)[begin:end]
                    while left:
                        left = left[free.write(left) :]

        writer = threading.Thread(target=write)
        writer.start()
        found = read(reader(stream, library))
        writer.join()
    assert found == read(reader(io.BytesIO(content), library))


@pytest.mark.parametrize("size", [1, 5, LEAST_BYTES - 1, LEAST_BYTES, LEAST_BYTES + 1, 3 * LEAST_BYTES])
def test_nothing_is_read_behind_a_line(library: ctypes.CDLL, size: int) -> None:
    """The daemon waits for an answer to each, then writes the next one."""
    line, answered, waited = b"x" * (size - 1) + b"\n", threading.Event(), []
    with pipe() as (stream, free):

        def write() -> None:
            with free:
                free.write(line[:-1])
                free.write(line[-1:])
                waited.append(answered.wait(PATIENCE_SECONDS))

        writer = threading.Thread(target=write)
        writer.start()
        lines = reader(stream, library)
        assert bytes(lines.next_line()) == line
        answered.set()
        assert bytes(lines.next_line()) == b""
        writer.join()
    assert waited == [True]


@pytest.mark.parametrize("there", [b"", b"ab"])
def test_a_signal_is_handled_while_it_waits(library: ctypes.CDLL, there: bytes) -> None:
    """The handler writes what is waited for: it must run in the middle of the read, which then goes on.

    Some of the line may be there already: then the signal is told behind it.
    """
    with pipe() as (stream, free):
        free.write(there)

        def write(_number: int, _frame: FrameType | None) -> None:
            free.write(b"c\n")

        before = signal.signal(signal.SIGALRM, write)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            assert bytes(reader(stream, library).next_line()) == there + b"c\n"
        finally:
            signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("is_native", [True, False])
def test_an_error_that_comes_once_is_told(library: ctypes.CDLL, *, is_native: bool) -> None:
    """A connection that was reset says so once, and is then at its end, as if the daemon had closed it."""
    ours, theirs = socket.socketpair()
    ours.send(b"never read")
    theirs.send(b"half a line")
    theirs.close()
    with os.fdopen(ours.detach(), "rb") as stream, pytest.raises(ConnectionResetError):
        reader(stream, library if is_native else None).next_line()


@pytest.mark.parametrize("is_native", [True, False])
def test_an_end_that_comes_once_is_told(library: ctypes.CDLL, *, is_native: bool) -> None:
    """Of a terminal: twice Ctrl-D behind half a line ends the input, and the next reading would wait for more."""
    hand, terminal = os.openpty()
    os.write(hand, b"abc\x04\x04")
    with os.fdopen(terminal, "rb") as stream:
        assert bytes(reader(stream, library if is_native else None).next_line()) == b"abc"
    os.close(hand)


def test_a_pipe_is_read_by_the_codec(library: ctypes.CDLL) -> None:
    """What the other tests here compare with its twin, and no double of a stream is."""
    with pipe() as (stream, _):
        assert isinstance(reader(stream, library)._reading, PipeReading)
        assert not isinstance(reader(io.BytesIO(), library)._reading, PipeReading)


def test_what_was_read_comes_before_an_error(library: ctypes.CDLL) -> None:
    """An error behind some bytes is told by the next read."""
    with pipe() as (stream, free), mmap(-1, LEAST_BYTES) as memory:
        os.set_blocking(stream.fileno(), False)
        free.write(b"abc")
        reads = PipeReading(library, stream.fileno())
        assert reads.read(memory, 2) == (5, 0)
        assert memory[:6] == b"\0\0abc\0"
        with pytest.raises(BlockingIOError):
            reads.read(memory, 5)
        free.write(b"d\n")
        assert reads.read(memory, 5) == (7, 7)


def test_a_read_that_fails_names_its_error(library: ctypes.CDLL, tmp_path: Path) -> None:
    """What the system says, as of Python's own read."""
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        with mmap(-1, LEAST_BYTES) as memory, pytest.raises(IsADirectoryError) as failed:
            PipeReading(library, folder).read(memory, 0)
    finally:
        os.close(folder)
    assert failed.value.errno == errno.EISDIR
