"""Pipes of a size that suits what goes through them, wherever the system lets them have it."""

import fcntl
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from consumer.pipe.capacity import INPUT_BYTES, OUTPUT_BYTES, size_pipes
from consumer.preflight.java import find_shims

ROOT = Path(__file__).resolve().parents[4]
AS_MADE = 64 << 10
SOFT_LIMIT = Path("/proc/sys/fs/pipe-user-pages-soft")
# A user of no privileges whose pipes hold all that they may but `left` pages, those of a processor among them.
UNPRIVILEGED = """
import fcntl, os, sys
from consumer.pipe.capacity import size_pipes
os.setgroups([])
os.setresuid(54321, 54321, 54321)
page, soft, left = os.sysconf("SC_PAGESIZE"), int(sys.argv[1]), int(sys.argv[2])
def pages(descriptor):
    return fcntl.fcntl(descriptor, fcntl.F_GETPIPE_SZ) // page
stdin, stdout = os.pipe()[0], os.pipe()[1]
rest = soft - pages(stdin) - pages(stdout) - left
for size in [256] * (rest // 256) + [1 << bit for bit in range(7, -1, -1) if rest % 256 >> bit & 1]:
    fcntl.fcntl(os.pipe()[0], fcntl.F_SETPIPE_SZ, size * page)
print(pages(stdin), pages(stdout))
with os.fdopen(stdin, "rb") as source, os.fdopen(stdout, "wb", buffering=0) as target:
    size_pipes(source, target)
    print(pages(stdin), pages(stdout))
"""


@pytest.fixture
def pipes() -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Make the two pipes of a processor, each its end; the others stay open beside it."""
    daemon_reads, stdout = os.pipe()
    stdin, daemon_writes = os.pipe()
    with os.fdopen(stdin, "rb") as source, os.fdopen(stdout, "wb", buffering=0) as target:
        if sizes(source, target) != [AS_MADE, AS_MADE]:
            pytest.skip("this user's pipes are small already: pipe-user-pages-soft")
        yield source, target
    os.close(daemon_reads)
    os.close(daemon_writes)


def sizes(*streams: BinaryIO) -> list[int]:
    """Return how many bytes each pipe holds."""
    return [fcntl.fcntl(stream.fileno(), fcntl.F_GETPIPE_SZ) for stream in streams]


def test_input_holds_what_the_daemon_writes_and_output_a_page(pipes: tuple[BinaryIO, BinaryIO]) -> None:
    """Together hardly more than both held before."""
    size_pipes(*pipes)
    assert sizes(*pipes) == [INPUT_BYTES, OUTPUT_BYTES]
    assert (2 * AS_MADE, os.sysconf("SC_PAGESIZE")) == (INPUT_BYTES, OUTPUT_BYTES)


def test_a_pipe_that_cannot_be_sized_stays_as_it_is(pipes: tuple[BinaryIO, BinaryIO]) -> None:
    """What is in it would not fit any more (EBUSY), and the other one is sized all the same."""
    stdin, stdout = pipes
    stdout.write(bytes(2 * OUTPUT_BYTES))
    size_pipes(stdin, stdout)
    assert sizes(stdin, stdout) == [INPUT_BYTES, AS_MADE]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a user who has no pipes yet")
@pytest.mark.parametrize(("left", "found"), [(0, "16 1"), (8, "32 1")])
def test_a_user_at_the_bound_of_his_pipes(left: int, found: str) -> None:
    """Refused (EPERM), it stays as it is; the page that answers need is taken first, and gives room for the rest."""
    soft = SOFT_LIMIT.read_text().strip()
    command = [sys.executable, "-c", UNPRIVILEGED, soft, str(left)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["16 16", found]


def test_what_is_no_pipe_is_left_alone(tmp_path: Path) -> None:
    """A file as input, as by hand; a stream of a test, which the system does not know."""
    with (tmp_path / "messages").open("wb+") as file:
        size_pipes(file, file)
    size_pipes(io.BytesIO(), io.BytesIO())


def test_the_daemon_writes_as_much_as_its_pipe_holds() -> None:
    """More would wait in the middle, less would wake the processor more often."""
    writer = find_shims() / "software/amazon/kinesis/multilang/StreamingMessageWriter.java"
    assert f"BUFFER_BYTES = 1 << {INPUT_BYTES.bit_length() - 1};" in writer.read_text(encoding="utf-8")
