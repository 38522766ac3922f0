"""One run of the daemon and its fork server: tied to their parent, their output passed through, reaped whole."""

import os
import resource
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, BinaryIO, Final, NamedTuple

from consumer.daemon.parent_death import tied_to_parent
from consumer.daemon.prepared.classes import MAIN_CLASS, Classes

_LINE_LIMIT: Final = 32 << 20
"""KCL logs a malformed aggregate of 1 MiB in a line of up to 20 MB; a longer line comes in pieces."""
_DRAIN_SECONDS: Final = 5
_DESCRIPTORS: Final = 65_536


def allow_descriptors() -> None:
    """Raise this process's own limit of descriptors, and that of all it starts, as far as it may.

    Two for each shard, one here and one in the fork server; many hosts begin at 1,024.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def daemon_command(java: Path, classes: Classes, properties: Path, logback: Path) -> list[str]:
    """Return the command line of the daemon.

    `file.encoding`: the daemon reads and writes its children's lines in the JVM's default charset; under LANG=C
    partition keys beyond ASCII would arrive damaged. `ExitOnOutOfMemoryError`: KCL takes an OutOfMemoryError for a
    batch that is done, and delivers the next one (docs/decisions/0015-poison-aggregates.md).
    """
    class_path = os.pathsep.join(map(str, [*classes.path, properties.parent]))
    return [
        str(java),
        "-XX:+ExitOnOutOfMemoryError",
        "-Dfile.encoding=UTF-8",
        *classes.options,
        "-cp",
        class_path,
        MAIN_CLASS,
        "--properties-file",
        str(properties),
        "--log-configuration",
        str(logback),
    ]


class ChildOutput(NamedTuple):
    """Where a program's lines go; see `Child`."""

    stdout: BinaryIO
    stderr: BinaryIO
    on_output: Callable[[bytes], bytes]
    on_line: Callable[[bytes], bytes]


class Child:
    """A running program, in a session of its own: a Ctrl-C at our terminal does not reach it or its children.

    Each line of its stdout goes to `on_output`, and what that makes of it to `stdout`; each line of its stderr to
    `on_line`, and what that makes of it to `stderr`. Start it from a thread that lives as long as the program should
    (see `consumer/daemon/parent_death.py`).
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        output: ChildOutput,
        *,
        keep_open: Sequence[int] = (),
    ) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own command line
            # SIGTERM: the daemon then lets its processors commit, and the fork server waits for them.
            tied_to_parent(command, signal.SIGTERM),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environment),
            start_new_session=True,
            pass_fds=keep_open,
        )
        self.exit_descriptor = os.pidfd_open(self._process.pid)
        self._is_reaped = False
        self._reaping = threading.Lock()
        self._pumps = [
            _pump(self._process.stdout, output.stdout, output.on_output),
            _pump(self._process.stderr, output.stderr, output.on_line),
        ]

    @property
    def pid(self) -> int:
        """The process id; it stays ours until `reap`."""
        return self._process.pid

    def has_ended(self) -> bool:
        """Tell whether the program has ended; it is not reaped by this."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None

    def has_ended_in_order(self) -> bool:
        """Tell whether the program has ended with 0, or by SIGTERM; it is not reaped by this."""
        ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        in_order = {(os.CLD_EXITED, 0), (os.CLD_KILLED, signal.SIGTERM)}
        return ended is not None and (ended.si_code, ended.si_status) in in_order

    def ask_to_stop(self) -> None:
        """Send SIGTERM to the program alone."""
        os.kill(self.pid, signal.SIGTERM)  # not send_signal: it may reap

    def kill(self) -> None:
        """Send SIGKILL to the program and all of its children, from any thread.

        Safe at any moment: commits are atomic.
        """
        with self._reaping:
            if not self._is_reaped:
                os.killpg(self.pid, signal.SIGKILL)

    def reap(self) -> int:
        """Kill what is left of the program's session, reap the program, and return its exit code.

        A processor that outlived a crashed daemon would only be a zombie writer. While the ended program is not
        reaped its process group cannot be anybody else's.
        """
        self.kill()
        with self._reaping:
            self._is_reaped = True
            code = self._process.wait()
        _reap_orphans(self.pid)
        for pump in self._pumps:
            pump.join(_DRAIN_SECONDS)
        os.close(self.exit_descriptor)
        return code


class DaemonRun:
    """A running daemon, and the fork server that its processors come from; None where the daemon starts each."""

    def __init__(self, daemon: Child, fork_server: Child | None = None) -> None:
        self._daemon = daemon
        self._fork_server = fork_server

    @property
    def daemon_pid(self) -> int:
        """The daemon's process id."""
        return self._daemon.pid

    @property
    def fork_server_pid(self) -> int | None:
        """The fork server's process id; None without one."""
        return None if self._fork_server is None else self._fork_server.pid

    @property
    def exit_descriptors(self) -> list[int]:
        """What is readable when the daemon has ended, or the fork server other than in order."""
        return [
            child.exit_descriptor
            for child in self._children()
            if child is self._daemon or not child.has_ended_in_order()
        ]

    def has_ended(self) -> bool:
        """Tell whether the daemon has ended."""
        return self._daemon.has_ended()

    def has_lost_its_processors(self, *, is_stopping: bool) -> bool:
        """Tell whether the fork server has ended, and every processor with it.

        Where everybody was told to stop, it ends in order: behind its last processor, or by SIGTERM before its first.
        """
        server = self._fork_server
        return server is not None and server.has_ended() and not (is_stopping and server.has_ended_in_order())

    def ask_to_stop(self) -> None:
        """Send SIGTERM to the daemon alone: it asks its processors to commit, then ends with 143."""
        self._daemon.ask_to_stop()

    def kill(self) -> None:
        """Send SIGKILL to all of them, from any thread; see `Child.kill`."""
        for child in self._children():
            child.kill()

    def reap(self) -> int:
        """Kill what is left, reap it, and return the daemon's exit code."""
        code, *_ = [child.reap() for child in self._children()]
        return code

    def _children(self) -> list[Child]:
        return [self._daemon] if self._fork_server is None else [self._daemon, self._fork_server]


def _pump(pipe: IO[bytes] | None, sink: BinaryIO, on_line: Callable[[bytes], bytes]) -> threading.Thread:
    """Start passing lines on; whoever looks at a line sees it before the log does."""
    if pipe is None:  # pragma: no cover - PIPE was asked for
        raise AssertionError("no pipe")

    def run() -> None:
        audible = True
        with pipe:
            while line := pipe.readline(_LINE_LIMIT):
                passed_on = on_line(line)
                if audible and passed_on:
                    audible = _write(sink, passed_on)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def _reap_orphans(group: int) -> None:
    """Reap what the dead daemon left to us: only the first process of a container inherits orphans."""
    try:
        while True:
            os.waitpid(-group, 0)
    except ChildProcessError:
        return


def _write(sink: BinaryIO, line: bytes) -> bool:
    """Write one line; False when nobody reads our output any more, which is no reason to block the daemon."""
    try:
        sink.write(line)
        sink.flush()
    except (OSError, ValueError):
        return False
    return True
