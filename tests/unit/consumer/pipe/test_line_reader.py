"""Lines of a pipe: whole however they arrive, in memory that is given back."""

import io
import os
from typing import BinaryIO, cast

import pytest

from consumer.pipe.line_reader import LEAST_BYTES, LineReader
from minutebook.codec.library import native_library

MOST = 1 << 20
LINES = [b'{"action":"a"}\n', b"\n", "é\u2028\0".encode() + b"\n", b"x" * 200_000 + b"\n", b"y\n"]


class Pieces:
    """A pipe that gives so many bytes at a time."""

    def __init__(self, content: bytes, *sizes: int) -> None:
        self._content = io.BytesIO(content)
        self._sizes = iter(sizes)

    def readinto(self, free: memoryview) -> int:
        """Give the next piece, and what is left once no more sizes are named."""
        return self._content.readinto(free[: next(self._sizes, len(free))])


class Waiting(io.RawIOBase):
    """A pipe whose writer waits for an answer: whoever reads on behind what is there would wait for ever."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = list(pieces)

    def readable(self) -> bool:
        """Be a pipe's end for reading."""
        return True

    def readinto(self, free: bytearray | memoryview) -> int:  # type: ignore[override] # what is given to it
        """Give one piece, or as much of it as there is room for, as read(2) does."""
        assert self._pieces, "nothing is there, and nothing comes"
        size = min(len(free), len(self._pieces[0]))
        free[:size], left = self._pieces[0][:size], self._pieces[0][size:]
        self._pieces[:1] = [left] if left else []
        return size


def reader(stream: object, most_bytes: int = MOST) -> LineReader:
    """Return a reader of such a stream."""
    return LineReader(cast("BinaryIO", stream), most_bytes)


def read(lines: LineReader) -> list[bytes]:
    """Read to the end of input."""
    found = []
    while line := lines.next_line():
        found.append(bytes(line))
    return found


def test_lines_come_one_by_one() -> None:
    """Several in one read, a blank one and one that is longer than any read among them."""
    assert read(reader(io.BytesIO(b"".join(LINES)))) == LINES


@pytest.mark.parametrize("cut", range(1, 30))
def test_lines_do_not_depend_on_where_the_pipe_cuts(cut: int) -> None:
    """A read may end within a line, in a character, before its break or behind it."""
    content = "{é}\n\n{🧿}\n{\0}\n".encode()
    assert read(reader(Pieces(content, cut, 1, 2))) == content.splitlines(keepends=True)


@pytest.mark.parametrize("behind", [1, 100, 4_000])
@pytest.mark.parametrize("before", [1, 100, 4_000, 8_000])
def test_a_whole_line_is_handed_out_before_more_is_read(before: int, behind: int) -> None:
    """Its end came with the bytes that filled the memory: Python's buffered reader would hold it, and read on."""
    line = b"x" * (LEAST_BYTES + behind - 1) + b"\n"
    lines = reader(io.BufferedReader(Waiting(line[: LEAST_BYTES - before], line[LEAST_BYTES - before :])))
    assert bytes(lines.next_line()) == line


@pytest.mark.parametrize("extra", [-1, 0, 1])
@pytest.mark.parametrize("times", [1, 2, 5])
def test_lines_as_long_as_the_memory(times: int, extra: int) -> None:
    """The break is the last byte that fits, or the first that does not."""
    lines = [b"x" * (LEAST_BYTES * times + extra - 1) + b"\n", b"y\n"] * 2
    assert read(reader(io.BytesIO(b"".join(lines)))) == lines


@pytest.mark.parametrize("rest", [b"x", b"x" * LEAST_BYTES, b"x" * (3 * LEAST_BYTES - 7)])
def test_a_line_without_its_break_is_what_the_input_ended_in(rest: bytes) -> None:
    """It comes as far as it was read, then nothing comes."""
    assert read(reader(io.BytesIO(b"a\n" + rest))) == [b"a\n", rest]


def test_a_line_longer_than_may_be_is_cut_there() -> None:
    """Not one byte more is read or held."""
    lines = reader(io.BytesIO(b"x" * (3 * MOST)))
    assert bytes(lines.next_line()) == b"x" * MOST
    assert lines.mapped_bytes == MOST


def test_the_line_before_is_taken_back() -> None:
    """Whoever kept it finds out, instead of reading another line's bytes."""
    lines = reader(io.BytesIO(b"a\nb\n"))
    kept = lines.next_line()
    lines.next_line()
    with pytest.raises(ValueError, match="released"):
        bytes(kept)


@pytest.mark.parametrize("rest", [b"b\n", b"b"])
def test_a_part_of_a_line_that_was_kept_is_noticed(rest: bytes) -> None:
    """A view of a view lives on when that one is released: it would read the next line's bytes."""
    lines = reader(io.BytesIO(b"a\n" + rest))
    kept = lines.next_line()[:1]
    with pytest.raises(BufferError):
        lines.next_line()
    assert bytes(kept) == b"a"


def test_memory_is_given_back_behind_a_long_line() -> None:
    """Kept for the next long one, gone once a short one came between."""
    lines = reader(Pieces(b"x" * 10 * LEAST_BYTES + b"\n" + b"a\nb\n", *[LEAST_BYTES] * 10, 1, 2, 2))
    assert len(lines.next_line()) == 10 * LEAST_BYTES + 1
    assert lines.mapped_bytes == 16 * LEAST_BYTES
    assert bytes(lines.next_line()) == b"a\n"
    assert lines.mapped_bytes == 16 * LEAST_BYTES
    assert bytes(lines.next_line()) == b"b\n"
    assert lines.mapped_bytes == LEAST_BYTES


def test_memory_is_no_larger_than_a_line_may_be() -> None:
    """Where twice as much as it has would be more."""
    lines, most = reader(io.BytesIO(b"x" * 200_000), 150_000), 150_000
    assert len(lines.next_line()) == most
    assert lines.mapped_bytes == most


def test_a_pipe_that_does_not_block_is_an_error() -> None:
    """Of both readers the same one: nothing is there, and that is no end of input."""
    for library in (lambda: None, native_library):
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        with os.fdopen(reading, "rb") as stream, os.fdopen(writing, "wb"), pytest.raises(BlockingIOError):
            LineReader(stream, MOST, library).next_line()


@pytest.mark.parametrize("is_native", [True, False])
def test_a_real_pipe_is_read_without_waiting_for_more(*, is_native: bool) -> None:
    """The daemon writes a line and waits for the answer: a reader that waits for a full buffer never answers."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stream, os.fdopen(writing, "wb", buffering=0) as pipe:
        lines = LineReader(stream, MOST, native_library if is_native else lambda: None)
        for line in LINES[:3]:
            pipe.write(line)
            assert bytes(lines.next_line()) == line
