"""The daemon double keeps KCL's rules; the processors here are small ones that break them."""

from collections.abc import Callable

import pytest
from amazon_kclpy.kcl import CheckpointError

from consumer.pipe.messages import Initialize, LeaseLostMessage
from consumer.processor.protocol import Checkpointer, DeliveredBatch, ShutdownInput
from minutebook.format.position import Position
from tests.fakes.clock import START_MS
from tests.fakes.daemon_double import SHARD_END, DaemonDouble, Lease, ProtocolViolationError
from tests.fakes.shard import FIRST_SEQUENCE, FakeShard

Ask = Callable[[Checkpointer], None]


class Scripted:
    """A processor that does what a test says, in whatever callback comes."""

    version = 3

    def __init__(self, ask: Ask | None = None) -> None:
        self.ask = ask
        self.started: list[tuple[str, str, int | None]] = []
        self.seen: list[Position] = []
        self.errors: list[str] = []

    def initialize(self, initialize_input: Initialize) -> None:
        """Keep the start."""
        self.started.append(
            (initialize_input.shard_id, initialize_input.sequence_number, initialize_input.sub_sequence_number)
        )

    def process_records(self, process_records_input: DeliveredBatch) -> None:
        """Keep the positions, then ask."""
        self.seen += [record.position for piece in process_records_input.delivery for record in piece.records]
        self._checkpoint(process_records_input.checkpointer)

    def lease_lost(self, lease_lost_input: LeaseLostMessage) -> None:
        """Do nothing."""

    def shard_ended(self, shard_ended_input: ShutdownInput) -> None:
        """Ask."""
        self._checkpoint(shard_ended_input.checkpointer)

    def shutdown_requested(self, shutdown_requested_input: ShutdownInput) -> None:
        """Ask."""
        self._checkpoint(shutdown_requested_input.checkpointer)

    def _checkpoint(self, checkpointer: Checkpointer) -> None:
        if self.ask is not None:
            try:
                self.ask(checkpointer)
            except CheckpointError as exc:
                self.errors.append(exc.value)


@pytest.fixture
def shard() -> FakeShard:
    """Return a shard with a plain record, an aggregate of three and a plain record."""
    shard = FakeShard()
    shard.put(b"a", START_MS)
    shard.put_aggregate([b"b", b"c", b"d"], START_MS)
    shard.put(b"e", START_MS)
    return shard


def explicit(number: int, sub: int | None = 0) -> Ask:
    """Ask for a checkpoint at FIRST_SEQUENCE + number."""
    return lambda checkpointer: checkpointer.checkpoint(str(FIRST_SEQUENCE + number), sub)


def daemon(shard: FakeShard, processor: Scripted) -> DaemonDouble:
    """Start a consumer of a fresh lease."""
    started = DaemonDouble(Lease(shard), processor)
    started.start()
    return started


def test_a_fresh_lease_starts_at_its_sentinel(shard: FakeShard) -> None:
    """As KCL sends it: the name, and sub 0."""
    processor = Scripted()
    daemon(shard, processor)
    assert processor.started == [(shard.shard_id, "TRIM_HORIZON", 0)]


def test_records_come_in_order_and_once(shard: FakeShard) -> None:
    """In batches of any size."""
    processor = Scripted()
    double = daemon(shard, processor)
    double.deliver(2)
    double.tick()
    double.deliver()
    assert processor.seen == [record.position for record in shard.everything]


def test_a_new_consumer_goes_on_behind_the_sub_sequence_number(shard: FakeShard) -> None:
    """The aggregate is read again and dropped up to there."""
    first = daemon(shard, Scripted(explicit(7, 1)))
    first.deliver()
    processor = Scripted()
    second = DaemonDouble(first.lease, processor)
    second.start()
    second.deliver()
    assert processor.started == [(shard.shard_id, str(FIRST_SEQUENCE + 7), 1)]
    assert [(position.sequence - FIRST_SEQUENCE, position.sub) for position in processor.seen] == [(7, 2), (14, 0)]


def test_a_checkpoint_without_sub_means_sub_zero(shard: FakeShard) -> None:
    """The rest of the aggregate comes again."""
    double = daemon(shard, Scripted(explicit(7, None)))
    double.deliver()
    assert double.lease.checkpoint == Position(FIRST_SEQUENCE + 7, 0)


def test_a_checkpoint_without_arguments_is_all_that_was_delivered(shard: FakeShard) -> None:
    """The largest position, sub included."""
    double = daemon(shard, Scripted(lambda checkpointer: checkpointer.checkpoint()))
    double.deliver(3)
    assert double.lease.checkpoint == Position(FIRST_SEQUENCE + 7, 1)


