"""Histories around `restore`: crashes, arrival times that step back, a deleted segment, a lost table, another time.

The real processor archives, the real plan of `restore` is made from what it left, and the real processor goes on from
it. Whatever happened, every record is then archived exactly once, in one unbroken chain.
"""

import random
from typing import NamedTuple

from hypothesis import event, given
from hypothesis import strategies as st

from consumer.leases.rows import Checkpoint
from consumer.restore.command import gather_facts
from consumer.restore.plan import plan_rows
from minutebook.retry import Backoff
from minutebook.store.retrying import RetryingStore
from tests.fakes.archive_scene import PREFIX
from tests.fakes.memory_store import MemoryStore
from tests.fakes.shard import SHARD
from tests.fakes.world import World, settings


class Step(NamedTuple):
    """Time passes, records arrive (`back_seconds` late), and the worker lives on, stops or is killed."""

    wait_seconds: int
    records: int
    back_seconds: int
    end: str


def histories(waits: list[int], backs: list[int], least: int = 1) -> st.SearchStrategy[list[Step]]:
    """Return histories with these pauses and steps back, in seconds."""
    steps = st.builds(
        Step,
        wait_seconds=st.sampled_from(waits),
        records=st.integers(0, 5),
        back_seconds=st.sampled_from(backs),
        end=st.sampled_from(["", "", "stop", "kill"]),
    )
    return st.lists(steps, min_size=least, max_size=12)


WILD = histories([0, 5, 61, 200, 4000], [0, 0, 0, 2, 90, 5000])
"""Beyond what the search for a chain's end covers: it may find an older end."""
SEEN = histories([0, 5, 61, 200], [0, 0, 0, 2, 90], 2)
"""Within two hours."""


def archive(world: World, history: list[Step]) -> None:
    """Let workers archive what arrives, one after the other."""
    worker = world.started()
    for number, step in enumerate(history):
        for seconds in (min(120, step.wait_seconds), max(0, step.wait_seconds - 120)):
            world.clock.advance(seconds)
            worker.daemon.tick()
        for _ in range(step.records):
            arrival_ms = world.clock.now_ms() - step.back_seconds * 1000
            world.shard.put(b"r%d" % len(world.shard.everything), arrival_ms)
        worker.daemon.deliver()
        if step.end == "stop":
            worker.daemon.request_shutdown()
        if step.end:
            worker = world.started(seed=number)


def planned(world: World, as_of_ms: int | None = None) -> Checkpoint:
    """Return the checkpoint that `restore` gives the shard."""
    info = world.stream.shard(SHARD)
    assert info is not None
    facts = gather_facts(
        RetryingStore(MemoryStore(world.bucket), lambda: Backoff(world.clock, random.Random(1), budget_seconds=5)),
        PREFIX,
        world.stream.describe(),
        {SHARD: info},
        application=settings().application_name,
        now_ms=world.clock.now_ms(),
        as_of_ms=as_of_ms,
    )
    (row,) = plan_rows(facts, {})
    return row.lease.checkpoint


def go_on(world: World, checkpoint: Checkpoint) -> int:
    """Let a worker go on from the restored row to the end of the shard; returns how much was delivered."""
    world.lease.wipe()
    world.lease.checkpoint = checkpoint
    worker = world.started(seed=99)
    delivered = len(worker.daemon.deliver())
    world.clock.advance(120)
    worker.daemon.tick()
    worker.daemon.request_shutdown()
    return delivered


def segment_keys(world: World) -> list[str]:
    """Return the keys in the order of the chain."""
    return sorted(
        (key for key in world.bucket.keys(PREFIX) if key.endswith(".gz")), key=lambda key: key.rpartition("/")[2]
    )


@given(WILD)
def test_a_restored_row_loses_and_doubles_nothing(history: list[Step]) -> None:
    """After the loss of the table, wherever the workers before stopped."""
    world = World()
    archive(world, history)
    go_on(world, planned(world))
    world.check_everything_archived()


@given(SEEN)
def test_a_restored_row_stands_at_the_archives_end(history: list[Step]) -> None:
    """And only what is not archived is delivered."""
    world = World()
    archive(world, history)
    last = max((segment.metadata.last for segment in world.chain()), default=None)
    archived = 0 if last is None else sum(record.position <= last for record in world.shard.everything)
    checkpoint = planned(world)
    assert checkpoint == (last or "TRIM_HORIZON")
    assert go_on(world, checkpoint) == len(world.shard.everything) - archived


@given(SEEN, st.integers(1, 3))
def test_a_segment_deleted_near_the_end_is_filled(history: list[Step], back: int) -> None:
    """Any of the last three, the first of a chain excepted: the row stands before the gap."""
    world = World()
    archive(world, history)
    keys = segment_keys(world)
    if len(keys) <= back:
        event("too few segments")
    else:
        world.bucket.delete(keys[-back])
    go_on(world, planned(world))
    world.check_everything_archived()


@given(WILD, st.integers(0, 8000))
def test_going_back_to_a_time_loses_and_doubles_nothing(history: list[Step], seconds: int) -> None:
    """Everything since is delivered again, and recognised."""
    world = World()
    archive(world, history)
    go_on(world, planned(world, world.clock.now_ms() - seconds * 1000))
    world.check_everything_archived()
