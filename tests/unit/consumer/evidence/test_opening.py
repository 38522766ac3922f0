"""What is stored when a processor is given a shard, and by `consume` before that."""

import json
from typing import Any

import pytest

from consumer.archived.application import propose_start, settle_first_shards
from consumer.stream.port import StreamIdentity
from minutebook.errors import SafetyRefusal, SettingsError
from minutebook.format.aggregate import LAST_HASH_KEY
from minutebook.format.coverage_markers import FirstShards, decode_coverage_marker, first_shards_key
from minutebook.format.document import FORMAT
from minutebook.format.markers import ApplicationRecord
from minutebook.format.metadata import Continuity
from minutebook.retry import Backoff
from minutebook.store.retrying import RetryingStore
from tests.fakes.archive_scene import PREFIX
from tests.fakes.clock import START_MS
from tests.fakes.memory_store import MemoryStore
from tests.fakes.shard import SHARD, FakeShard
from tests.fakes.stream import ARN, DAY_MS
from tests.fakes.world import World

OPENED_KEY = f"{PREFIX}_shards/{SHARD}/opened.json"
ADOPTED_KEY = f"{PREFIX}_shards/{SHARD}/adopted.json"
HOUR_MS = 3_600_000


def document(world: World, key: str) -> dict[str, Any]:
    """Return a marker as it is stored."""
    found: dict[str, Any] = json.loads(world.bucket.body(key))
    return found


def test_a_shard_is_opened_before_anything_is_read(world: World) -> None:
    """With what an audit needs to know of its place."""
    world.shard.parents = ("shardId-000000000009", "shardId-000000000008")
    world.started()
    opened = document(world, OPENED_KEY)
    assert {
        name: opened[name] for name in ("shard", "sentinel", "starting_hash_key", "ending_hash_key", "parents")
    } == {
        "shard": SHARD,
        "sentinel": "TRIM_HORIZON",
        "starting_hash_key": "0",
        "ending_hash_key": str(LAST_HASH_KEY),
        "parents": ["shardId-000000000008", "shardId-000000000009"],
    }


def test_a_shard_is_opened_once(world: World) -> None:
    """Whoever comes later, and whatever sentinel it was given: at the cost of one GET."""
    world.archive_all()
    before = world.bucket.body(OPENED_KEY)
    again = world.worker()
    again.daemon.start()
    assert world.bucket.body(OPENED_KEY) == before
    assert "PUT" not in again.store.requests


def test_a_shard_without_a_checkpoint_is_opened_by_one_request(world: World) -> None:
    """It is hardly ever there then; where it is, because nothing has arrived since, whose it is is asked."""
    for verbs in (["PUT"], ["PUT", "GET"]):
        worker = world.worker()
        worker.daemon.start()
        assert [verb for verb, key in worker.store.log if key == OPENED_KEY] == verbs


def test_an_archive_from_before_is_opened_as_well(world: World) -> None:
    """Where the checkpoint stands."""
    world.archive_all()
    world.bucket.delete(OPENED_KEY)
    world.started()
    assert document(world, OPENED_KEY)["sentinel"] == f"AFTER_SEQUENCE:{world.shard.everything[3].position}"


@pytest.mark.parametrize("change", ["hash_range", "parents"])
def test_another_shard_under_the_same_name_is_refused(world: World, change: str) -> None:
    """Exit code 6."""
    world.started()
    setattr(world.shard, change, (5, 9) if change == "hash_range" else ("shardId-000000000009",))
    with pytest.raises(SafetyRefusal) as caught:
        world.worker().daemon.start()
    assert caught.value.exit_code == 6


def test_a_shard_that_is_not_listed_any_more_is_compared_with_nothing(world: World) -> None:
    """It was closed longer ago than the retention."""
    worker = world.started()
    del world.stream.shards[SHARD]
    world.worker().daemon.start()
    assert worker.daemon.alive


def test_an_adoption_is_stored_before_anything_else_of_the_shard(world: World) -> None:
    """From its time on the shard is this application's."""
    world.lease.checkpoint = world.shard.everything[1].position
    worker = world.worker(adopt_checkpoint=True)
    worker.daemon.start()
    puts = [key for verb, key in worker.store.log if verb == "PUT" and "_shards/" in key]
    assert puts == [ADOPTED_KEY, OPENED_KEY]
    adopted = document(world, ADOPTED_KEY)
    assert (adopted["position"], adopted["held"]) == (str(world.shard.everything[1].position), True)


