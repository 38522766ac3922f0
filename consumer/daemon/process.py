"""Processes of one run, the daemon and its fork server: tied to their parent, output passed on, reaped as a group."""

import fcntl
import os
import resource
import select
import signal
import subprocess
import termios
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, BinaryIO, Final, NamedTuple

import structlog

from consumer.daemon.parent_death import tied_to_parent
from consumer.daemon.prepared.classes import FLEET_CLASS, MAIN_CLASS, Classes

_LINE_LIMIT: Final = 32 << 20
"""KCL logs a malformed aggregate of 1 MiB in a line of up to 20 MB; a longer line is read in pieces."""
_CHUNK: Final = 65_536
_DRAIN_SECONDS: Final = 5
_DESCRIPTORS: Final = 65_536
_UNREAD: Final = (
    "if descriptors are short, raise the task's limit (ulimit -n); else this is a defect: report the stack"
)


def allow_descriptors() -> None:
    """Raise the limit of open descriptors, for this process and its children, as far as the hard limit allows.

    Each shard takes one descriptor here and one in the fork server; many hosts have a limit of 1,024.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def daemon_command(java: Path, flags: Sequence[str], classes: Classes, properties: Path, logback: Path) -> list[str]:
    """Return the command line of the daemon; `flags` are those of `consumer.daemon.prepared.jvm_flags`.

    `file.encoding`: the daemon reads and writes its children's lines in the JVM's default charset; under LANG=C
    partition keys beyond ASCII would arrive damaged. `ExitOnOutOfMemoryError`: after an OutOfMemoryError KCL would
    take the batch for done and deliver the next one (docs/decisions/0015-poison-aggregates.md).
    """
    arguments = ["--properties-file", str(properties), "--log-configuration", str(logback)]
    return [*_jvm(java, flags, classes, properties.parent), MAIN_CLASS, *arguments]


def fleet_command(
    java: Path, flags: Sequence[str], classes: Classes, state: Path, logback: Path, grace_seconds: float
) -> list[str]:
    """Return the command line of a fleet's daemon (FleetDaemon.java)."""
    arguments = [str(logback), str(round(grace_seconds * 1000))]
    return [*_jvm(java, flags, classes, state), FLEET_CLASS, *arguments]


def _jvm(java: Path, flags: Sequence[str], classes: Classes, state: Path) -> list[str]:
    class_path = os.pathsep.join(map(str, [*classes.path, state]))
    must = ("-XX:+ExitOnOutOfMemoryError", "-Dfile.encoding=UTF-8")
    return [str(java), *must, *flags, *classes.options, "-cp", class_path]


class ChildOutput(NamedTuple):
    """Sinks of a program's lines, and the functions that rewrite each line first."""

    stdout: BinaryIO
    stderr: BinaryIO
    on_output: Callable[[bytes], bytes]
    on_line: Callable[[bytes], bytes]


class Child:
    """A running program, in a session of its own: a Ctrl-C at our terminal does not reach it or its children.

    Each line of its stdout goes through `on_output` to `stdout`, each line of its stderr through `on_line` to
    `stderr`. `takes_commands`: `tell` writes to its stdin. Start it from a thread that lives as long as the program
    should (see `consumer/daemon/parent_death.py`).
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        output: ChildOutput,
        keep_open: Sequence[int] = (),
        *,
        takes_commands: bool = False,
    ) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own command line
            # SIGTERM: the daemon then lets its processors commit, and the fork server waits for them.
            tied_to_parent(command, signal.SIGTERM),
            stdin=subprocess.PIPE if takes_commands else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environment),
            start_new_session=True,
            pass_fds=keep_open,
        )
        self.exit_descriptor = os.pidfd_open(self._process.pid)
        self._is_reaped = False
        self._reaping = threading.Lock()
        self._telling = threading.Lock()
        self._pumps = [
            Pump(self._process.stdout, output.stdout, output.on_output),
            Pump(self._process.stderr, output.stderr, output.on_line),
        ]

    @property
    def pid(self) -> int:
        """The process id, which is not reused before `reap`."""
        return self._process.pid

    def is_read_to_its_end(self) -> bool:
        """Return whether all that the program has written to its stdout by now was read, and each line was heeded.

        One of stderr that was not may have said that a processor began.
        """
        return not any(pump.has_failed for pump in self._pumps) and self._pumps[0].is_read_to_its_end()

    def has_told_its_errors(self) -> bool:
        """Return the same of its stderr."""
        return self._pumps[1].is_read_to_its_end()

    def has_ended(self) -> bool:
        """Return whether the program has ended, without reaping it."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None

    def has_ended_in_order(self) -> bool:
        """Return whether the program has ended with 0 or by SIGTERM, without reaping it."""
        info = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        in_order = {(os.CLD_EXITED, 0), (os.CLD_KILLED, signal.SIGTERM)}
        return info is not None and (info.si_code, info.si_status) in in_order

    def tell(self, line: bytes) -> None:
        """Write a line to the program's stdin, from any thread; a program that has ended is not told any more."""
        with self._telling, suppress(BrokenPipeError, ValueError):
            if self._process.stdin is not None:
                self._process.stdin.write(line)
                self._process.stdin.flush()

    def ask_to_stop(self) -> None:
        """Send SIGTERM to the program, not to its children."""
        os.kill(self.pid, signal.SIGTERM)  # not send_signal: it may reap

    def kill(self) -> None:
        """Send SIGKILL to the program and all of its children, from any thread; safe because commits are atomic."""
        with self._reaping:
            if not self._is_reaped:
                os.killpg(self.pid, signal.SIGKILL)

    def reap(self) -> int:
        """Kill the rest of the program's session, reap the program, and return its exit code.

        A processor that outlives a crashed daemon could only be a zombie writer. The process group is not reused
        before the program is reaped.
        """
        self.kill()
        with self._reaping:
            self._is_reaped = True
            code = self._process.wait()
        _reap_orphans(self.pid)
        if self._process.stdin is not None:
            with self._telling, suppress(BrokenPipeError):
                self._process.stdin.close()
        for pump in self._pumps:
            pump.join(_DRAIN_SECONDS)
        os.close(self.exit_descriptor)
        return code


