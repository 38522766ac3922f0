"""The end of a shard: proven, marked, then checkpointed."""

import json

import pytest

from minutebook.errors import (
    CheckpointFailed,
    SafetyRefusal,
    ShardEndUnproven,
    StoreUnavailable,
    StreamUnavailable,
)
from minutebook.format.aggregate import HashRange
from minutebook.format.metadata import Continuity
from minutebook.format.read_mark import MarkKind, ReadMark, decode_read_mark
from tests.fakes.archive_scene import PREFIX
from tests.fakes.daemon_double import SHARD_END
from tests.fakes.memory_store import EndlessFault, Fault, PlannedFaults
from tests.fakes.quiet_shard import marks
from tests.fakes.stream import DAY_MS
from tests.fakes.world import Worker, World
from tests.witness.aggregate import EMPTY, aggregate

END_KEY = f"{PREFIX}_shards/shardId-000000000000/end.json"
SHARD = "shardId-000000000000"


def at_the_end(world: World) -> Worker:
    """Return a worker that holds all records of the closed shard."""
    worker = world.started()
    world.shard.close("shardId-000000000001", "shardId-000000000002")
    worker.daemon.deliver()
    return worker


def nothing_ended(world: World) -> None:
    """Assert that neither marker nor checkpoint says SHARD_END."""
    assert world.bucket.keys(END_KEY) == []
    assert SHARD_END not in world.lease.written


def test_an_end_is_committed_marked_and_checkpointed_in_this_order(world: World) -> None:
    """The segment, the proof under each of its days, end.json, then SHARD_END."""
    worker = at_the_end(world)
    worker.daemon.end_shard()
    puts = [key for verb, key in worker.store.log if verb == "PUT"]
    proofs = world.bucket.keys(f"{PREFIX}_read/")
    assert puts[puts.index(world.chain()[0].key) :] == [world.chain()[0].key, *proofs, END_KEY]
    assert world.lease.checkpoint == SHARD_END
    world.check_everything_archived()


def test_the_end_marker_says_what_was_last(world: World) -> None:
    """With the children, and how it was proven."""
    at_the_end(world).daemon.end_shard()
    marker = json.loads(world.bucket.body(END_KEY))
    assert (marker["last"], marker["proof"], marker["children"]) == (
        str(world.shard.everything[3].position),
        "read",
        ["shardId-000000000001", "shardId-000000000002"],
    )


def test_a_shard_that_ends_without_a_record_is_marked_too() -> None:
    """`last` is null."""
    world = World()
    at_the_end(world).daemon.end_shard()
    assert json.loads(world.bucket.body(END_KEY))["last"] is None
    assert world.lease.checkpoint == SHARD_END


def test_the_end_of_an_open_shard_is_not_believed(world: World) -> None:
    """KCL takes a ResourceNotFoundException for an end."""
    worker = world.started()
    worker.daemon.deliver()
    with pytest.raises(ShardEndUnproven):
        worker.daemon.end_shard()
    nothing_ended(world)


def test_an_open_shard_whose_reading_ends_is_not_believed_either(world: World) -> None:
    """ListShards has its own say: both must agree."""
    world.stream.false_ends = True
    worker = world.started()
    worker.daemon.deliver()
    with pytest.raises(ShardEndUnproven):
        worker.daemon.end_shard()
    nothing_ended(world)


def test_a_closed_shard_with_records_left_is_not_at_its_end(world: World) -> None:
    """A lagging reader must not skip the rest."""
    worker = world.started()
    world.shard.close()
    worker.daemon.deliver(2)
    with pytest.raises(ShardEndUnproven):
        worker.daemon.end_shard()
    nothing_ended(world)


def test_the_end_of_a_stream_made_again_is_not_believed(world: World) -> None:
    """Another creation time: exit code 6."""
    worker = at_the_end(world)
    world.stream.created_ms += 1
    with pytest.raises(SafetyRefusal):
        worker.daemon.end_shard()
    nothing_ended(world)


