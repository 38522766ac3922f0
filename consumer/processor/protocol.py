"""The MultiLangDaemon's protocol: kclpy's process loop, with a typed decoder and nothing swallowed.

The daemon writes one JSON object per line and waits for one `status` line per action; in between the processor
may ask for a checkpoint. kclpy's loop and checkpointer are kept. Three things are replaced:

- decoding: a batch becomes `archive.format.record.Record`s in one pass, not an object per record made from a dict;
- errors: kclpy catches whatever a callback raises, prints it and still answers OK, which skips the records
  (amazon_kclpy/kcl.py, `_perform_action`). Here every exception leaves the loop, and the process with it;
- the end of input in the middle of a checkpoint is an error of its own.
"""

import re
import sys
from collections.abc import Sequence
from typing import IO, Any, BinaryIO, Final, NamedTuple, Protocol

import msgspec
from amazon_kclpy import kcl, messages

from archive.errors import DeliveryDoubt
from archive.format.position import is_sequence_number
from archive.format.record import Record, SubSequenceNumber

_SEQUENCE_NUMBERS = re.compile(r"(?:(?:0|[1-9][0-9]{0,128}),)*", re.ASCII)
MAX_MESSAGE_BYTES: Final = 512 << 20
"""Longest message that is read. One GetRecords answer (10 MB) makes 20 MB of JSON, a dense KPL aggregate far more."""

_PROTOCOL_STEP = "the line came from the MultiLangDaemon: compare the versions of amazon-kclpy and of its jars"


class Checkpointer(Protocol):
    """kclpy's checkpointer: one request to the daemon and its answer.

    Raises kclpy's `CheckpointError`, whose `value` is the simple name of KCL's exception.
    """

    def checkpoint(self, sequence_number: str | None = None, sub_sequence_number: int | None = None) -> None:
        """Checkpoint at a position; without arguments at the end of what was delivered (SHARD_END at the end)."""
        ...


class _Action(msgspec.Struct, tag_field="action", rename="camel"):
    """A message of the daemon."""

    @property
    def action(self) -> str:
        """The name that the answer must repeat."""
        return str(self.__struct_config__.tag)


class Initialize(_Action, tag="initialize"):
    """The first message: `sequence_number` is a number, or a sentinel such as TRIM_HORIZON."""

    shard_id: str
    sequence_number: str
    sub_sequence_number: SubSequenceNumber | None = None


class _ProcessRecords(_Action, tag="processRecords"):
    records: list[Record]
    millis_behind_latest: int | None = None


class LeaseLost(_Action, tag="leaseLost"):
    """A newer owner exists; no checkpoint is possible."""


class _ShardEnded(_Action, tag="shardEnded"):
    pass


class _ShutdownRequested(_Action, tag="shutdownRequested"):
    pass


class _CheckpointAnswer(_Action, tag="checkpoint"):
    sequence_number: str | None = None
    sub_sequence_number: int | None = None
    error: str | None = None


class Batch(NamedTuple):
    """What `process_records` is given. `millis_behind_latest` is None when KCL does not know."""

    records: list[Record]
    millis_behind_latest: int | None
    checkpointer: Checkpointer


class ShutdownInput(NamedTuple):
    """What `shard_ended` and `shutdown_requested` are given."""

    checkpointer: Checkpointer


_Message = Initialize | _ProcessRecords | LeaseLost | _ShardEnded | _ShutdownRequested | _CheckpointAnswer
_decode = msgspec.json.Decoder(_Message).decode


class Processor(Protocol):
    """kclpy's v3 processor interface, as this loop calls it."""

    version: int

    def initialize(self, initialize_input: Initialize) -> None:
        """Start on a shard."""
        ...

    def process_records(self, process_records_input: Batch) -> None:
        """Take a batch, which may be empty."""
        ...

    def lease_lost(self, lease_lost_input: LeaseLost) -> None:
        """Fall silent."""
        ...

    def shard_ended(self, shard_ended_input: ShutdownInput) -> None:
        """Prove the end and checkpoint it."""
        ...

    def shutdown_requested(self, shutdown_requested_input: ShutdownInput) -> None:
        """Commit what is held and checkpoint."""
        ...


