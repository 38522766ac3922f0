"""What a forked process sets up before it is a processor.

    its death ............ with the fork server's, by SIGKILL (prctl(2), PR_SET_PDEATHSIG)
    descriptors .......... only the stub's three: neither the server's socket nor another shard's pipes
    signals .............. SIGINT and SIGTERM ignored, as in every processor; SIGCHLD by default
    stdout ............... the protocol has a descriptor of its own, 1 is stderr, as in `consumer.main`
    command line ......... `minutebook-processor FILE`, which operators look for
    garbage .............. collected, except objects from before the fork (`gc.freeze`)
    log .................. only its own pid is bound, and in a fleet the name of its stream
    ids, chance, locks ... created by `consumer.serving.serve`, which is called here, after the fork

Python itself reseeds `random` in a child, and os.urandom, from which every id comes, has no state.
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
"""Field of /proc/self/stat (proc(5)), counted after the name; the next one is the end of the arguments."""
_libc: Final = ctypes.CDLL(None)


class Title(NamedTuple):
    """The memory from which the kernel reads a process's command line, the same in every fork."""

    begin: int
    size: int

    def write(self, *words: str) -> None:
        """Let `ps` show these words, as far as they fit."""
        text = "\0".join(words).encode(errors="replace")[: self.size - 1]
        ctypes.memmove(self.begin, text.ljust(self.size, b"\0"), self.size)


def find_title() -> Title:
    """Return the memory of this process's command line; of size 0 if unknown."""
    try:
        fields = Path("/proc/self/stat").read_text(encoding="ascii").rpartition(") ")[2].split()
        begin, end = int(fields[_ARG_START]), int(fields[_ARG_START + 1])
    except (OSError, ValueError, IndexError):
        return Title(0, 0)
    return Title(begin, end - begin)


def become_processor(
    pipes: Pipes, parent: int, title: Title, path: str, live: Callable[[BinaryIO, BinaryIO], int], stream: str = ""
) -> NoReturn:
    """Set the process up, call `live` on these pipes, and exit with its code; `parent` is the fork server's pid.

    `stream` is its name in a fleet.
    """
    die_with(parent)
    _own_signals()
    protocol = _own_descriptors(pipes)
    if title.size:
        title.write(PROGRAM, path)
    structlog.contextvars.clear_contextvars()
    if stream:
        structlog.contextvars.bind_contextvars(properties=stream)
    gc.enable()
    # closefd: descriptor 0 stays the daemon's pipe when the object is collected.
    code = live(os.fdopen(0, "rb", closefd=False), protocol)
    sys.stderr.flush()
    os._exit(code)


def die_with(parent: int) -> None:
    """Let the kernel kill this process when `parent`, which forked it, ends (prctl(2)); exit if it has ended."""
    _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:  # it ended before the call, so no signal comes
        os._exit(128 + signal.SIGKILL)


def _own_signals() -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, set())


def _own_descriptors(pipes: Pipes) -> BinaryIO:
    """Move stdin and stderr to 0 and 2, close all other descriptors, and return the protocol's stdout."""
    os.dup2(pipes.stdin, 0)
    os.dup2(pipes.stderr, 2)
    os.dup2(2, 1)
    protocol = pipes.stdout
    os.set_inheritable(protocol, False)
    others = [int(name) for name in os.listdir("/proc/self/fd")]  # noqa: PTH208 - a name is a number
    os.closerange(3, protocol)
    os.closerange(protocol + 1, max(others) + 1)
    return os.fdopen(protocol, "wb", buffering=0)