def test_an_end_that_cannot_be_asked_about_is_not_believed(world: World) -> None:
    """Kinesis is down: exit code 5, and the daemon asks again after a restart."""
    worker = at_the_end(world)
    world.stream.unavailable = True
    with pytest.raises(StreamUnavailable):
        worker.daemon.end_shard()
    nothing_ended(world)


def test_a_shard_that_is_no_longer_listed_ends_as_expired(world: World) -> None:
    """The audit then answers unknown: nobody can prove any more that nothing was left."""
    worker = at_the_end(world)
    del world.stream.shards[SHARD]
    worker.daemon.end_shard()
    assert json.loads(world.bucket.body(END_KEY))["proof"] == "expired"
    assert world.lease.checkpoint == SHARD_END


def test_an_end_that_was_marked_before_is_compared(world: World) -> None:
    """A processor killed between end.json and its checkpoint comes again."""
    first = at_the_end(world)
    first.daemon.checkpoint_errors = ["InvalidStateException"]
    with pytest.raises(CheckpointFailed):
        first.daemon.end_shard()
    again = world.started()
    again.daemon.deliver()
    again.daemon.end_shard()
    assert world.lease.checkpoint == SHARD_END
    world.check_everything_archived()


def test_an_end_marked_at_another_position_is_refused(world: World) -> None:
    """Two ends of one shard: a person must look."""
    worker = at_the_end(world)
    worker.daemon.end_shard()
    marker = json.loads(world.bucket.body(END_KEY))
    marker["last"] = str(world.shard.everything[1].position)
    world.bucket.place(END_KEY, json.dumps(marker).encode())
    world.lease.wipe()
    again = world.started()
    again.daemon.deliver()
    with pytest.raises(SafetyRefusal):
        again.daemon.end_shard()
    assert world.lease.checkpoint != SHARD_END


@pytest.mark.parametrize("error", ["ThrottlingException", "KinesisClientLibDependencyException"])
def test_the_checkpoint_at_the_end_is_repeated(world: World, error: str) -> None:
    """Answering without it would make KCL ask for ever."""
    worker = at_the_end(world)
    worker.daemon.checkpoint_errors = [error] * 3
    worker.daemon.end_shard()
    assert world.lease.checkpoint == SHARD_END


def test_an_end_that_cannot_be_checkpointed_ends_the_process(world: World) -> None:
    """Non-zero exit, never an OK without the checkpoint."""
    worker = at_the_end(world)
    worker.daemon.checkpoint_errors = ["ThrottlingException"] * 1000
    with pytest.raises(StoreUnavailable):
        worker.daemon.end_shard()


def test_an_end_of_a_lost_lease_is_a_lost_lease(world: World) -> None:
    """The lease was lost at the last moment: the processor falls silent, the owner ends the shard."""
    worker = at_the_end(world)
    world.lease.take()
    worker.daemon.end_shard()
    assert world.lease.checkpoint != SHARD_END
    worker.store.requests.clear()
    worker.daemon.end_shard()
    assert not worker.store.requests


def test_the_checkpoint_at_the_end_has_no_arguments(world: World) -> None:
    """An explicit last number that was checkpointed before is a no-op in KCL, not SHARD_END."""
    worker = at_the_end(world)
    world.clock.advance(66)
    worker.daemon.tick()
    assert world.lease.written == [world.shard.everything[3].position]
    worker.daemon.end_shard()
    assert worker.daemon.requests[-1].asked is None
    assert world.lease.checkpoint == SHARD_END


@pytest.mark.parametrize("fault", [Fault.THROTTLED, Fault.ANSWER_LOST, Fault.CONFLICT])
def test_a_marker_whose_answer_is_lost_is_written_once(world: World, fault: Fault) -> None:
    """The second PUT meets our own marker: same meaning, go on."""
    worker = at_the_end(world)
    worker.daemon.tick()
    world.clock.advance(66)
    worker.daemon.tick()
    worker.store.faults = PlannedFaults(fault)
    worker.daemon.end_shard()
    assert world.lease.checkpoint == SHARD_END


