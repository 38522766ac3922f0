"""Stop processes until stdin ends: `python freezer.py PID...`.

A process of its own, so that its owner's SIGKILL ends stdin and lets the frozen ones go on: a stopped process
cannot even be asked to end.
"""

import contextlib
import os
import signal
import sys


def main(pids: list[int]) -> None:
    """Send SIGSTOP to each, say so with one line on stdout, wait for the end of stdin, send SIGCONT to each."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        _signal_all(pids, signal.SIGSTOP)
        sys.stdout.write("stopped\n")
        sys.stdout.flush()
        sys.stdin.read()
    finally:
        _signal_all(pids, signal.SIGCONT)


def _signal_all(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]])
