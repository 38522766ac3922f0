"""A double of KCL's MultiLangDaemon for one shard consumer, and of the lease it works under.

It speaks the MultiLang protocol in the daemon's own shape to the real process loop, over in-process streams. Taking
turns is strict in that protocol, so no thread is needed: when the processor reads, the double looks at what was
answered and decides what comes next.

What it knows of KCL 3 (ShardRecordProcessorCheckpointer.java, MultiLangProtocol.java, AggregatorUtil.java):

- a checkpoint is taken when last checkpoint <= new <= largest delivered, else IllegalArgumentException; one equal to
  the last is taken without a write, even when the lease is gone;
- a write needs the lease: its counter must be the one this consumer took, else ShutdownException;
- checkpoint(seq) without a sub-sequence number means sub 0; checkpoint() means the largest delivered, and SHARD_END
  in shardEnded, where the explicit number of the shard's last record means SHARD_END too;
- a consumer that starts at (seq, sub) reads the aggregate again and drops everything up to sub.
"""

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, BinaryIO, Final, NamedTuple, cast

from archive.format.position import Position
from consumer.processor.protocol import Processor, run_process
from tests.fakes.shard import FakeShard, UserRecord

SHARD_END: Final = "SHARD_END"
Checkpoint = Position | str
"""A position, or KCL's sentinels: TRIM_HORIZON, AT_TIMESTAMP, LATEST and SHARD_END."""

_CHECKPOINT_ALLOWED = frozenset({"processRecords", "shardEnded", "shutdownRequested"})


class ProtocolViolationError(Exception):
    """The processor broke the protocol; the real daemon would exit 1, or hang."""


class CheckpointRequest(NamedTuple):
    """One request and KCL's answer; `error` is the simple name of the exception, None for success."""

    asked: Position | None
    error: str | None


def _rank(checkpoint: Checkpoint) -> tuple[int, Position]:
    if isinstance(checkpoint, Position):
        return 1, checkpoint
    return (2 if checkpoint == SHARD_END else 0), Position(0)


class Lease:
    """One row of the lease table. Taking it moves the counter, which fences every earlier consumer out.

    `on_write` is called at each stored checkpoint: the moment at which all before it must be durable.
    """

    def __init__(self, shard: FakeShard, *, start: str = "TRIM_HORIZON", at_timestamp_ms: int | None = None) -> None:
        self.shard = shard
        self.start = start
        self.at_timestamp_ms = at_timestamp_ms
        self.checkpoint: Checkpoint = start
        self.written: list[Checkpoint] = []
        self.on_write: Callable[[Checkpoint], None] | None = None
        self._counter = 0

    def take(self) -> int:
        """Give the lease to a new consumer; return the counter it must show."""
        self._counter += 1
        return self._counter

    def is_held_by(self, counter: int) -> bool:
        """Tell whether the counter is the newest."""
        return counter == self._counter

    def wipe(self) -> None:
        """Delete the row, as an operator who drops the table does; the next consumer starts from the beginning."""
        self._counter += 1
        self.checkpoint = self.start

    def write(self, counter: int, checkpoint: Checkpoint) -> bool:
        """Store a checkpoint if the counter still fits (DynamoDB's conditional update)."""
        if counter != self._counter:
            return False
        self.checkpoint = checkpoint
        self.written.append(checkpoint)
        if self.on_write is not None:
            self.on_write(checkpoint)
        return True