class DaemonRun(NamedTuple):
    """A running daemon, and its fork server; None where the daemon starts each processor itself."""

    daemon: Child
    fork_server: Child | None

    @property
    def exit_descriptors(self) -> list[int]:
        """Pidfds: readable when the daemon has ended, or the fork server has failed."""
        return [
            child.exit_descriptor
            for child in self._children()
            if child is self.daemon or not child.has_ended_in_order()
        ]

    def has_lost_its_processors(self, *, is_stopping: bool) -> bool:
        """Return whether the fork server has ended, and every processor with it.

        During a stop it may end in order: after its last processor, or by SIGTERM before its first.
        """
        server = self.fork_server
        return server is not None and server.has_ended() and not (is_stopping and server.has_ended_in_order())

    def kill(self) -> None:
        """Send SIGKILL to all processes, from any thread; see `Child.kill`."""
        for child in self._children():
            child.kill()

    def reap(self) -> int:
        """Kill and reap all processes; return the daemon's exit code."""
        code, *_ = [child.reap() for child in self._children()]
        return code

    def _children(self) -> list[Child]:
        return [self.daemon] if self.fork_server is None else [self.daemon, self.fork_server]


class Pump:
    """A thread that passes a pipe's lines on; `on_line` gets each line before the sink does.

    An error of it costs nobody the pipe, whose writers would soon block: the line is passed on as it is. But nobody
    may say any more that all lines were heeded.
    """

    def __init__(self, pipe: IO[bytes] | None, sink: BinaryIO, on_line: Callable[[bytes], bytes]) -> None:
        if pipe is None:  # pragma: no cover - Popen was called with PIPE
            raise AssertionError("no pipe")
        self._pipe = pipe
        self._sink = sink
        self._on_line = on_line
        self._reading = threading.Lock()
        self._rest = bytearray()
        self._is_over = False
        self._is_open = True
        self.has_failed = False
        """A line was not heeded."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def join(self, seconds: float) -> None:
        """Wait for the pipe's end."""
        self._thread.join(seconds)

    def is_read_to_its_end(self) -> bool:
        """Return whether every byte that is in the pipe by now was read, and every line heeded; never waits."""
        if not self._reading.acquire(blocking=False):
            return False
        try:
            if self.has_failed:
                return False
            if self._is_over:
                return True
            waiting = fcntl.ioctl(self._pipe.fileno(), termios.FIONREAD, b"\0" * 4)
            return not self._rest and waiting == b"\0" * 4
        finally:
            self._reading.release()

    def _run(self) -> None:
        descriptor = self._pipe.fileno()
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        while not self._is_over:
            poll.poll()
            # Under the lock a byte is either in the pipe or its line was passed on.
            with self._reading:
                chunk = os.read(descriptor, _CHUNK)
                self._take(chunk)
                if not chunk:
                    self._pass(bytes(self._rest))
                    self._is_over = True
                    self._pipe.close()

    def _take(self, chunk: bytes) -> None:
        begin = 0
        while end := chunk.find(b"\n", begin) + 1:
            self._rest += chunk[begin:end]
            self._pass(bytes(self._rest))
            self._rest.clear()
            begin = end
        self._rest += chunk[begin:]
        if len(self._rest) >= _LINE_LIMIT:
            self._pass(bytes(self._rest))
            self._rest.clear()

    def _pass(self, line: bytes) -> None:
        try:
            output = self._on_line(line) if line else b""
        except Exception:  # noqa: BLE001 - logged; see above
            output = line
            if not self.has_failed:
                structlog.get_logger().exception("log_line_failed", next_step=_UNREAD)
            self.has_failed = True
        if self._is_open and output:
            self._is_open = _write(self._sink, output)


def _reap_orphans(group: int) -> None:
    """Reap the dead daemon's orphans, which only the first process of a container inherits."""
    try:
        while True:
            os.waitpid(-group, 0)
    except ChildProcessError:
        return


def _write(sink: BinaryIO, line: bytes) -> bool:
    """Write one line; return False if our output is closed, which must not block the daemon."""
    try:
        sink.write(line)
        sink.flush()
    except (OSError, ValueError):
        return False
    return True
