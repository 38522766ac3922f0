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
- a consumer that starts at (seq, sub) reads the aggregate again and drops everything up to sub;
- a row keeps the sentinel that it was made with. At AT_TIMESTAMP KCL 3.1.3 takes the time from its configuration, and
  throws a NullPointerException where that names none, before any child is started (IteratorBuilder.java).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, BinaryIO, Final, NamedTuple, cast

from consumer.processor.protocol import Processor, run_process
from minutebook.format.position import Position
from tests.fakes.shard import FakeShard, UserRecord
from tests.fakes.wire import ProtocolViolationError, Wire, delivered_record, line_of

SHARD_END: Final = "SHARD_END"
Checkpoint = Position | str
"""A position, or KCL's sentinels: TRIM_HORIZON, AT_TIMESTAMP, LATEST and SHARD_END."""

_CHECKPOINT_ALLOWED = frozenset({"processRecords", "shardEnded", "shutdownRequested"})


class UnopenableRowError(Exception):
    """KCL cannot open the row, now or ever: no child is started, and nothing is delivered."""


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

    `is_new`: there is no row yet; KCL makes one at `start`, which is its configuration, as is `at_timestamp_ms`.
    `on_write` is called at each stored checkpoint: the moment at which all before it must be durable.
    """

    def __init__(self, shard: FakeShard, *, start: str = "TRIM_HORIZON", at_timestamp_ms: int | None = None) -> None:
        self.shard = shard
        self.start = start
        self.at_timestamp_ms = at_timestamp_ms
        self.is_new = True
        self._checkpoint: Checkpoint = start
        self.written: list[Checkpoint] = []
        self.on_write: Callable[[Checkpoint], None] | None = None
        self._counter = 0

    @property
    def checkpoint(self) -> Checkpoint:
        """What the row says, or will say once KCL makes it. Setting it makes the row."""
        return self._checkpoint

    @checkpoint.setter
    def checkpoint(self, checkpoint: Checkpoint) -> None:
        self._checkpoint, self.is_new = checkpoint, False

    def take(self) -> int:
        """Give the lease to a new consumer; return the counter it must show."""
        self._counter += 1
        self.is_new = False
        return self._counter

    def is_held_by(self, counter: int) -> bool:
        """Tell whether the counter is the newest."""
        return counter == self._counter

    def wipe(self) -> None:
        """Delete the row, as an operator who drops the table does; the next consumer starts from the beginning."""
        self._counter += 1
        self._checkpoint, self.is_new = self.start, True

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
        if lease.checkpoint == "AT_TIMESTAMP" and lease.at_timestamp_ms is None:
            raise UnopenableRowError(
                f"the row of {lease.shard.shard_id} is at AT_TIMESTAMP, KCL's configuration is not"
            )
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
        self.run([lambda: line_of("leaseLost")])

    def request_shutdown(self) -> None:
        """Send `shutdownRequested`."""
        self.run([lambda: line_of("shutdownRequested")])

    def end_shard(self) -> None:
        """Send `shardEnded`; an answer without a SHARD_END checkpoint would make KCL retry for ever.

        But for a lease that is lost: KCL notices that by itself.
        """
        self.run([self.shard_ended_message])
        if self.owns_lease and _rank(self._last)[0] != _rank(SHARD_END)[0]:
            raise ProtocolViolationError("shardEnded was answered without a checkpoint at SHARD_END")

    def send(self, line: bytes) -> None:
        """Send one line as it is, malformed or not."""
        self.run([lambda: line])

    def waiting(self) -> list[UserRecord]:
        """Return what the shard holds behind the last delivery."""
        behind = self.lease.shard.after(self._cursor)
        if self._cursor is None and self._begin == "AT_TIMESTAMP":
            since = self.lease.at_timestamp_ms or 0  # an old one is answered from the trim horizon
            begin = next((n for n, record in enumerate(behind) if record.arrival_ms >= since), len(behind))
            return behind[begin:]
        return behind

    def run(self, messages: Iterable[Callable[[], bytes]]) -> None:
        """Serve the processor with these messages, one turn each, then close its input."""
        if not self.alive:
            raise ProtocolViolationError("the processor is dead")
        wire = Wire(iter(messages), self._answer_checkpoint)
        self.alive = False
        # Two methods of BinaryIO are all that the process loop uses.
        run_process(self.processor, cast("BinaryIO", wire), cast("BinaryIO", wire))
        wire.check_answered()
        self.alive = True

    def initialize_message(self) -> bytes:
        """Make the first message."""
        start = self._begin
        sequence, sub = (str(start.sequence), start.sub) if isinstance(start, Position) else (start, 0)
        return line_of(
            "initialize", shardId=self.lease.shard.shard_id, sequenceNumber=sequence, subSequenceNumber=sub
        )

    def records_message(self, batch: Sequence[UserRecord]) -> bytes:
        """Make a batch, and count it as delivered."""
        if batch:
            self.delivered.extend(batch)
            self._cursor = batch[-1].position
            if _rank(self._cursor) > _rank(self._largest):
                self._largest = self._cursor
        return line_of("processRecords", records=[delivered_record(record) for record in batch], millisBehindLatest=0)

    def shard_ended_message(self) -> bytes:
        """Make the message, and allow SHARD_END from now on."""
        self._at_end, self._largest = self._largest, SHARD_END
        return line_of("shardEnded")

    def _answer_checkpoint(self, action: str | None, message: dict[str, Any]) -> bytes:
        sequence, sub = message["sequenceNumber"], message["subSequenceNumber"]
        if set(message) != {"action", "sequenceNumber", "subSequenceNumber"}:
            raise ProtocolViolationError(f"not a checkpoint message: {message}")
        asked = None if sequence is None else Position(int(sequence), sub or 0)
        error = self._checkpoint(asked) if action in _CHECKPOINT_ALLOWED else "InvalidStateException"
        self.requests.append(CheckpointRequest(asked, error))
        return line_of("checkpoint", sequenceNumber=sequence, subSequenceNumber=sub, error=error)

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
