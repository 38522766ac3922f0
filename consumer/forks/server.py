"""The fork server's loop, in one thread: fork a processor for each stub, and send the stub its exit code.

    a stub connects, sends its stdin, stdout and stderr,
      its file, and in a fleet the name of its stream ....... a processor is forked on them
    a processor ends ........................................ its stub gets the exit code: 128 + n for signal n
    a stub is gone .......................................... its processor is killed: the daemon closed its pipes
    the supervisor is gone .................................. no new stubs; the server ends after its last processor,
                                                              or after the time that the daemon gives them

Killing a processor is always safe: commits are atomic. Processors die with this process (see `child`).
"""

import errno
import os
import select
import signal
import socket
import struct
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import structlog

from consumer.forks.stub import REQUEST
from minutebook.clock import SystemClock

PIPES: Final = 3
_LONGEST_REQUEST: Final = 8192
"""More than a file's name and a path can have bytes together (255 and 4,096)."""
_SIGNALLED: Final = 128
_PAUSE_SECONDS: Final = 0.5
_FAREWELL_SECONDS: Final = 60
"""More than twice the time that the daemon gives its processors to commit; a processor that hangs is killed then."""
_CREDENTIALS: Final = struct.Struct("3i")
"""struct ucred (unix(7)): pid, uid, gid."""
_CAUGHT: Final = frozenset({signal.SIGCHLD})
_monotonic: Final = SystemClock().monotonic
_unread: Final = suppress(OSError)
"""Around each log line: its reader may be gone, and the processors must still commit."""


@dataclass(frozen=True, slots=True)
class Pipes:
    """A stub's stdin, stdout and stderr, as descriptors of this process."""

    stdin: int
    stdout: int
    stderr: int