@pytest.mark.parametrize(("number", "sub"), [(14, 0), (7, 2), (8, 0)])
def test_a_checkpoint_beyond_the_delivered_is_illegal(shard: FakeShard, number: int, sub: int) -> None:
    """Not delivered yet."""
    processor = Scripted(explicit(number, sub))
    daemon(shard, processor).deliver(3)
    assert processor.errors == ["IllegalArgumentException"]


def test_a_checkpoint_that_goes_back_is_illegal(shard: FakeShard) -> None:
    """Lower than the last one."""
    processor = Scripted(explicit(7, 1))
    double = daemon(shard, processor)
    double.deliver()
    processor.ask = explicit(7, 0)
    double.tick()
    assert processor.errors == ["IllegalArgumentException"]


def test_a_number_between_two_records_is_legal(shard: FakeShard) -> None:
    """KCL asks nobody whether it exists."""
    double = daemon(shard, Scripted(explicit(3)))
    double.deliver()
    assert double.lease.checkpoint == Position(FIRST_SEQUENCE + 3)


def test_a_consumer_without_the_lease_is_shut_down(shard: FakeShard) -> None:
    """A newer consumer took it; nothing is written."""
    processor = Scripted()
    zombie = daemon(shard, processor)
    zombie.deliver()
    DaemonDouble(zombie.lease, Scripted())
    processor.ask = explicit(14)
    zombie.tick()
    assert processor.errors == ["ShutdownException"]
    assert zombie.lease.written == []


def test_an_equal_checkpoint_is_no_write(shard: FakeShard) -> None:
    """It is taken without a look at the lease."""
    processor = Scripted(explicit(14))
    zombie = daemon(shard, processor)
    zombie.deliver()
    zombie.lease.take()
    zombie.tick()
    assert processor.errors == []
    assert len(zombie.lease.written) == 1


def test_planned_errors_come_first(shard: FakeShard) -> None:
    """One for each request, and nothing is written."""
    processor = Scripted(explicit(14))
    double = daemon(shard, processor)
    double.checkpoint_errors = ["ThrottlingException"]
    double.deliver()
    assert processor.errors == ["ThrottlingException"]
    assert double.lease.written == []


def test_the_end_of_a_shard_is_checkpointed_without_arguments(shard: FakeShard) -> None:
    """Then it is SHARD_END."""
    double = daemon(shard, Scripted())
    double.deliver()
    assert isinstance(double.processor, Scripted)
    double.processor.ask = lambda checkpointer: checkpointer.checkpoint()
    double.end_shard()
    assert double.lease.checkpoint == SHARD_END


def test_the_explicit_last_number_is_no_end_when_it_was_checkpointed_before(shard: FakeShard) -> None:
    """A no-op, after which KCL would ask for ever."""
    double = daemon(shard, Scripted(explicit(14)))
    double.deliver()
    with pytest.raises(ProtocolViolationError, match="SHARD_END"):
        double.end_shard()


def test_a_wiped_lease_begins_again(shard: FakeShard) -> None:
    """And fences the old consumer out."""
    processor = Scripted(explicit(14))
    double = daemon(shard, processor)
    double.deliver()
    double.lease.wipe()
    assert double.lease.checkpoint == "TRIM_HORIZON"
    assert not double.owns_lease


def test_a_trimmed_checkpoint_begins_at_the_horizon(shard: FakeShard) -> None:
    """KCL says nothing about it."""
    double = daemon(shard, Scripted(explicit(0)))
    double.deliver(1)
    shard.trim_through(Position(FIRST_SEQUENCE + 7, 2))
    second = DaemonDouble(double.lease, Scripted())
    assert [record.data for record in second.waiting()] == [b"e"]


def test_whoever_raises_is_dead(shard: FakeShard) -> None:
    """The daemon would have exited."""

    def fail(_checkpointer: Checkpointer) -> None:
        raise RuntimeError("defect")

    double = daemon(shard, Scripted(fail))
    with pytest.raises(RuntimeError):
        double.deliver()
    with pytest.raises(ProtocolViolationError, match="dead"):
        double.tick()


def test_a_wrong_answer_is_a_violation(shard: FakeShard) -> None:
    """A stray status line on stdout."""

    def stray(checkpointer: Checkpointer) -> None:
        checkpointer.io_handler.write_action({"action": "status", "responseFor": "initialize"})  # type: ignore[attr-defined]

    with pytest.raises(ProtocolViolationError):
        daemon(shard, Scripted(stray)).deliver()


def test_what_is_no_json_is_skipped(shard: FakeShard) -> None:
    """As the daemon does with a library's prints."""

    def chatter(checkpointer: Checkpointer) -> None:
        checkpointer.io_handler._stdout.write(b"hello\nhalf a line")  # type: ignore[attr-defined]

    processor = Scripted(chatter)
    daemon(shard, processor).deliver()
    assert len(processor.seen) == 5
