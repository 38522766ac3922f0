"""The pipe between the daemon and a processor: messages one way, answers the other, and whose turn it is."""

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

from tests.fakes.shard import UserRecord


class ProtocolViolationError(Exception):
    """The processor broke the protocol; the real daemon would exit 1, or hang."""


class LinesAsStdin:
    """What a processor reads from, made of the lines that `readline` returns."""

    _unread = b""
    _is_cut = False

    def readinto(self, free: memoryview) -> int:
        """Give what fits of the line that is due; nothing behind a line without an end: the daemon is gone then."""
        if not self._unread and not self._is_cut:
            self._unread = self.readline()
            self._is_cut = not self._unread.endswith(b"\n")
        part, self._unread = self._unread[: len(free)], self._unread[len(free) :]
        free[: len(part)] = part
        return len(part)

    def readline(self) -> bytes:
        """Return the line that is due; empty at the end of input."""
        raise NotImplementedError


class Wire(LinesAsStdin):
    """Both ends of the pipe: `readinto` is the processor's stdin, `write` its stdout."""

    def __init__(
        self,
        messages: Iterator[Callable[[], bytes]],
        answer_checkpoint: Callable[[str | None, dict[str, Any]], bytes],
    ) -> None:
        self._messages = messages
        self._answer_checkpoint = answer_checkpoint
        self._action: str | None = None
        self._reply: bytes | None = None
        self._partial = b""

    def readline(self) -> bytes:
        """Return the answer that is waiting, else the next message, else the end of input."""
        if self._reply is not None:
            reply, self._reply = self._reply, None
            return reply
        self.check_answered()
        message = next(self._messages, None)
        if message is None:
            return b""
        line = message()
        self._action = _action_of(line)
        return line

    def is_waiting(self) -> bool:
        """Tell whether the processor still owes an answer and is not owed one itself."""
        return self._action is not None and self._reply is None

    def write(self, data: bytes | str) -> int:
        """Take what the processor prints, line by line."""
        *lines, self._partial = (self._partial + (data.encode() if isinstance(data, str) else data)).split(b"\n")
        for line in lines:
            self._take(line)
        return len(data)

    def flush(self) -> None:
        """Do nothing: nothing is held back."""

    def check_answered(self) -> None:
        """Raise when the daemon still waits for a status line, or an answer was never read."""
        if self._action is not None:
            raise ProtocolViolationError(f"{self._action} was not answered")
        if self._reply is not None:
            raise ProtocolViolationError("the answer to a checkpoint was not read")

    def _take(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            return  # the daemon skips what is not JSON
        if self._reply is not None:
            raise ProtocolViolationError("wrote before reading the answer to a checkpoint")
        match message:
            case {"action": "checkpoint"}:
                self._reply = self._answer_checkpoint(self._action, message)
            case {"action": "status", "responseFor": answered} if answered == self._action:
                self._action = None
            case _:
                raise ProtocolViolationError(f"unexpected while waiting for {self._action}: {message}")


def line_of(action: str, **fields: object) -> bytes:
    """Return a message of the daemon."""
    return json.dumps({"action": action, **fields}, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def delivered_record(record: UserRecord) -> dict[str, object]:
    """Return a record as the daemon writes it."""
    return {
        "action": "record",
        "data": base64.b64encode(record.data).decode(),
        "partitionKey": record.partition_key,
        "sequenceNumber": str(record.position.sequence),
        "subSequenceNumber": record.position.sub,
        "approximateArrivalTimestamp": record.arrival_ms,
    }


def _action_of(line: bytes) -> str | None:
    try:
        message = json.loads(line)
    except ValueError:
        return "a malformed line"
    return str(message.get("action")) if isinstance(message, dict) else "a malformed line"