class ForkServer:
    """Serves a listening socket. `become` is called in each new process with its pipes, its stream's name and file.

    Main thread only: it owns SIGCHLD. `parent` is the supervisor's pidfd (pidfd_open(2)).
    """

    def __init__(
        self,
        listener: socket.socket,
        become: Callable[[Pipes, str, str], None],
        parent: int,
        *,
        farewell_seconds: float = _FAREWELL_SECONDS,
    ) -> None:
        self._listener: socket.socket | None = listener
        self._become = become
        self._parent = parent
        self._farewell_seconds = farewell_seconds
        self._ends_at: float | None = None
        self._pending: dict[int, socket.socket] = {}
        """Connections without a processor, by descriptor."""
        self._stubs: dict[int, socket.socket] = {}
        """The processors' stubs, by descriptor."""
        self._processors: dict[int, int] = {}
        """The descriptor of each processor's stub, by the processor's pid."""
        self._streams: dict[int, str] = {}
        """The stream of each processor, by its pid; empty if the worker has one."""
        self._poll = select.poll()
        self._wake, self._woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def run(self) -> None:
        """Serve until the parent and the last processor have ended, or the time for that is over."""
        for number in _CAUGHT:
            signal.signal(number, _wake_up)
        signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)
        for descriptor in (self._wake, self._parent, self._open_listener().fileno()):
            self._poll.register(descriptor, select.POLLIN)
        while self._listener is not None or self._processors:
            remaining = None if self._ends_at is None else self._ends_at - _monotonic()
            if remaining is not None and remaining <= 0:
                return
            for descriptor, _ in self._poll.poll(None if remaining is None else remaining * 1000):
                self._serve(descriptor)

    def _serve(self, descriptor: int) -> None:
        if descriptor == self._wake:
            with suppress(BlockingIOError):
                os.read(self._wake, 4096)
            self._reap()
        elif descriptor == self._parent:
            self._stop_listening()
        elif descriptor in self._stubs:
            self._drop_stub(descriptor)
        elif descriptor in self._pending:
            self._answer(descriptor)
        elif self._listener is not None and descriptor == self._listener.fileno():
            self._admit(self._listener)

    def _admit(self, listener: socket.socket) -> None:
        """Accept a connection, only of our own user."""
        try:
            connection = listener.accept()[0]
        except OSError as exc:  # descriptors or memory are short until other processors end
            with _unread:
                structlog.get_logger().error("fork_failed", error=f"a stub waits: {exc}", next_step=_MORE)
            select.select([self._wake], [], [], _PAUSE_SECONDS)
            return
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        if _CREDENTIALS.unpack(credentials)[1] != os.getuid():
            connection.close()
            return
        connection.setblocking(False)
        self._pending[connection.fileno()] = connection
        self._poll.register(connection, select.POLLIN)

    def _answer(self, descriptor: int) -> None:
        """Fork a processor on the pipes that a stub sends; close a connection that sends anything else."""
        try:
            request = _receive(self._pending[descriptor])
        except BlockingIOError:  # the event belongs to an earlier connection with this descriptor
            return
        connection = self._pending.pop(descriptor)
        if request is None:
            self._poll.unregister(connection)
            connection.close()
            return
        pipes, stream, file = request
        try:
            if len(pipes) != PIPES:
                raise OSError(errno.EMFILE, "descriptors are short")  # noqa: TRY301 - handled as a failed fork
            pid = self._fork(Pipes(*pipes), stream, file)
        except OSError as exc:
            error = f"no process could be made: {exc.strerror}"
            with _unread:
                structlog.get_logger().error("fork_failed", error=error, next_step=_MORE, exit_code=1)
            self._poll.unregister(connection)
            _send_code(connection, 1)
        else:
            self._stubs[connection.fileno()] = connection
            self._processors[pid] = connection.fileno()
            self._streams[pid] = stream
        finally:
            for pipe in pipes:
                os.close(pipe)

    def _fork(self, pipes: Pipes, stream: str, file: str) -> int:
        """Return the pid of a new processor; in the new process, become it."""
        # Until the child has set its own dispositions, a signal would run our handlers in it.
        signal.pthread_sigmask(signal.SIG_BLOCK, _CAUGHT)
        try:
            pid = os.fork()
            if pid == 0:
                try:
                    self._become(pipes, stream, file)
                except BaseException:  # noqa: BLE001 - a child that returns would be a second server
                    traceback.print_exc()
                finally:
                    os._exit(1)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _CAUGHT)
        return pid

    def _reap(self) -> None:
        """Send the exit codes of ended processors to their stubs."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            code = os.waitstatus_to_exitcode(status)
            # For the supervisor: the processor's own last line comes through the daemon, if at all.
            stream = self._streams.pop(pid, "")
            named = {"properties": stream} if stream else {}
            with _unread:
                structlog.get_logger().debug("processor_reaped", pid=pid, exit_code=code, **named)
            connection = self._stubs.pop(self._processors.pop(pid, -1), None)
            if connection is not None:
                with suppress(KeyError):  # `_drop_stub` may have done it
                    self._poll.unregister(connection)
                _send_code(connection, code if code >= 0 else _SIGNALLED - code)

    def _drop_stub(self, descriptor: int) -> None:
        """Kill the processor of a stub that is gone; `_reap` does the rest."""
        self._poll.unregister(descriptor)
        for pid, stub in self._processors.items():
            if stub == descriptor:
                os.kill(pid, signal.SIGKILL)

    def _stop_listening(self) -> None:
        self._ends_at = _monotonic() + self._farewell_seconds
        self._poll.unregister(self._parent)
        listener = self._open_listener()
        self._poll.unregister(listener)
        listener.close()
        self._listener = None
        while self._pending:
            connection = self._pending.popitem()[1]
            self._poll.unregister(connection)
            connection.close()

    def _open_listener(self) -> socket.socket:
        if self._listener is None:
            raise AssertionError("the listener is closed")
        return self._listener


def _wake_up(_number: int, _frame: object) -> None:
    """Do nothing: with a Python handler, the signal is written to the wakeup descriptor that the loop reads."""


_MORE: Final = "give the task more processes, descriptors or memory: one shard takes two processes"


def _receive(connection: socket.socket) -> tuple[list[int], str, str] | None:
    """Return the descriptors, the stream's name and the file that a stub has sent; None if it is gone.

    Raises BlockingIOError if none came yet.
    """
    try:
        message, descriptors, _, _ = socket.recv_fds(connection, _LONGEST_REQUEST, PIPES)
    except BlockingIOError:
        raise
    except OSError:
        return None
    if message.startswith(REQUEST):
        stream, _, file = os.fsdecode(message.removeprefix(REQUEST)).partition("\0")
        return descriptors, stream, file
    for descriptor in descriptors:
        os.close(descriptor)
    return None


def _send_code(connection: socket.socket, code: int) -> None:
    """Send a stub its exit code; it may be gone."""
    with suppress(OSError):
        connection.send(b"%d\n" % code)
    connection.close()
