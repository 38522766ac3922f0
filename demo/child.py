"""A child process that dies with its parent: its log in a file, started, watched and reaped here."""

import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from consumer.daemon.parent_death import tied_to_parent
from minutebook.clock import Clock
from minutebook.errors import MinutebookError

_LOG_TAIL_BYTES = 2000


class Child:
    """One running program. It dies with this process (see `consumer.daemon.parent_death`), and never sees our Ctrl-C.

    The environment is given whole: nothing of ours, such as real credentials, leaks into it. `last_words` picks
    what an error quotes of the log; by default its end.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        clock: Clock,
        environment: Mapping[str, str],
        last_words: Callable[[bytes], str] | None = None,
    ) -> None:
        self.name = name
        self.log = log
        self._clock = clock
        self._last_words = last_words or _tail
        with log.open("ab") as sink:
            self._process = subprocess.Popen(
                tied_to_parent(command, signal.SIGKILL),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process id; it stays ours until `wait` has reaped it."""
        return self._process.pid

    def returncode(self) -> int | None:
        """Return the exit code, None while it runs."""
        return self._process.poll()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens when the child has ended."""
        self._process.send_signal(number)

    def stop(self, *, grace_seconds: float) -> int:
        """Ask with SIGTERM, insist with SIGKILL, reap; returns the exit code."""
        self._process.terminate()
        try:
            return self._process.wait(grace_seconds)
        except subprocess.TimeoutExpired:
            return self.kill()

    def kill(self) -> int:
        """Send SIGKILL and reap; returns the exit code."""
        self._process.kill()
        return self._process.wait()

    def wait_until(self, ready: Callable[[], bool], *, seconds: float) -> None:
        """Wait for `ready()`.

        Raises:
            MinutebookError: the child ended, or was not ready in time; with the end of its log.
        """
        deadline = self._clock.monotonic() + seconds
        while not ready():
            code = self.returncode()
            if code is not None:
                raise self._failure(f"ended with exit code {code} while it started")
            if self._clock.monotonic() > deadline:
                raise self._failure(f"was not ready within {seconds:.0f} s")
            self._clock.sleep(0.05)

    def _failure(self, what: str) -> MinutebookError:
        last_words = self._last_words(self.log.read_bytes())
        return MinutebookError(f"{self.name} {what}: {last_words}", next_step=f"read {self.log}")


def _tail(log: bytes) -> str:
    return log[-_LOG_TAIL_BYTES:].decode(errors="replace").strip()
