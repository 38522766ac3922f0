"""Breaks of a chain that nothing in the archive told of, found by the simulation; each by itself.

Sequence numbers are not dense: when records are trimmed before they were read, only the reader can know.
"""

import random
from collections.abc import Iterator

import pytest

from consumer.evidence.shard_evidence import EvidenceClaim
from consumer.processor.sequence_store import SequenceStore
from consumer.services import Services
from minutebook.compression import Compression
from minutebook.errors import BufferTooOld, DeliveryDoubt, StoreUnavailable
from minutebook.format.metadata import ChainStart
from minutebook.format.record import Record
from minutebook.format.segment import SegmentWriter
from tests.fakes.clock import START_MS, ManualClock
from tests.fakes.memory_store import MemoryBucket, MemoryStore
from tests.fakes.shard import SHARD
from tests.fakes.stream import DAY_MS
from tests.fakes.world import World, settings

DAY_SECONDS = DAY_MS / 1000


@pytest.fixture
def world() -> World:
    """Return a world of an old stream."""
    world = World()
    world.stream.created_ms -= 9 * DAY_MS
    return world


def trim(world: World, number: int) -> None:
    """Let retention take everything up to a record."""
    world.shard.trim_through(world.shard.everything[number].position)


def continuities(world: World) -> Iterator[bool]:
    """Tell of each segment whether its link is proven."""
    return (not segment.metadata.is_doubtful for segment in world.chain())


def test_a_raised_retention_hides_no_break() -> None:
    """Records were trimmed after a day, then the operator raised the retention, as the log asks for.

    The stream was younger than its new retention, so nothing was asked and the break was not marked.
    """
    world = World()
    world.put(2)
    world.archive_all()
    world.put(2)
    world.clock.advance(DAY_SECONDS + 600)
    trim(world, 3)
    world.stream.retention_ms = 7 * DAY_MS
    world.put(2)
    world.archive_all()
    assert list(continuities(world)) == [True, False]


def test_a_machine_that_sleeps_inside_a_call_notices_what_it_missed(world: World) -> None:
    """The call that was interrupted ended after the outage, and its "caught up" was taken for fresh."""
    world.put(2)
    worker = world.started()
    worker.daemon.deliver()
    world.clock.advance(60)

    def sleep(verb: str, key: str) -> None:
        if verb == "PUT" and key.endswith(".gz"):
            worker.store.after = None
            world.put(2)
            world.clock.advance(DAY_SECONDS + 600)
            trim(world, 3)
            world.put(1)

    worker.store.after = sleep
    worker.daemon.tick()
    with pytest.raises(DeliveryDoubt):
        worker.daemon.deliver()


def test_an_empty_call_after_an_outage_proves_nothing(world: World) -> None:
    """The reader was away for a day; KCL says "caught up" when everything unread is trimmed."""
    world.put(2)
    world.archive_all()
    worker = world.started()
    world.put(2)
    world.clock.advance(DAY_SECONDS + 600)
    trim(world, 3)
    with pytest.raises(DeliveryDoubt):
        worker.daemon.tick()


def test_the_first_batch_proves_its_link_again(world: World) -> None:
    """The checkpoint was held when the processor started, and trimmed when the first batch came."""
    world.put(2)
    world.archive_all()
    world.put()
    world.clock.advance(DAY_SECONDS - 300)
    worker = world.started()
    world.clock.advance(600)
    world.put()
    trim(world, 2)
    with pytest.raises(DeliveryDoubt):
        worker.daemon.deliver()
    world.put(1)
    world.archive_all()
    assert list(continuities(world))[1:] == [False]


def test_a_processor_that_sleeps_in_a_list_commits_nothing_that_is_stale(world: World) -> None:
    """A batch was delivered, the LIST before it took a day, and its age was counted from then on.

    Its slot may have been archived by others and expired meanwhile.
    """
    world.put(1)
    worker = world.started()
    worker.store.after = lambda verb, _key: world.clock.advance(DAY_SECONDS) if verb == "LIST" else None
    with pytest.raises(BufferTooOld):
        worker.daemon.deliver()
    assert world.spans() == []


def test_an_adopted_chain_begins_with_its_start_whoever_commits_first() -> None:
    """A processor wrote start.json and died; the next one's first segment named a segment before it."""
    world = World()
    world.put(2)
    world.lease.checkpoint = world.shard.everything[0].position
    first = world.started(adopt_checkpoint=True)
    first.daemon.deliver()

    def die(_verb: str, key: str) -> None:
        if key.endswith(".gz"):
            raise SystemExit

    first.store.before = die
    with pytest.raises(SystemExit):
        first.daemon.request_shutdown()
    world.archive_all()
    assert isinstance(world.metadata().after, ChainStart)


def test_a_record_that_was_held_a_moment_ago_may_be_gone(world: World) -> None:
    """An empty call asked and was told that the checkpoint is held; a minute later it was trimmed, with more."""
    world.put(2)
    world.archive_all()
    worker = world.started()
    world.put(2)
    world.clock.advance(DAY_SECONDS)
    worker.daemon.send(b'{"action":"processRecords","records":[],"millisBehindLatest":86400000}\n')
    world.clock.advance(60)
    trim(world, 2)
    with pytest.raises(DeliveryDoubt):
        worker.daemon.deliver()


def test_nothing_stale_is_committed_when_the_start_marker_took_a_day(world: World) -> None:
    """The buffer's age was looked at before start.json was written; the machine slept in that PUT."""
    world.put(1)
    worker = world.started()
    worker.daemon.deliver()
    worker.store.after = lambda _verb, key: world.clock.advance(DAY_SECONDS) if key.endswith("start.json") else None
    with pytest.raises(BufferTooOld):
        worker.daemon.request_shutdown()
    assert world.spans() == []


def test_nothing_stale_is_committed_when_the_duplicates_took_a_day() -> None:
    """What goes with a segment is written between the look at its age and its own PUT."""
    clock, bucket = ManualClock(), MemoryBucket()
    store = MemoryStore(bucket)
    store.after = lambda _verb, key: clock.advance(DAY_SECONDS) if "_duplicates/" in key else None
    services = Services(settings(), store, World().stream, clock, random.Random(1), lambda: "w")
    sequences = SequenceStore(services, SHARD, Compression.GZIP)
    run = SegmentWriter(SHARD, START_MS // 60_000)
    run.extend([Record("1", 0, "p", START_MS, b"a")])
    run.drop(Record("2", 0, "p", START_MS, b"a"), "an original")
    start = ChainStart("TRIM_HORIZON")
    with pytest.raises(StoreUnavailable):
        sequences.commit(run, after=start, writer="w", claim=EvidenceClaim(None), watermarks=None, budget_seconds=300)
    assert all(key.startswith("raw/_duplicates/") for key in bucket.keys("raw/"))
