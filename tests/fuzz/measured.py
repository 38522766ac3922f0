"""A program that reads one hostile input under resource limits, and says what it cost.

python -m tests.fuzz.measured CASE      prints {"outcome": ..., "grown_mib": ...}
"""

import io
import json
import os
import resource
import struct
import sys
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import cast

from consumer.processor.protocol import Processor, run_process
from minutebook.errors import MinutebookError
from minutebook.format.payload import PayloadPath
from minutebook.format.segment import inflate, read_records

GIB = 1 << 30
CPU_SECONDS = 120
BLOCK = 1 << 20


def compressed(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Compress without holding either side."""
    packer = zlib.compressobj(1, wbits=31)
    for block in blocks:
        yield packer.compress(block)
    yield packer.flush()


def one_line() -> Iterator[bytes]:
    """Make 1 GiB without a line break."""
    return compressed(b"a" * BLOCK for _ in range(GIB // BLOCK))


def many_lines() -> Iterator[bytes]:
    """Make 256 MiB of lines of 1 KiB."""
    return compressed((b"a" * 1023 + b"\n") * 1024 for _ in range(256))


def endless_name() -> Iterator[bytes]:
    """Make a gzip header whose file name has no end."""
    yield struct.pack("<BBBBIBB", 31, 139, 8, 8, 0, 0, 255)
    for _ in range(256):
        yield b"n" * BLOCK


def drain(lines: Iterable[object]) -> str:
    """Read to the end."""
    return f"{sum(1 for _ in lines)} lines"


def endless_message() -> str:
    """Let a daemon send 1 GiB without a line break."""
    reading, writing = os.pipe()

    def send() -> None:
        with os.fdopen(writing, "wb", buffering=0) as pipe:
            try:
                for _ in range(GIB // BLOCK):
                    pipe.write(b"a" * BLOCK)
            except BrokenPipeError:
                return

    sender = threading.Thread(target=send)
    sender.start()
    nobody = cast("Processor", SimpleNamespace(version=3))
    with os.fdopen(reading, "rb") as pipe:
        try:
            run_process(nobody, pipe, io.BytesIO(), io.StringIO())
        finally:
            pipe.close()
            sender.join()
    return "served"


def objects(size: int) -> str:
    """Look for an id in a payload of nothing but empty objects."""
    found = PayloadPath("id").text(b"[" + b"{}," * (size // 3) + b"{}]")
    return "no id" if found is None else "an id"


CASES: dict[str, Callable[[], str]] = {
    "one line of 1 GiB": lambda: drain(inflate(one_line())),
    "a body that holds it": lambda: drain(read_records(b"".join(one_line()), "shardId-000000000000")),
    "256 MiB of lines": lambda: drain(inflate(many_lines())),
    "a header without end": lambda: drain(inflate(endless_name())),
    "a message of 1 GiB": endless_message,
    "10 MiB of objects": lambda: objects(10 << 20),
    "almost 1 MiB of objects": lambda: objects((1 << 20) - 10),
}


def peak_mib() -> int:
    """Return the largest resident size so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def main() -> None:
    """Run the case that is named."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (2 * GIB, 2 * GIB))
    before = peak_mib()
    try:
        outcome = CASES[sys.argv[1]]()
    except MinutebookError as exc:
        outcome = type(exc).__name__
    sys.stdout.write(json.dumps({"outcome": outcome, "grown_mib": peak_mib() - before}) + "\n")


if __name__ == "__main__":
    main()
