"""What the daemon starts for each shard: it has a processor forked, and lives as long as that one does.

    daemon --starts--> stub --its pipes--> fork server --forks--> processor, on the stub's pipes
    daemon <---exit code--- stub <---exit code--- fork server <---dies---

The daemon closes a child's pipes when the child has exited (java.lang.ProcessImpl), so the stub waits for its
processor. It waits as /bin/sh, a tenth of Python's memory. When the stub is killed, the fork server kills the
processor; when the fork server is gone, so is the processor, and the stub ends.

Runs as `python -I -S stub.py`: nothing of ours is imported, no site, and of Python's own modules those alone that are
compiled into it. `signal` loads `enum` and what that needs, which takes longer than Python itself: 8 ms of CPU, and
`os` one more. The fork server's address is in the environment: the daemon splits its command at blanks.
"""

import _signal  # type: ignore[import-not-found] # typeshed has none of it
import _socket
import posix
import sys
import time

SOCKET_VARIABLE = "MINUTEBOOK_FORK_SERVER"
REQUEST = b"p"
GONE = 70
"""The exit code when the fork server is gone, and its processors with it."""
_SHELL = "/bin/sh"
_WAIT = f'read -r code || exit {GONE}; exit "$code"'


def main() -> None:
    """Ask for a processor, then wait for its exit code and end with it."""
    # As the processor: the daemon alone decides about the end. Both stay ignored as the shell.
    _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
    _signal.signal(_signal.SIGTERM, _signal.SIG_IGN)
    path = posix.environ.get(SOCKET_VARIABLE.encode(), b"")
    try:
        connection = connect(path)
        rights = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
        connection.sendmsg([REQUEST], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
    except OSError as exc:
        say_unreachable(path, exc)
        sys.exit(1)
    # The processor alone holds the pipes of the protocol from now on.
    posix.dup2(connection.fileno(), 0)
    posix.dup2(2, 1)
    connection.close()
    try:
        posix.execv(_SHELL, [_SHELL, "-c", _WAIT, "minutebook-stub"])
    except OSError:  # an image without a shell
        sys.exit(int(posix.read(0, 16) or GONE))


def connect(path: bytes) -> "_socket.socket":
    """Return a connection to the socket at `path`, however long that is: an address holds 107 bytes.

    Raises:
        OSError: there is none, or nobody listens.
    """
    parent, slash, name = path.rpartition(b"/")
    folder = posix.open(parent + slash or b".", posix.O_PATH | posix.O_DIRECTORY)
    try:
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        connection.connect(b"/proc/self/fd/%d/%b" % (folder, name))
    finally:
        posix.close(folder)
    return connection


def say_unreachable(path: bytes, error: OSError) -> None:
    """Print the line that a processor prints when it fails; the supervisor reads it."""
    pid, now = posix.getpid(), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    text = f"the fork server cannot be reached at {path.decode(errors='replace')!r}: {error.strerror or error}"
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    step = "look for the fork server's own lines; if it happens again, set minutebook.forkServer=false"
    sys.stderr.write(
        f'{{"pid": {pid}, "kind": "StubError", "error": "{quoted}", "next_step": "{step}", "exit_code": 1, '
        f'"event": "processor_failed", "level": "error", "timestamp": "{now}"}}\n'
    )


if __name__ == "__main__":
    main()