def test_the_first_segment_behind_an_adopted_checkpoint_stands_on_its_adoption(world: World) -> None:
    """By the time at which S3 stored it, less a minute."""
    world.lease.checkpoint = world.shard.everything[1].position
    world.archive_all(adopt_checkpoint=True)
    assert (world.metadata().continuity, world.metadata().evidence_ms) == (Continuity.PROVEN, START_MS - 60_000)


def test_an_adopted_checkpoint_stays_adopted(world: World) -> None:
    """The setting may go once every shard was started, also where nothing has arrived yet."""
    world.lease.checkpoint = world.shard.everything[3].position
    world.started(adopt_checkpoint=True)
    world.started()
    world.lease.checkpoint = world.shard.everything[2].position
    with pytest.raises(SafetyRefusal):
        world.worker().daemon.start()


# The shards that the application began with


def application(world: World, start_at_ms: int | None) -> ApplicationRecord:
    """Return the record of an application."""
    return ApplicationRecord(
        format=FORMAT,
        stream_arn=ARN,
        stream_created_ms=world.stream.created_ms,
        application="app",
        start="oldest",
        start_at_ms=start_at_ms,
        writer="w",
        written_at_ms=START_MS,
    )


def first_shards(world: World, *, start_at_ms: int | None = None) -> list[str] | None:
    """Settle the list; return what is stored of it."""
    store = RetryingStore(MemoryStore(world.bucket), lambda: Backoff(world.clock, world.rng, budget_seconds=1))
    record = application(world, start_at_ms)
    settle_first_shards(
        store, PREFIX, world.stream, record, world.clock, world.new_id, service_ms=world.clock.now_ms()
    )
    key = first_shards_key(PREFIX)
    if not world.bucket.keys(key):
        return None
    return [shard.shard for shard in decode_coverage_marker(world.bucket.body(key), FirstShards, key).shards]


def reshard(world: World, *, closed_hours_ago: float) -> None:
    """Let the world's shard have a parent that was closed."""
    parent = FakeShard("shardId-000000000009")
    parent.close(SHARD)
    parent.closed_ms = START_MS - round(closed_hours_ago * HOUR_MS)
    world.stream.shards[parent.shard_id] = parent
    world.shard.parents = (parent.shard_id,)


def test_a_start_at_the_oldest_record_begins_with_every_shard_that_is_listed(world: World) -> None:
    """Closed ones as well: they will be read."""
    reshard(world, closed_hours_ago=3)
    assert first_shards(world) == [SHARD, "shardId-000000000009"]


def test_a_start_at_a_time_begins_with_what_was_open_since(world: World) -> None:
    """What was closed before ended before the application."""
    reshard(world, closed_hours_ago=3)
    assert first_shards(world, start_at_ms=START_MS - 2 * HOUR_MS) == [SHARD]


def test_the_first_list_stays(world: World) -> None:
    """Each `consume` on each machine comes by here."""
    assert first_shards(world) == [SHARD]
    reshard(world, closed_hours_ago=3)
    assert first_shards(world) == [SHARD]


def test_an_archive_that_was_begun_days_ago_without_the_list_gets_none(world: World) -> None:
    """Shards that it began with may be listed no more, and their children would count as first ones."""
    world.stream.created_ms -= 5 * DAY_MS
    world.started()
    assert first_shards(world) is None


def test_a_start_far_ahead_is_refused() -> None:
    """It is stored for good, and nothing would be archived until then: mostly a wrong digit of the year."""
    identity = StreamIdentity(ARN, START_MS - 9 * DAY_MS, DAY_MS)
    assert propose_start(START_MS, identity, 900, START_MS - DAY_MS) == START_MS
    with pytest.raises(SettingsError, match="more than a day ahead"):
        propose_start(START_MS, identity, 900, START_MS - DAY_MS - 1)


def test_the_oldest_start_lies_an_hour_within_the_retention_at_least() -> None:
    """A record from before it is then still held when the first one behind it is judged."""
    identity = StreamIdentity(ARN, START_MS - 9 * DAY_MS, DAY_MS)
    assert propose_start("oldest", identity, 900, START_MS) == START_MS - DAY_MS + HOUR_MS
    assert propose_start("oldest", identity, 7200, START_MS) == START_MS - DAY_MS + 2 * HOUR_MS + 300_000
