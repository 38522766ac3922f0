"""Defects that the simulation found at the end of a shard, each by itself."""

import random
from collections import Counter

import msgspec
import pytest

from consumer.evidence.held import walk_to_end
from consumer.stream.kinesis import KinesisStream
from minutebook.errors import SafetyRefusal
from minutebook.format.keys import end_marker_key
from minutebook.format.markers import EndMarker, decode_marker, encode_marker
from minutebook.format.position import Position
from tests.fakes.archive_scene import PREFIX
from tests.fakes.clock import START_MS
from tests.fakes.daemon_double import SHARD_END
from tests.fakes.stream import DAY_MS
from tests.fakes.world import World
from tests.simulation.services.kinesis import ARN, HOUR, KinesisClient, SimShard, SimStream
from tests.simulation.world import Host
from tests.simulation.world import World as SimWorld

_END = end_marker_key(PREFIX, "shardId-000000000000")


def end_marker(world: World) -> EndMarker:
    """Read end.json."""
    return decode_marker(world.bucket.body(_END), EndMarker, _END)


def archive_all(world: World) -> None:
    """Let a worker archive what is held and stop."""
    world.archive_all()


def test_records_from_before_the_start_do_not_keep_a_shard_from_ending() -> None:
    """The application started at a timestamp, the shard only held older records, and was split.

    The proof of the end read from the oldest record on, met one, and the processor died for ever; the children never
    began.
    """
    world = World(start="AT_TIMESTAMP", at_timestamp_ms=START_MS + 60_000)
    world.put(3)
    world.clock.advance(120)
    world.shard.close()
    world.started().daemon.end_shard()
    assert world.lease.checkpoint == SHARD_END
    assert end_marker(world).last is None


def sim_world() -> SimWorld:
    """Return a world in which nothing goes wrong."""
    return SimWorld(random.Random(1), 1_795_000_000.0, Counter(), traced=False)


def stream_port(world: SimWorld, stream: SimStream) -> tuple[KinesisStream, Host]:
    """Return the consumer's own port on the simulated Kinesis, and its clock."""
    host = Host(world, "worker", skew=0, holdup=0, fault_rate=0)
    client = KinesisClient(stream, host)
    return KinesisStream(lambda: client, "flights", host, world.rng), host  # type: ignore[arg-type,return-value] # what is used of it


@pytest.mark.parametrize("refuses", [True, False])
def test_a_trimmed_position_does_not_keep_a_shard_from_ending(*, refuses: bool) -> None:
    """A quiet shard is closed when its last record is trimmed, and Kinesis refuses an iterator there.

    That was taken for a setting that is wrong: exit 2, at each restart.
    """
    world = sim_world()
    stream = SimStream(world, SimShard(first_sequence=5), arn=ARN, created=world.now - 90 * HOUR, retention_hours=24)
    stream.refuses_trimmed = refuses
    stream.shard.put_now([b"x"], int(world.now * 1000), "p", world.now, 1)
    stream.shard.close()
    world.now += 25 * HOUR
    stream.trim()
    assert walk_to_end(*stream_port(world, stream), stream.shard.shard_id, Position(5)) is not None


def test_an_end_reached_past_retention_is_not_proven() -> None:
    """The checkpoint and all behind it are trimmed, unread: end.json said that the shard ended there."""
    world = World()
    world.put(2)
    archive_all(world)
    world.put(2)
    world.shard.close()
    world.clock.advance(2 * DAY_MS / 1000)
    world.shard.trim_through(world.shard.everything[-1].position)
    world.started().daemon.end_shard()
    assert end_marker(world).proof == "expired"


def test_an_end_reached_without_a_checkpoint_is_not_proven_for_a_shard_that_was_begun() -> None:
    """The lease table is lost, all is trimmed: somebody archived the shard, and this processor saw nothing of it."""
    world = World()
    world.put(2)
    archive_all(world)
    world.shard.close()
    world.lease.wipe()
    world.clock.advance(2 * DAY_MS / 1000)
    world.shard.trim_through(world.shard.everything[-1].position)
    world.started().daemon.end_shard()
    assert end_marker(world).proof == "expired"


def test_a_proven_end_further_on_stays() -> None:
    """A processor died between end.json and the checkpoint; the next one comes past retention and knows less.

    It compared its own last position with the proven one and was refused at each restart.
    """
    world = World()
    world.put(2)
    archive_all(world)
    checkpoint = world.lease.checkpoint
    world.put(2)
    world.shard.close()
    first = world.started()
    first.daemon.deliver()
    first.daemon.end_shard()
    world.lease.wipe()
    world.lease.checkpoint = checkpoint
    world.clock.advance(2 * DAY_MS / 1000)
    world.shard.trim_through(world.shard.everything[-1].position)
    world.started().daemon.end_shard()
    assert end_marker(world).last == str(world.shard.everything[-1].position)
    assert world.lease.checkpoint == SHARD_END


def test_a_proven_end_elsewhere_is_still_refused() -> None:
    """Two proofs that contradict each other are for a person."""
    world = World()
    world.put(2)
    worker = world.started()
    worker.daemon.deliver()
    world.shard.close()
    worker.daemon.end_shard()
    other = msgspec.structs.replace(end_marker(world), last="7:0")
    world.bucket.place(_END, encode_marker(other))
    world.lease.wipe()
    second = world.started()
    second.daemon.deliver()
    with pytest.raises(SafetyRefusal):
        second.daemon.end_shard()


def test_the_rest_of_an_aggregate_is_not_skipped_at_a_false_end() -> None:
    """The checkpoint lies inside a KPL aggregate, and KCL takes an error for the end of the closed shard.

    Kinesis reads on behind a whole aggregate: the proof met nothing, and the aggregate's rest would never have come.
    """
    world = sim_world()
    stream = SimStream(world, SimShard(first_sequence=5), arn=ARN, created=world.now, retention_hours=24)
    stream.shard.put_now([b"a", b"b", b"c"], int(world.now * 1000), "p", world.now, 1)
    stream.shard.close()
    asked = stream_port(world, stream)
    assert walk_to_end(*asked, stream.shard.shard_id, Position(5, 1)) is None
    assert walk_to_end(*asked, stream.shard.shard_id, Position(5, 2)) is not None


def test_an_end_that_comes_long_after_the_start_is_not_proven() -> None:
    """The checkpoint was held when the processor started; the rest was trimmed before it was read."""
    world = World()
    world.stream.created_ms -= 9 * DAY_MS
    world.put(2)
    archive_all(world)
    world.put(2)
    world.clock.advance(DAY_MS / 1000 - 300)
    worker = world.started()
    world.shard.close()
    world.clock.advance(600)
    world.shard.trim_through(world.shard.everything[-1].position)
    worker.daemon.end_shard()
    assert end_marker(world).proof == "expired"
