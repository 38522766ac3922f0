"""Pieces that are lines already are taken as records are: the same segments, whatever is stored meanwhile."""

import json
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

import pytest

from consumer.pipe.messages import Delivery, read_message
from consumer.pipe.pieces import WrittenPiece
from demo.readback import StoredSegment
from minutebook.codec.library import native_library
from minutebook.codec.lines import LineWriter, new_line_writer
from minutebook.errors import DeliveryDoubt
from minutebook.format.metadata import Continuity
from minutebook.format.minute import MINUTE_MS
from tests.fakes.stream import DAY_MS
from tests.fakes.world import Worker, World

if TYPE_CHECKING:
    from consumer.processor.processor import ShardProcessor

needs_codec = pytest.mark.skipif(
    native_library() is None, reason="built without the native codec: no C compiler, or MINUTEBOOK_NATIVE=0"
)


def deliver(world: World, worker: Worker, count: int, *, plainly: bool) -> None:
    """Send a batch as the daemon writes it, or with blanks, which no codec but Python's reads."""
    line = worker.daemon.records_message(worker.daemon.waiting()[:count])
    worker.daemon.send(line if plainly else json.dumps(json.loads(line)).encode() + b"\n")
    world.clock.advance(1)


def history(seed: int, *, plainly: bool) -> tuple[list[StoredSegment], list[object]]:
    """Play a history of two consumers; returns what is archived, and what they checkpointed."""
    rng, world = random.Random(seed), World()
    for _ in range(rng.randrange(20, 60)):
        world.put(rng.randrange(1, 4), data=rng.choice([b"x" * 300, b'{"a":"b"}' * 30, bytes(range(256)), b""]))
        world.clock.advance(rng.choice([0, 0, 0, 0.5, MINUTE_MS / 3000]))
    sizes = {"max_segment_bytes": rng.choice([2_000, 20_000, 1 << 26])}
    zombie, owner = world.started(**sizes), world.started(**sizes)
    while zombie.daemon.waiting() or owner.daemon.waiting():
        worker = rng.choice([zombie, owner])
        deliver(world, worker, rng.randrange(1, 30), plainly=plainly)
        if rng.random() < 0.3:
            worker.daemon.tick()
    for worker in (owner, zombie):
        worker.daemon.request_shutdown()
    world.check_everything_archived()
    return world.chain(), [*zombie.daemon.requests, *owner.daemon.requests]


@needs_codec
@pytest.mark.parametrize("seed", range(40))
def test_the_archive_is_the_same_with_and_without_the_codec(seed: int) -> None:
    """Minutes that end in a batch, segments that are full, ranges that another writer stored."""
    assert history(seed, plainly=True) == history(seed, plainly=False)


@needs_codec
def test_lines_that_were_delivered_before_stop_the_shard() -> None:
    """As records do: what comes twice in one consumer was not committed in order."""
    world = World()
    records = world.put(6, data=b"x" * 100)
    worker = world.holding(6)
    with pytest.raises(DeliveryDoubt, match="was delivered after"):
        worker.daemon.redeliver(records)


@needs_codec
@pytest.mark.parametrize("plainly", [True, False])
def test_what_joins_a_buffer_fits_into_it(*, plainly: bool) -> None:
    """As lines and as records: a segment's limit counts what is held already."""
    world = World()
    world.put(12, data=b"x" * 300)
    worker = world.started(max_segment_bytes=3_000)
    for count in (3, 9):
        deliver(world, worker, count, plainly=plainly)
    worker.daemon.request_shutdown()
    assert world.spans() == [(0, 7), (8, 11)]


@needs_codec
@pytest.mark.parametrize("plainly", [True, False])
def test_a_piece_never_reaches_into_a_stored_range(*, plainly: bool) -> None:
    """Also where the range begins with its last record: somebody deleted the segment before that one."""
    world = World()
    world.put(6, data=b"x" * 300)
    for _ in range(3):
        writer = world.started()
        deliver(world, writer, 2, plainly=plainly)
        writer.daemon.request_shutdown()
    world.bucket.delete(world.chain()[1].key)
    world.lease.wipe()
    worker = world.started()
    for count in (2, 3, 1):
        deliver(world, worker, count, plainly=plainly)
    worker.daemon.request_shutdown()
    assert world.spans() == [(0, 1), (2, 3), (4, 5)]


@needs_codec
@pytest.mark.parametrize("plainly", [True, False])
def test_archived_records_that_come_again_prove_what_follows(*, plainly: bool) -> None:
    """As lines and as records: a moment later the stream may have trimmed them, and could not be asked any more."""
    world = World()
    world.stream.retention_ms = 7 * DAY_MS
    archived = world.put(4, data=b"x" * 100)
    world.archive_all()
    world.lease.wipe()
    world.clock.advance(2 * DAY_MS / 1000)
    worker = world.started()
    deliver(world, worker, 4, plainly=plainly)
    world.shard.trim_through(archived[-1].position)
    world.put(2, data=b"x" * 100)
    deliver(world, worker, 2, plainly=plainly)
    worker.daemon.request_shutdown()
    assert world.spans() == [(0, 3), (4, 5)]
    assert world.metadata().continuity is Continuity.PROVEN


class LinesAlone:
    """A delivery whose pieces are lines, and must be taken as that."""

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery
        self.check_rest = delivery.check_rest

    def pieces(self, writer: LineWriter | None) -> Iterator[WrittenPiece]:
        """Yield the pieces; none may be decoded."""
        for piece in self._delivery.pieces(writer):
            assert isinstance(piece, WrittenPiece)
            yield piece._replace(decode=lambda: pytest.fail("records were made of lines"))


@needs_codec
def test_usual_pieces_are_never_decoded() -> None:
    """Neither those that are archived, nor the first of a minute, nor what joins it, nor what begins the next one."""
    world = World()
    world.put(4, data=b"x" * 100)
    world.archive_all()
    world.lease.wipe()
    world.put(4, data=b"x" * 100)
    worker = world.started()
    archiver = cast("ShardProcessor", worker.daemon.processor)._opened().archiver
    for _ in range(5):
        if not worker.daemon.waiting():
            world.clock.advance(60)
            world.put(2, data=b"x" * 100)
        line = worker.daemon.records_message(worker.daemon.waiting()[:2])
        delivery = read_message(memoryview(bytearray(line)))
        assert isinstance(delivery, Delivery)
        archiver.take(cast("Delivery", LinesAlone(delivery)), world.clock.monotonic())
    assert world.spans() == [(0, 3), (4, 7)]
    assert archiver.delivered == world.shard.everything[9].position


@needs_codec
def test_a_batch_becomes_lines_at_once() -> None:
    """Else it costs what it did without the codec."""
    world = World()
    world.put(6, data=b"x" * 100)
    worker = world.started()
    delivery = read_message(memoryview(bytearray(worker.daemon.records_message(worker.daemon.waiting()))))
    assert isinstance(delivery, Delivery)
    (piece,) = delivery.pieces(new_line_writer(world.shard.shard_id))
    assert isinstance(piece, WrittenPiece)
    assert (piece.written.records, len(piece.decode().records), delivery.decoded) == (6, 6, 6)
