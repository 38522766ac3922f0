"""The fork server as a program: `python -P -m consumer.forks.program LISTENER PROPERTIES PARENT`.

LISTENER is the descriptor of a listening socket, made by whoever starts it (consumer/daemon/fork_server.py), PARENT
the pid of that one. What prevents its start ends it as it would end a processor: with the same last line and the
same exit code.
"""

import os
import signal
import socket
import sys
from contextlib import suppress
from typing import NoReturn


def main() -> NoReturn:
    """Serve until nobody needs it. Exit codes: 0 after parent and last processor, else the error's own."""
    # Where a whole group is told to stop, its parent is, too, and ends it behind the daemon.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        parent = os.pidfd_open(int(sys.argv[3]))
    except ProcessLookupError:
        os._exit(0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    listener = socket.socket(fileno=int(sys.argv[1]))
    listener.set_inheritable(False)
    # structlog renders tracebacks with rich where it finds it; in these processes that is memory for nothing.
    sys.modules.setdefault("rich", None)  # type: ignore[arg-type] # None makes the import fail (importlib)
    from consumer.exit_line import exit_line  # noqa: PLC0415 - after the guard
    from minutebook.logs import configure_logging  # noqa: PLC0415 - after the guard

    configure_logging()
    code = exit_line(lambda: _serve(listener, parent))
    with suppress(OSError):  # behind its parent nobody reads what is left of the last line
        sys.stderr.flush()
    os._exit(code)


def _serve(listener: socket.socket, parent: int) -> None:
    from consumer.forks.loaded import serve_forks  # noqa: PLC0415 - after the guard; half a second

    serve_forks(listener, sys.argv[2], parent)


if __name__ == "__main__":
    main()