def test_an_outage_at_the_end_ends_the_process(world: World) -> None:
    """Without a marker there is no SHARD_END."""
    worker = at_the_end(world)
    worker.store.faults = EndlessFault(Fault.THROTTLED)
    with pytest.raises(StoreUnavailable):
        worker.daemon.end_shard()
    nothing_ended(world)


def proofs(world: World) -> list[ReadMark]:
    """Return the proofs of the end, each once."""
    keys = world.bucket.keys(f"{PREFIX}_read/")
    return sorted({decode_read_mark(world.bucket.body(key), PREFIX, key) for key in keys})


def test_each_writer_stores_a_proof_of_its_own(world: World) -> None:
    """Proven: nothing came behind the tail, and nothing before it is missing since the segment that it stands on."""
    at_the_end(world).daemon.end_shard()
    [proof] = proofs(world)
    assert (proof.kind, proof.continuity, proof.position) == (
        MarkKind.END,
        Continuity.PROVEN,
        world.shard.everything[3].position,
    )
    assert proof.from_ms <= proof.until_ms < world.clock.now_ms()
    world.lease.wipe()
    again = world.started()
    again.daemon.deliver()
    again.daemon.end_shard()
    assert [proof.continuity for proof in proofs(world)] == [Continuity.PROVEN] * 2


def test_the_end_of_a_shard_that_is_not_listed_any_more_is_not_proven(world: World) -> None:
    """Nobody can read it again."""
    worker = at_the_end(world)
    del world.stream.shards[SHARD]
    worker.daemon.end_shard()
    assert [proof.continuity for proof in proofs(world)] == [Continuity.UNPROVEN]


def test_an_end_without_a_date_has_no_proof(world: World) -> None:
    """The marker stays, for those that know no proofs."""
    world.stream.clock = None
    at_the_end(world).daemon.end_shard()
    assert proofs(world) == []
    assert json.loads(world.bucket.body(END_KEY))["proof"] == "read"


def test_what_kcl_would_not_deliver_does_not_keep_a_shard_from_ending(world: World) -> None:
    """Any producer can send an aggregate of nothing, or one for another shard: kept, named, and passed over."""
    worker = world.started()
    worker.daemon.deliver()
    record = world.shard.put_undelivered(EMPTY, world.clock.now_ms())
    world.shard.hash_range = HashRange(0, 0)
    stray = world.shard.put_undelivered(aggregate([("p1", b"a"), ("p2", b"b")]), world.clock.now_ms())
    world.shard.close()
    worker.daemon.end_shard()
    assert world.lease.checkpoint == SHARD_END
    assert json.loads(world.bucket.body(END_KEY))["undelivered"] == [str(record.sequence), str(stray.sequence)]
    assert proofs(world)[0].undelivered == (record.sequence, stray.sequence)
    kept = [json.loads(world.bucket.body(key)) for key in world.bucket.keys(f"{PREFIX}_undelivered/")]
    assert [one["reason"] for one in kept] == ["empty", "outside_hash_range"]


def test_an_end_with_nothing_undelivered_reads_as_before(world: World) -> None:
    """Earlier versions know no such field."""
    at_the_end(world).daemon.end_shard()
    assert "undelivered" not in json.loads(world.bucket.body(END_KEY))


def test_an_end_behind_what_nobody_delivered_is_not_proven(world: World) -> None:
    """This processor was given no record: what came behind the archived part was trimmed while it slept."""
    world.archive_all()
    worker = world.started()
    for record in world.put(2):
        last = record.position
    world.clock.advance(2 * DAY_MS / 1000)
    world.shard.trim_through(last)
    world.shard.close("shardId-000000000001", "shardId-000000000002")
    worker.daemon.end_shard()
    [mark] = marks(world)
    assert (mark.kind, mark.continuity) == (MarkKind.END, Continuity.UNPROVEN)
    assert json.loads(world.bucket.body(END_KEY))["proof"] == "expired"
