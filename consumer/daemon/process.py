"""Processes of one run, the daemon and its fork server: tied to their parent, output passed on, reaped as a group."""

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
"""KCL logs a malformed aggregate of 1 MiB in a line of up to 20 MB; a longer line is read in pieces."""
_DRAIN_SECONDS: Final = 5
_DESCRIPTORS: Final = 65_536


def allow_descriptors() -> None:
    """Raise the limit of open descriptors, for this process and its children, as far as the hard limit allows.

    Each shard takes one descriptor here and one in the fork server; many hosts have a limit of 1,024.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def daemon_command(java: Path, classes: Classes, properties: Path, logback: Path) -> list[str]:
    """Return the command line of the daemon.

    `file.encoding`: the daemon reads and writes its children's lines in the JVM's default charset; under LANG=C
    partition keys beyond ASCII would arrive damaged. `ExitOnOutOfMemoryError`: after an OutOfMemoryError KCL would
    take the batch for done and deliver the next one (docs/decisions/0015-poison-aggregates.md).
    """
    class_path = os.pathsep.join(map(str, [*classes.path, properties.parent]))
    return [
        *(str(java), "-XX:+ExitOnOutOfMemoryError", "-Dfile.encoding=UTF-8", *classes.options),
        *("-cp", class_path, MAIN_CLASS),
        *("--properties-file", str(properties), "--log-configuration", str(logback)),
    ]


class ChildOutput(NamedTuple):
    """Sinks of a program's lines, and the functions that rewrite each line first."""

    stdout: BinaryIO
    stderr: BinaryIO
    on_output: Callable[[bytes], bytes]
    on_line: Callable[[bytes], bytes]


class Child:
    """A running program, in a session of its own: a Ctrl-C at our terminal does not reach it or its children.

    Each line of its stdout goes through `on_output` to `stdout`, each line of its stderr through `on_line` to
    `stderr`. Start it from a thread that lives as long as the program should (see `consumer/daemon/parent_death.py`).
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        output: ChildOutput,
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
        """The process id, which is not reused before `reap`."""
        return self._process.pid

    def has_ended(self) -> bool:
        """Return whether the program has ended, without reaping it."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None

    def has_ended_in_order(self) -> bool:
        """Return whether the program has ended with 0 or by SIGTERM, without reaping it."""
        info = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        in_order = {(os.CLD_EXITED, 0), (os.CLD_KILLED, signal.SIGTERM)}
        return info is not None and (info.si_code, info.si_status) in in_order

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


def _pump(pipe: IO[bytes] | None, sink: BinaryIO, on_line: Callable[[bytes], bytes]) -> threading.Thread:
    """Start a thread that passes lines on; `on_line` gets each line before the sink does."""
    if pipe is None:  # pragma: no cover - Popen was called with PIPE
        raise AssertionError("no pipe")

    def run() -> None:
        is_open = True
        with pipe:
            while line := pipe.readline(_LINE_LIMIT):
                output = on_line(line)
                if is_open and output:
                    is_open = _write(sink, output)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


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
