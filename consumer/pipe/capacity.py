"""Size the pipes between daemon and processor: the input for one write of the daemon, the output for a few answers.

Linux wakes a reader for each piece that fits into a pipe, which costs as much as reading the piece; so the input is
enlarged. The output is shrunk to make room for that: without CAP_SYS_RESOURCE and CAP_SYS_ADMIN, the pipes of one
user may hold 64 MiB together; a new pipe has 16 pages, or two once that limit is reached (pipe(7),
`pipe-user-pages-soft`).
"""

import fcntl
from contextlib import suppress
from typing import BinaryIO, Final

INPUT_BYTES: Final = 128 << 10
"""One write of the daemon (StreamingMessageWriter.java)."""
OUTPUT_BYTES: Final = 4 << 10
"""A page: about 75 answers. That is enough: the daemon reads each answer before it writes again."""


def size_pipes(stdin: BinaryIO, stdout: BinaryIO) -> None:
    """Resize both pipes; leave a stream alone if Linux refuses, or if it is no pipe."""
    for stream, size in ((stdout, OUTPUT_BYTES), (stdin, INPUT_BYTES)):  # the smaller first: it frees space
        with suppress(OSError):  # EPERM: above the user's limit; EBADF: no pipe
            fcntl.fcntl(stream.fileno(), fcntl.F_SETPIPE_SZ, size)
