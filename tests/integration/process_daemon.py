"""The daemon double over real pipes: it starts `minutebook-processor` and speaks to it as the daemon does.

The rules of leases and checkpoints are `tests.fakes.daemon_double`'s. The shard is a fake, because only a fake gives
any position and arrival time; the stream that the processor asks for its identity, and S3, are real servers.
"""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, cast

from tests.fakes.daemon_double import DaemonDouble, Lease
from tests.fakes.wire import Wire
from tests.witness.events import EventLog
from tests.witness.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from consumer.processor.protocol import Processor

PROGRAM = Path(sys.executable).parent / "minutebook-processor"


class ProcessorEndedError(Exception):
    """The process ended while an answer was due. `code` is its exit code, negative for a signal."""

    def __init__(self, code: int) -> None:
        super().__init__(f"the processor ended with {code}")
        self.code = code


class ProcessDaemon(DaemonDouble):
    """One processor process on one shard. Leaving the `with` block kills and reaps it.

    `kill_at_checkpoint` SIGKILLs it when it next asks for a checkpoint: "before" the lease row is written, or
    "after" it, with the answer lost. `command` is what the daemon starts: the program, unless told.
    """

    def __init__(
        self, lease: Lease, properties: Path, environment: Mapping[str, str], command: Sequence[str] | None = None
    ) -> None:
        super().__init__(lease, cast("Processor", None))  # it lives in the other process
        self.kill_at_checkpoint: Literal["before", "after"] | None = None
        self.process = subprocess.Popen(
            [PROGRAM, properties] if command is None else command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environment),
            start_new_session=True,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._to, self._from = self.process.stdin, self.process.stdout
        self.events = EventLog(self.process.stderr)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        with suppress(BrokenPipeError):
            self._to.close()
        self._from.close()

    def run(self, messages: Iterable[Callable[[], bytes]]) -> None:
        """Send the messages, one turn each.

        Raises:
            ProcessorEndedError: it ended instead of answering.
        """
        assert self.alive, "the processor is dead"
        wire = Wire(iter(messages), self._answer_checkpoint)
        self.alive = False
        while line := wire.readline():
            self._send(line)
            while wire.is_waiting():
                printed = self._from.readline()
                if not printed:
                    raise ProcessorEndedError(self.wait())
                wire.write(printed)
        self.alive = True

    def send(self, line: bytes, *, then_close: bool = False) -> None:
        """Send one line as it is; `then_close`: and end the input, as for a daemon that dies while it writes."""
        if then_close:
            self._send(line)
            raise ProcessorEndedError(self.close())
        super().send(line)

    def close(self) -> int:
        """Close the input, as a daemon that ends does; return the exit code."""
        self._to.close()
        return self.wait()

    def kill(self) -> int:
        """SIGKILL and reap; return the exit code."""
        if self.process.poll() is None:
            self.process.kill()
        return self.wait()

    def wait(self) -> int:
        """Return the exit code once the process has ended and its log is read."""
        code = self.process.wait(PATIENCE_SECONDS)
        self.events.join()
        return code

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        self.process.send_signal(number)

    def _send(self, line: bytes) -> None:
        try:
            self._to.write(line)
            self._to.flush()
        except BrokenPipeError:
            raise ProcessorEndedError(self.wait()) from None

    def _answer_checkpoint(self, action: str | None, message: dict[str, Any]) -> bytes:
        when = self.kill_at_checkpoint
        if when == "before":
            raise ProcessorEndedError(self.kill())
        answer = super()._answer_checkpoint(action, message)
        if when == "after":
            raise ProcessorEndedError(self.kill())
        return answer
