"""The program that the daemon starts for each shard: it requests a processor, and ends with it.

    daemon --starts--> stub --its pipes--> fork server --forks--> processor, on the stub's pipes
    daemon <---exit code--- stub <---exit code--- fork server <---dies---

The daemon closes a child's pipes when the child has exited (java.lang.ProcessImpl), so the stub waits for its
processor, as /bin/sh, which takes a tenth of Python's memory. When the stub is killed, the fork server kills the
processor; when the fork server ends, its processors die, and the stub ends.

Runs as `python -I -S stub.py`: it imports nothing of ours, no site, and only modules that are compiled into Python.
`signal` loads `enum` and more, which takes longer than Python itself: 8 ms of CPU, and `os` one more. The fork
server's address is in the environment, because the daemon splits its command at blanks.
"""

import _signal  # type: ignore[import-not-found] # typeshed has none of it
import _socket
import posix
import sys
import time

SOCKET_VARIABLE = "MINUTEBOOK_FORK_SERVER"
STREAM_VARIABLE = "MINUTEBOOK_FLEET_STREAM"
"""In a fleet, the name of the processor's stream."""
FILE_VARIABLE = "MINUTEBOOK_PROPERTIES"
"""The processor's file; of a stream of a fleet that was opened later, the fork server knows no other."""
REQUEST = b"p"
"""What a stub sends; behind it the name of its stream, a zero byte, and the file."""
GONE = 70
"""The exit code when the fork server is gone, and its processors with it."""
_SHELL = "/bin/sh"
_WAIT = f'read -r code || exit {GONE}; exit "$code"'


def main() -> None:
    """Request a processor, then wait for its exit code and exit with it."""
    # As in the processor, because the daemon coordinates the stop. The shell inherits both.
    _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
    _signal.signal(_signal.SIGTERM, _signal.SIG_IGN)
    path = posix.environ.get(SOCKET_VARIABLE.encode(), b"")
    try:
        connection = connect(path)
        rights = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
        names = (posix.environ.get(name.encode(), b"") for name in (STREAM_VARIABLE, FILE_VARIABLE))
        request = REQUEST + b"\0".join(names)
        connection.sendmsg([request], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
    except OSError as exc:
        say_unreachable(path, exc, posix.environ.get(STREAM_VARIABLE.encode(), b""))
        sys.exit(1)
    # From now on only the processor holds the protocol's pipes.
    posix.dup2(connection.fileno(), 0)
    posix.dup2(2, 1)
    connection.close()
    try:
        posix.execv(_SHELL, [_SHELL, "-c", _WAIT, "minutebook-stub"])
    except OSError:  # an image without a shell
        sys.exit(int(posix.read(0, 16) or GONE))


def connect(path: bytes) -> "_socket.socket":
    """Return a connection to the socket at `path`, also beyond the 107 bytes of an address; raises OSError."""
    parent, slash, name = path.rpartition(b"/")
    folder = posix.open(parent + slash or b".", posix.O_PATH | posix.O_DIRECTORY)
    try:
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        connection.connect(b"/proc/self/fd/%d/%b" % (folder, name))
    finally:
        posix.close(folder)
    return connection


def say_unreachable(path: bytes, error: OSError, stream: bytes) -> None:
    """Print a failed processor's line, which the supervisor reads."""
    pid, now = posix.getpid(), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    text = f"the fork server cannot be reached at {path.decode(errors='replace')!r}: {error.strerror or error}"
    step = "look for the fork server's own lines; if it happens again, set minutebook.forkServer=false"
    named = f'"properties": "{quoted(stream.decode(errors="replace"))}", ' if stream else ""
    sys.stderr.write(
        f'{{"pid": {pid}, "kind": "StubError", {named}"error": "{quoted(text)}", "next_step": "{step}", '
        f'"exit_code": 1, "event": "processor_failed", "level": "error", "timestamp": "{now}"}}\n'
    )


def quoted(text: str) -> str:
    """Return a text as it stands between the quotes of JSON; control characters are not expected."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


if __name__ == "__main__":
    main()
