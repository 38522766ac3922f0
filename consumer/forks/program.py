"""The fork server as a program: `python -P -m consumer.forks.program LISTENER PARENT STREAM PROPERTIES ...`.

LISTENER is the descriptor of a listening socket, PARENT the pid of the process that starts the program
(consumer/daemon/fork_server.py). STREAM is a name that stubs send, and PROPERTIES the file of its processors; there
is one pair for each stream, and for a worker of one stream the name is empty. An error at the start ends it like a
processor: with the same last line and exit code.
"""

import os
import signal
import socket
import sys
from contextlib import suppress
from typing import NoReturn


def main() -> NoReturn:
    """Serve; exit with 0 after the parent and the last processor, else with the error's own code."""
    # If SIGTERM goes to the whole group, the parent gets it, too, and ends this process after the daemon.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        parent = os.pidfd_open(int(sys.argv[2]))
    except ProcessLookupError:
        os._exit(0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    listener = socket.socket(fileno=int(sys.argv[1]))
    listener.set_inheritable(False)
    # structlog would import rich to render tracebacks, which only costs memory here.
    sys.modules.setdefault("rich", None)  # type: ignore[arg-type] # None makes the import fail (importlib)
    from consumer.exit_line import exit_line  # noqa: PLC0415 - after the guard
    from minutebook.logs import configure_logging  # noqa: PLC0415 - after the guard

    configure_logging()
    code = exit_line(lambda: _serve(listener, parent))
    with suppress(OSError):  # without its parent nobody reads stderr
        sys.stderr.flush()
    os._exit(code)


def _serve(listener: socket.socket, parent: int) -> None:
    from consumer.forks.loaded import serve_forks  # noqa: PLC0415 - after the guard; half a second

    serve_forks(listener, dict(zip(sys.argv[3::2], sys.argv[4::2], strict=True)), parent)


if __name__ == "__main__":
    main()
