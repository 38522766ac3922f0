"""KCL's consumer of one shard, in a greenlet: delivers, checkpoints, dies, and never waits for its processor.

The rules of leases and checkpoints are those of `tests.fakes.daemon_double`; the real process loop runs between them
and the processor. Here a consumer can be held up in the middle of a callback while others work.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, cast

from consumer.processor.dedupe_start import await_table
from consumer.processor.processor import ShardProcessor
from consumer.processor.protocol import run_process
from consumer.services import Services
from consumer.settings.settings import Settings
from consumer.stream.kinesis import KinesisStream
from minutebook.format.position import Position
from minutebook.store.s3 import S3Store
from tests.fakes.daemon_double import Checkpoint, DaemonDouble, Lease
from tests.fakes.shard import UserRecord
from tests.fakes.wire import LinesAsStdin, ProtocolViolationError
from tests.simulation.services.bucket import Bucket, S3Client
from tests.simulation.services.dynamodb import Table, in_any_order, open_table
from tests.simulation.services.kinesis import KinesisClient, SimShard, SimStream
from tests.simulation.world import Host, Task, Violation, name

IDLE = "waits for a message"
_TRANSIENT = ("ThrottlingException", "KinesisClientLibDependencyException")
Message = Callable[[], bytes]


class Consumer(DaemonDouble):
    """One shard consumer: takes the lease at once, and serves one processor.

    `pending_message` is the name of the message that it has not answered yet, or None. `filters`: it knows the hash
    keys of its shard for the batch to come; `strays` are the records that it was delivered when it did not.
    """

    def __init__(
        self,
        host: Host,
        lease: Lease,
        stream: SimStream,
        bucket: Bucket,
        settings: Settings,
        table: Table | None = None,
    ) -> None:
        world = host.world
        store = S3Store(S3Client(bucket, host), settings.bucket)  # type: ignore[arg-type] # the part of it that is used
        client = KinesisClient(stream, host)
        asked = KinesisStream(
            lambda: client,  # type: ignore[arg-type,return-value] # the part of it that is used
            "flights",
            host,
            world.rng,
            budget_seconds=settings.store_timeout_seconds,
        )
        self._services = Services(settings, store, asked, host, world.rng, world.new_id)
        self._table = None if table is None else open_table(table, host)
        map_claims = None if table is None else in_any_order(world.rng)
        super().__init__(lease, ShardProcessor(*self._services, self._table, map_claims))
        self.host = host
        self.stream = stream
        self.settings = settings
        self.pending_message: str | None = None
        self.orphan = False
        self.leaving = False
        self.opened = False
        self.legal = True
        self.filters = True
        self.strays: list[int] = []
        self.began_at = world.now
        self.latest_from = len(self.shard.everything)
        self.retrieved_at = world.now
        self._since_ms = lease.at_timestamp_ms or 0
        self._inbox: Message | None = None
        self.task = host.task = Task(self._serve)
        self.task.resume()

    @property
    def checkpointed(self) -> Checkpoint:
        """The last checkpoint of its own, or where it began."""
        return self._last

    @property
    def shard(self) -> SimShard:
        """The shard, with what the simulation knows of it."""
        return cast("SimShard", self.lease.shard)

    @property
    def idle(self) -> bool:
        """Tell whether it waits for the next message."""
        return self.task.where == IDLE and not self.task.dead

    @property
    def ready(self) -> bool:
        """Tell whether it can be given work: it is open, and neither stops nor is paused."""
        return self.idle and self.opened and not self.leaving and not self.host.is_paused

    def give(self, what: str, message: Message) -> None:
        """Send a message and let the processor work until it is idle, held up or dead."""
        self.pending_message, self._inbox = what, message
        self.host.received_at = self.host.world.now
        if what == "leaseLost":
            self.host.silenced = True
        self.host.note(f"<- {what}")
        self.go_on()

    def go_on(self) -> None:
        """Let the processor work on."""
        self.host.end_pause()
        self.task.resume()
        if self.idle:
            if self.pending_message == "initialize":
                self.opened = self.host.opened = True
            self.pending_message = None

    def cut_off(self) -> None:
        """The daemon is killed: its child meets the end of its input when it looks next."""
        self.orphan = True
        if self.idle:
            self.host.end_pause()
            self.task.resume()

    def waiting(self) -> list[UserRecord]:
        """Return what can be delivered: everything held behind the last delivery."""
        shard = self.shard
        everything = shard.everything
        if self._cursor is not None:
            begin = shard.index[self._cursor] + 1 if self._cursor in shard.index else 0
        elif self._begin == "AT_TIMESTAMP":
            since_ms = self._since_ms
            # Kinesis begins at a record of its own, be there user records in it or not, and gives all that follow.
            begin = next((held.first for held in shard.held if held.arrival_ms >= since_ms), len(everything))
        elif self._begin == "LATEST":
            begin = self.latest_from
        else:
            begin = 0
        begin = max(begin, shard.trimmed)
        if not self.filters or not shard.strays:
            return list(everything[begin:])
        return [everything[at] for at in range(begin, len(everything)) if at not in shard.strays]

    def next_batch(self) -> list[UserRecord]:
        """Look the shard's hash keys up, and return what can be delivered by what is known of them then.

        Not in the middle of what was taken apart already.
        """
        world, shard = self.host.world, self.shard
        if world.troubles is None:
            return self.waiting()
        at = shard.index.get(self._cursor) if isinstance(self._cursor, Position) else None
        everything = shard.everything
        is_inside = at is not None and at + 1 < len(everything) and everything[at + 1].position.sub > 0
        if not (is_inside and at in self.strays):
            self.filters = world.troubles.filters(world)
        return self.waiting()

    def records_message(self, batch: "list[UserRecord]") -> bytes:  # type: ignore[override] # a list here
        """Make a batch from the lines that the shard keeps, and count it as delivered."""
        shard = self.shard
        lines: list[bytes] = []
        behind = 0
        if batch:
            self._cursor = batch[-1].position
            if not isinstance(self._largest, tuple) or self._cursor > self._largest:
                self._largest = self._cursor
            numbers = [shard.index[record.position] for record in batch]
            lines = [shard.wire[number] for number in numbers]
            self.strays += [number for number in numbers if number in shard.strays]
        left = self.waiting()
        if left:
            behind = 1 + int((self.host.world.now - shard.put_at[shard.index[left[0].position]]) * 1000)
        text = b",".join(lines)
        return b'{"action":"processRecords","records":[%b],"millisBehindLatest":%d}\n' % (text, behind)

    def message(self, action: str) -> bytes:
        """Make a message without fields."""
        return b'{"action":"%b"}\n' % action.encode()

    def _serve(self) -> None:
        if self._table is not None:
            await_table(self._table, self._services)
        wire = _Wire(self._messages(), self._answer)
        # Two methods of BinaryIO are all that the process loop uses.
        run_process(self.processor, cast("BinaryIO", wire), cast("BinaryIO", wire))

    def _messages(self) -> Iterator[bytes]:
        while True:
            while self._inbox is None:
                if self.orphan:
                    return
                self.task.hand_over(IDLE)
            message, self._inbox = self._inbox, None
            yield message()

    def _answer(self, action: str | None, message: dict[str, Any]) -> bytes:
        host, world = self.host, self.host.world
        host.counts["checkpoint"] += 1
        if host.silenced:
            raise Violation(f"{host.name} asked for a checkpoint after it was told that its lease is lost")
        host.point("before a checkpoint is written")
        if self.orphan:
            world.happened("a checkpoint meets the end of input", host.name)
            return b""
        if world.chance(host.table_fault_rate):
            self.checkpoint_errors = [world.rng.choice(_TRANSIENT)]
            world.happened("KCL: checkpoint throttled", host.name)
        answer = self._answer_checkpoint(action, message)
        error = self.requests[-1].error
        asked = self.requests[-1].asked
        where = "SHARD_END" if asked is None else name(self.shard.index.get(asked))
        host.note(f"checkpoint {where}: {error or 'taken'}")
        if error in {"IllegalArgumentException", "InvalidStateException"}:
            self.legal = False
        if error == "ShutdownException":
            world.happened("KCL: checkpoint fenced out", host.name)
            host.silenced = True
        host.point("after a checkpoint was written")
        return b"" if self.orphan else answer


class _Wire(LinesAsStdin):
    """Both ends of the pipe: `readinto` is the processor's stdin, `write` its stdout. Turns are strict."""

    def __init__(
        self, messages: Iterator[bytes], answer_checkpoint: Callable[[str | None, dict[str, Any]], bytes]
    ) -> None:
        self._messages = messages
        self._answer_checkpoint = answer_checkpoint
        self._action: str | None = None
        self._reply: bytes | None = None

    def readline(self) -> bytes:
        if self._reply is not None:
            reply, self._reply = self._reply, None
            return reply
        if self._action is not None:
            raise ProtocolViolationError(f"{self._action} was not answered")
        line = next(self._messages, b"")
        self._action = line[11 : line.index(b'"', 11)].decode() if line else None
        return line

    def write(self, data: bytes) -> int:
        for line in filter(None, data.split(b"\n")):
            message = json.loads(line)
            if self._reply is not None:
                raise ProtocolViolationError("wrote before reading the answer to a checkpoint")
            if message["action"] == "checkpoint":
                self._reply = self._answer_checkpoint(self._action, message)
            elif message == {"action": "status", "responseFor": self._action}:
                self._action = None
            else:
                raise ProtocolViolationError(f"unexpected while waiting for {self._action}: {message}")
        return len(data)

    def flush(self) -> None:
        """Do nothing: nothing is held back."""