class DaemonDouble:
    """One shard consumer: takes the lease and serves one processor.

    Every method that sends a message returns once the processor has answered it. What the processor raises comes out
    of it, and the consumer is dead from then on. `checkpoint_errors` is a plan: each name in it answers one request.
    """

    def __init__(self, lease: Lease, processor: Processor) -> None:
        self.lease = lease
        self.processor = processor
        self.alive = True
        self.checkpoint_errors: list[str] = []
        self.requests: list[CheckpointRequest] = []
        self.delivered: list[UserRecord] = []
        self._counter = lease.take()
        self._begin: Checkpoint = lease.checkpoint
        self._last: Checkpoint = lease.checkpoint
        self._largest: Checkpoint = lease.checkpoint
        self._cursor = lease.checkpoint if isinstance(lease.checkpoint, Position) else None
        self._at_end: Checkpoint | None = None

    @property
    def owns_lease(self) -> bool:
        """Tell whether no newer consumer has taken the lease."""
        return self.lease.is_held_by(self._counter)

    @property
    def cursor(self) -> Position | None:
        """The last position delivered, or started from; None at a sentinel."""
        return self._cursor

    def start(self) -> None:
        """Send `initialize` with the lease's checkpoint."""
        self.run([self.initialize_message])

    def deliver(self, count: int | None = None) -> list[UserRecord]:
        """Send the next `count` user records (None: all there are) in one batch; return them."""
        batch = self.waiting()[:count]
        self.run([lambda: self.records_message(batch)])
        return batch

    def tick(self) -> None:
        """Send an empty batch, as `callProcessRecordsEvenForEmptyRecordList` makes KCL do."""
        self.run([lambda: self.records_message([])])

    def redeliver(self, records: Sequence[UserRecord]) -> None:
        """Send records of the test's choice, which KCL would not."""
        self.run([lambda: self.records_message(records)])

    def lose_lease(self) -> None:
        """Send `leaseLost`."""
        self.run([lambda: _line("leaseLost")])

    def request_shutdown(self) -> None:
        """Send `shutdownRequested`."""
        self.run([lambda: _line("shutdownRequested")])

    def end_shard(self) -> None:
        """Send `shardEnded`; an answer without a SHARD_END checkpoint would make KCL retry for ever."""
        self.run([self.shard_ended_message])
        if _rank(self._last)[0] != _rank(SHARD_END)[0]:
            raise ProtocolViolationError("shardEnded was answered without a checkpoint at SHARD_END")

    def send(self, line: bytes) -> None:
        """Send one line as it is, malformed or not."""
        self.run([lambda: line])

    def waiting(self) -> list[UserRecord]:
        """Return what the shard holds behind the last delivery."""
        behind = self.lease.shard.after(self._cursor)
        if self._cursor is None and self._begin == "AT_TIMESTAMP":
            since = self.lease.at_timestamp_ms or 0
            begin = next((n for n, record in enumerate(behind) if record.arrival_ms >= since), len(behind))
            return behind[begin:]
        return behind

    def run(self, messages: Iterable[Callable[[], bytes]]) -> None:
        """Serve the processor with these messages, one turn each, then close its input."""
        if not self.alive:
            raise ProtocolViolationError("the processor is dead")
        wire = _Wire(iter(messages), self._answer_checkpoint)
        self.alive = False
        # Two methods of BinaryIO are all that the process loop uses.
        run_process(self.processor, cast("BinaryIO", wire), cast("BinaryIO", wire))
        wire.check_answered()
        self.alive = True

    def initialize_message(self) -> bytes:
        """Make the first message."""
        start = self._begin
        sequence, sub = (str(start.sequence), start.sub) if isinstance(start, Position) else (start, 0)
        return _line("initialize", shardId=self.lease.shard.shard_id, sequenceNumber=sequence, subSequenceNumber=sub)

    def records_message(self, batch: Sequence[UserRecord]) -> bytes:
        """Make a batch, and count it as delivered."""
        if batch:
            self.delivered.extend(batch)
            self._cursor = batch[-1].position
            if _rank(self._cursor) > _rank(self._largest):
                self._largest = self._cursor
        return _line("processRecords", records=[_record(record) for record in batch], millisBehindLatest=0)

    def shard_ended_message(self) -> bytes:
        """Make the message, and allow SHARD_END from now on."""
        self._at_end, self._largest = self._largest, SHARD_END
        return _line("shardEnded")

    def _answer_checkpoint(self, action: str | None, message: dict[str, Any]) -> bytes:
        sequence, sub = message["sequenceNumber"], message["subSequenceNumber"]
        if set(message) != {"action", "sequenceNumber", "subSequenceNumber"}:
            raise ProtocolViolationError(f"not a checkpoint message: {message}")
        asked = None if sequence is None else Position(int(sequence), sub or 0)
        error = self._checkpoint(asked) if action in _CHECKPOINT_ALLOWED else "InvalidStateException"
        self.requests.append(CheckpointRequest(asked, error))
        return _line("checkpoint", sequenceNumber=sequence, subSequenceNumber=sub, error=error)

    def _checkpoint(self, asked: Position | None) -> str | None:
        if self.checkpoint_errors:
            return self.checkpoint_errors.pop(0)
        wanted = self._largest if asked is None else asked
        if not _rank(self._last) <= _rank(wanted) <= _rank(self._largest):
            return "IllegalArgumentException"
        if wanted == self._last:
            return None
        target: Checkpoint = SHARD_END if wanted == self._at_end else wanted
        if not self.lease.write(self._counter, target):
            return "ShutdownException"
        self._last = target
        return None


class _Wire:
    """Both ends of the pipe: `readline` is the processor's stdin, `write` its stdout."""

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

    def readline(self, _limit: int = -1) -> bytes:
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


def _line(action: str, **fields: object) -> bytes:
    return json.dumps({"action": action, **fields}, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _record(record: UserRecord) -> dict[str, object]:
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
