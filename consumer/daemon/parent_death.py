"""Start a program that gets a signal when its parent dies.

    python parent_death.py SIGNAL PARENT_PID PROGRAM [ARGUMENT...]

Sets the kernel's parent-death signal (prctl(2), PR_SET_PDEATHSIG) and executes the program; the setting survives
exec. A `preexec_fn` would not be safe in a process with threads. The signal comes when the *thread* that started the
child ends: start children from a thread that lives as long as they should. Outside Linux there is no signal.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1
_USAGE = 3


def tied_to_parent(command: Sequence[str], number: signal.Signals) -> list[str]:
    """Return the command line that starts `command` so that it gets this signal when this process dies."""
    return [sys.executable, "-I", "-S", __file__, str(int(number)), str(os.getpid()), *command]


def main(arguments: list[str]) -> None:
    """Request the signal and execute the program; exits 1 when the parent is gone already."""
    if len(arguments) < _USAGE:
        sys.exit("usage: parent_death.py SIGNAL PARENT_PID PROGRAM [ARGUMENT...]")
    number, parent, command = int(arguments[0]), int(arguments[1]), arguments[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("the parent is gone")
    os.execvp(command[0], command)  # noqa: S606 - becoming the program is the purpose


if __name__ == "__main__":
    main(sys.argv[1:])
