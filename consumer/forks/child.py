"""What a forked process does before it is a processor: everything that belongs to one process, and not to its parent.

    its death ............ with the fork server's, by SIGKILL (prctl(2), PR_SET_PDEATHSIG)
    descriptors .......... the stub's three, and no other: not the server's door, not another shard's pipes
    signals .............. SIGINT and SIGTERM ignored, as in every processor; SIGCHLD as it comes
    stdout ............... the protocol has a descriptor of its own, 1 is stderr, as in `consumer.main`
    command line ......... `minutebook-processor FILE`: what an operator looks for
    garbage .............. collected again; what was there before the fork is left alone (`gc.freeze`)
    log .................. nothing bound but its own pid
    ids, chance, locks ... made by `consumer.serving.serve`, which is called here, after the fork

Python itself seeds `random` anew in a child, and os.urandom, of which every id is made, has no state.
"""

import ctypes
import gc
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, NoReturn

import structlog

from consumer.forks.server import Pipes

PROGRAM: Final = "minutebook-processor"
_PR_SET_PDEATHSIG: Final = 1
_ARG_START: Final = 48 - 3
"""Of /proc/self/stat (proc(5)), counted behind the name; the next field is where the arguments end."""
_libc: Final = ctypes.CDLL(None)


class Title(NamedTuple):
    """Where the kernel reads a process's command line, which is the same in every fork."""

    begin: int
    size: int

    def write(self, *words: str) -> None:
        """Let `ps` show these words, as far as there is room."""
        text = "\0".join(words).encode(errors="replace")[: self.size - 1]
        ctypes.memmove(self.begin, text.ljust(self.size, b"\0"), self.size)


def find_title() -> Title:
    """Return this process's place for its command line; of size 0 where it is not known."""
    try:
        fields = Path("/proc/self/stat").read_text(encoding="ascii").rpartition(") ")[2].split()
        begin, end = int(fields[_ARG_START]), int(fields[_ARG_START + 1])
    except (OSError, ValueError, IndexError):
        return Title(0, 0)
    return Title(begin, end - begin)


def become_processor(
    pipes: Pipes, parent: int, title: Title, path: str, live: Callable[[BinaryIO, BinaryIO], int]
) -> NoReturn:
    """Be a processor on these pipes until its end; `live` is its life, and returns the exit code.

    `parent` is the pid of the fork server.
    """
    die_with(parent)
    _own_signals()
    protocol = _own_descriptors(pipes)
    if title.size:
        title.write(PROGRAM, path)
    structlog.contextvars.clear_contextvars()
    gc.enable()
    # closefd: whatever becomes of the object, 0 stays the daemon's pipe.
    code = live(os.fdopen(0, "rb", closefd=False), protocol)
    sys.stderr.flush()
    os._exit(code)


def die_with(parent: int) -> None:
    """Let this process be killed when `parent`, which forked it, ends (prctl(2)); end at once if it has already."""
    _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:  # it ended before we asked: no signal comes
        os._exit(128 + signal.SIGKILL)


def _own_signals() -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, set())


def _own_descriptors(pipes: Pipes) -> BinaryIO:
    """Put the pipes where a process has them, close everything else, and return the protocol's stdout."""
    os.dup2(pipes.stdin, 0)
    os.dup2(pipes.stderr, 2)
    os.dup2(2, 1)
    protocol = pipes.stdout
    os.set_inheritable(protocol, False)
    others = [int(name) for name in os.listdir("/proc/self/fd")]  # noqa: PTH208 - a name is a number
    os.closerange(3, protocol)
    os.closerange(protocol + 1, max(others) + 1)
    return os.fdopen(protocol, "wb", buffering=0)
