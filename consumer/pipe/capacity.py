"""How much the pipes between daemon and processor hold: the daemon's next write, and little of what is answered.

A process that waits for a piece is woken for each, which costs as much as reading it. So what it reads is made larger
and what it writes smaller: where neither CAP_SYS_RESOURCE nor CAP_SYS_ADMIN is given, Linux lets the pipes of one
user hold 64 MiB together, 16 pages each at first, and makes pipes of two pages from then on (pipe(7),
`pipe-user-pages-soft`).
"""

import fcntl
from contextlib import suppress
from typing import BinaryIO, Final

INPUT_BYTES: Final = 128 << 10
"""What the daemon writes at a time (StreamingMessageWriter.java)."""
OUTPUT_BYTES: Final = 4 << 10
"""A page: some 75 answers. The daemon reads each before it writes again; who writes on without reading is stopped."""


def size_pipes(stdin: BinaryIO, stdout: BinaryIO) -> None:
    """Let the pipes hold what suits them; they stay as they are where that is refused, or where they are no pipes."""
    for stream, size in ((stdout, OUTPUT_BYTES), (stdin, INPUT_BYTES)):  # first what makes room for the other
        with suppress(OSError):  # EPERM: beyond that user's share; EBADF: a file, or nothing of the system's
            fcntl.fcntl(stream.fileno(), fcntl.F_SETPIPE_SZ, size)