class _Channel:
    """The two ends of the pipe, in the shape of kclpy's I/O handler."""

    def __init__(self, stdin: BinaryIO, stdout: BinaryIO, error_file: IO[str]) -> None:
        self._stdin = stdin
        self._stdout = stdout
        self.error_file = error_file

    def read_line(self) -> bytes:
        """Return the next line, or nothing at the end of input."""
        return self._stdin.readline(MAX_MESSAGE_BYTES)

    def load_action(self, line: bytes) -> _Action | messages.CheckpointInput:
        """Decode one line.

        Raises:
            DeliveryDoubt: the line is not a message of the protocol; the error names the field.
        """
        if not line.endswith(b"\n"):
            if len(line) >= MAX_MESSAGE_BYTES:
                raise DeliveryDoubt(
                    f"the daemon sent a message longer than {MAX_MESSAGE_BYTES} bytes",
                    next_step="lower maxRecords in the properties file",
                )
            raise DeliveryDoubt(
                f"the daemon's input ended in the middle of a message ({len(line)} bytes)",
                next_step="the daemon is gone; its supervisor starts it again and the records come again",
            )
        try:
            message = _decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
            raise DeliveryDoubt(f"malformed protocol line: {exc}", next_step=_PROTOCOL_STEP) from exc
        if isinstance(message, _ProcessRecords):
            _check_sequence_numbers(message.records)
        if not isinstance(message, _CheckpointAnswer):
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
        """Send one message, surrounded by line breaks as kclpy does: a stray half line cannot swallow it."""
        self._stdout.write(b"\n" + msgspec.json.encode(response) + b"\n")
        self._stdout.flush()


def _check_sequence_numbers(records: Sequence[Record]) -> None:
    """Raise DeliveryDoubt unless all are decimal as Kinesis writes them: in one match, 0.1 us per record."""
    if _SEQUENCE_NUMBERS.fullmatch("".join([f"{record.sequence_number}," for record in records])) is None:
        odd = next((record for record in records if not is_sequence_number(record.sequence_number)), None)
        raise DeliveryDoubt(
            f"malformed protocol line: not a sequence number: {None if odd is None else odd.sequence_number!r}",
            next_step=_PROTOCOL_STEP,
        )


class _StrictProcess(kcl.KCLProcess):  # type: ignore[misc] # kclpy is untyped
    """kclpy's loop without its `except Exception`."""

    def __init__(self, processor: Processor, channel: _Channel) -> None:
        super().__init__(processor, error_file=channel.error_file)
        self.io_handler = channel
        self.checkpointer = kcl.Checkpointer(channel)

    def _perform_action(self, action: _Action | messages.CheckpointInput) -> None:
        match action:
            case _ProcessRecords(records=records, millis_behind_latest=behind):
                self.processor.process_records(Batch(records, behind, self.checkpointer))
            case Initialize():
                self.processor.initialize(action)
            case LeaseLost():
                self.processor.lease_lost(action)
            case _ShardEnded():
                self.processor.shard_ended(ShutdownInput(self.checkpointer))
            case _ShutdownRequested():
                self.processor.shutdown_requested(ShutdownInput(self.checkpointer))
            case _:
                raise DeliveryDoubt("an answer to a checkpoint that nobody asked for", next_step=_PROTOCOL_STEP)


def run_process(processor: Processor, stdin: BinaryIO, stdout: BinaryIO, error_file: IO[str] | None = None) -> None:
    """Serve the daemon until it closes the input. Whatever the processor raises comes out of here.

    `stdout` carries the protocol and nothing else.
    """
    _StrictProcess(processor, _Channel(stdin, stdout, error_file or sys.stderr)).run()
