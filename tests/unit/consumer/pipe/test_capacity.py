"""Pipes of a size that suits what goes through them, wherever the system lets them have it."""

import fcntl
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from consumer.pipe.capacity import INPUT_BYTES, OUTPUT_BYTES, size_pipes
from consumer.preflight.java import find_shims

AS_MADE = 64 << 10


@pytest.fixture
def pipes() -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Make the two pipes of a processor, each its end; the others stay open beside it."""
    daemon_reads, stdout = os.pipe()
    stdin, daemon_writes = os.pipe()
    with os.fdopen(stdin, "rb") as source, os.fdopen(stdout, "wb", buffering=0) as target:
        yield source, target
    os.close(daemon_reads)
    os.close(daemon_writes)


def sizes(*streams: BinaryIO) -> list[int]:
    """Return how many bytes each pipe holds."""
    return [fcntl.fcntl(stream.fileno(), fcntl.F_GETPIPE_SZ) for stream in streams]


def test_input_holds_what_the_daemon_writes_and_output_a_page(pipes: tuple[BinaryIO, BinaryIO]) -> None:
    """Together hardly more than both held before."""
    assert sizes(*pipes) == [AS_MADE, AS_MADE]
    size_pipes(*pipes)
    assert sizes(*pipes) == [INPUT_BYTES, OUTPUT_BYTES]
    assert INPUT_BYTES + OUTPUT_BYTES <= 2 * AS_MADE + OUTPUT_BYTES


def test_a_pipe_that_cannot_be_sized_stays_as_it_is(pipes: tuple[BinaryIO, BinaryIO]) -> None:
    """What is in it would not fit any more (EBUSY), and the other one is sized all the same."""
    stdin, stdout = pipes
    stdout.write(bytes(2 * OUTPUT_BYTES))
    size_pipes(stdin, stdout)
    assert sizes(stdin, stdout) == [INPUT_BYTES, AS_MADE]


def test_what_is_no_pipe_is_left_alone(tmp_path: Path) -> None:
    """A file as input, as by hand; a stream of a test, which the system does not know."""
    with (tmp_path / "messages").open("wb+") as file:
        size_pipes(file, file)
    size_pipes(io.BytesIO(), io.BytesIO())


def test_the_daemon_writes_as_much_as_its_pipe_holds() -> None:
    """More would wait in the middle, less would wake the processor more often."""
    writer = find_shims() / "software/amazon/kinesis/multilang/StreamingMessageWriter.java"
    assert f"BUFFER_BYTES = 1 << {INPUT_BYTES.bit_length() - 1};" in writer.read_text(encoding="utf-8")
