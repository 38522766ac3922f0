"""The MultiLangDaemon's protocol: kclpy's process loop with a typed decoder, in which no exception is swallowed.

The daemon writes one JSON object per line and waits for one `status` line per action; in between the processor
may request a checkpoint. kclpy's loop and checkpointer are kept. Three things are replaced:

- reading and decoding: `consumer.pipe` takes a fraction of the time and memory;
- errors: kclpy catches what a callback raises, prints it and still answers OK, which skips the records
  (amazon_kclpy/kcl.py, `_perform_action`). Here every exception ends the loop and the process;
- the end of input in the middle of a checkpoint has its own error.
"""

import sys
from collections.abc import Callable
from typing import IO, Any, BinaryIO, Final, NamedTuple, Protocol

import msgspec
from amazon_kclpy import kcl, messages

from consumer.pipe.line_reader import LineReader
from consumer.pipe.messages import (
    Action,
    CheckpointAnswer,
    Delivery,
    Initialize,
    LeaseLostMessage,
    ShardEnded,
    ShutdownRequested,
    read_message,
)
from consumer.pipe.pieces import PROTOCOL_STEP
from minutebook.errors import DaemonGone, DeliveryDoubt

_LINE_BREAK: Final = ord("\n")
MAX_MESSAGE_BYTES: Final = 512 << 20
"""The longest message. One GetRecords answer (10 MB) makes 20 MB of JSON, a dense KPL aggregate far more."""


class Checkpointer(Protocol):
    """kclpy's checkpointer: one request to the daemon and its answer.

    Raises kclpy's `CheckpointError`, whose `value` is the simple name of KCL's exception.
    """

    def checkpoint(self, sequence_number: str | None = None, sub_sequence_number: int | None = None) -> None:
        """Checkpoint at a position; without arguments at the end of what was delivered (SHARD_END at the end)."""
        ...


class DeliveredBatch(NamedTuple):
    """The argument of `process_records`. The delivery can be read once."""

    delivery: Delivery
    checkpointer: Checkpointer


class ShutdownInput(NamedTuple):
    """The argument of `shard_ended` and `shutdown_requested`."""

    checkpointer: Checkpointer


class Processor(Protocol):
    """kclpy's v3 processor interface, as this loop calls it."""

    version: int

    def initialize(self, initialize_input: Initialize) -> None:
        """Start on a shard."""
        ...

    def process_records(self, process_records_input: DeliveredBatch) -> None:
        """Take a batch, which may be empty."""
        ...

    def lease_lost(self, lease_lost_input: LeaseLostMessage) -> None:
        """Fall silent."""
        ...

    def shard_ended(self, shard_ended_input: ShutdownInput) -> None:
        """Prove the end and checkpoint it."""
        ...

    def shutdown_requested(self, shutdown_requested_input: ShutdownInput) -> None:
        """Commit the held records and checkpoint."""
        ...


class _Channel:
    """Both directions of the pipe, with the interface of kclpy's I/O handler."""

    def __init__(self, stdin: BinaryIO, stdout: BinaryIO, error_file: IO[str]) -> None:
        self._lines = LineReader(stdin, MAX_MESSAGE_BYTES)
        self._stdout = stdout
        self.error_file = error_file

    def read_line(self) -> memoryview:
        """Return the next line, empty at the end of input, and release the last one.

        Raises DaemonGone if the pipe cannot be read.
        """
        try:
            return self._lines.next_line()
        except OSError as exc:
            raise _gone("cannot be read", exc) from exc

    def load_action(self, line: memoryview) -> Action | Delivery | messages.CheckpointInput:
        """Decode one line; raises DeliveryDoubt, which names the field, if the line is none."""
        if not line or line[-1] != _LINE_BREAK:
            if len(line) >= MAX_MESSAGE_BYTES:
                raise DeliveryDoubt(
                    f"the daemon sent a message longer than {MAX_MESSAGE_BYTES} bytes",
                    next_step="lower maxRecords in the properties file",
                )
            raise DeliveryDoubt(
                f"the daemon's input ended in the middle of a message ({len(line)} bytes)",
                next_step="the daemon is gone; its supervisor restarts it, and the records are delivered again",
            )
        message = read_message(line)
        if not isinstance(message, CheckpointAnswer):
            return message
        # kclpy's checkpointer looks for its own class.
        return messages.CheckpointInput(
            {
                "sequenceNumber": message.sequence_number,
                "subSequenceNumber": message.sub_sequence_number,
                "error": message.error,
            }
        )

    def write_action(self, response: dict[str, Any]) -> None:
        """Send one message between line breaks, as kclpy does, so that a stray half line cannot merge with it.

        Raises DaemonGone if it could not be sent completely.
        """
        message = b"\n" + msgspec.json.encode(response) + b"\n"
        try:
            sent = self._stdout.write(message)
            self._stdout.flush()
        except OSError as exc:
            raise _gone("takes no answer", exc) from exc
        if sent != len(message):  # only a non-blocking pipe takes less, or returns None
            raise _gone(f"took {sent or 0} bytes of {len(message)}", "it was set to O_NONBLOCK")


def _gone(what: str, why: object) -> DaemonGone:
    return DaemonGone(
        f"the pipe to the daemon {what}: {why}",
        next_step="look why the daemon ended or what else uses its pipes; uncommitted records are delivered again",
    )


class _StrictProcess(kcl.KCLProcess):  # type: ignore[misc] # kclpy is untyped
    """kclpy's loop without its `except Exception`."""

    def __init__(self, processor: Processor, channel: _Channel, after_batch: Callable[[], None]) -> None:
        super().__init__(processor, error_file=channel.error_file)
        self._after_batch = after_batch
        self.io_handler = channel
        self.checkpointer = kcl.Checkpointer(channel)

    def run(self) -> None:
        """Serve until the end of input. kclpy's own loop would use a line after it was released."""
        while line := self.io_handler.read_line():
            self._handle_a_line(line)

    def _perform_action(self, action: Action | Delivery | messages.CheckpointInput) -> None:
        match action:
            case Delivery():
                self.processor.process_records(DeliveredBatch(action, self.checkpointer))
                self._after_batch()
            case Initialize():
                self.processor.initialize(action)
            case LeaseLostMessage():
                self.processor.lease_lost(action)
            case ShardEnded():
                self.processor.shard_ended(ShutdownInput(self.checkpointer))
            case ShutdownRequested():
                self.processor.shutdown_requested(ShutdownInput(self.checkpointer))
            case _:
                raise DeliveryDoubt("an answer to a checkpoint that was not requested", next_step=PROTOCOL_STEP)


def run_process(
    processor: Processor,
    stdin: BinaryIO,
    stdout: BinaryIO,
    error_file: IO[str] | None = None,
    *,
    after_batch: Callable[[], None] = lambda: None,
) -> None:
    """Serve the daemon until it closes the input. Exceptions of the processor are raised from here.

    `stdout` carries the protocol and nothing else.
    """
    _StrictProcess(processor, _Channel(stdin, stdout, error_file or sys.stderr), after_batch).run()
