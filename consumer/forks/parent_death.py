"""A forked process that never outlives the one that forked it."""

import ctypes
import os
import signal
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_libc: Final = ctypes.CDLL(None)


def die_with(parent: int) -> None:
    """Let this process be killed when `parent`, which forked it, ends (prctl(2)); end at once if it has already."""
    _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:  # it ended before we asked: no signal comes
        os._exit(128 + signal.SIGKILL)
