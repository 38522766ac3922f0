"""Start a program that is asked to stop when its parent dies: `python leash.py PARENT_PID PROGRAM [ARGUMENT...]`.

Sets the kernel's parent-death signal to SIGTERM (prctl(2), PR_SET_PDEATHSIG) and becomes the program; the setting
survives exec. SIGTERM, because the daemon then lets its processors commit. A program of its own instead of a
`preexec_fn`, which is not safe in a process with threads. The signal follows the thread that started the child.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Put on the leash and become the program; exits 1 when the parent is gone already."""
    parent, command = int(arguments[0]), arguments[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("the parent is gone")
    os.execvp(command[0], command)  # noqa: S606 - becoming the program is the purpose


if __name__ == "__main__":
    main(sys.argv[1:])
