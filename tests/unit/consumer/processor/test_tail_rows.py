"""The tail row of watermark mode is a hint: whatever it holds, the archive decides."""

from typing import Any

import pytest

from tests.fakes.dedupe_table import MemoryDedupeTable
from tests.fakes.dedupe_world import WATERMARK, DedupeWorld


@pytest.mark.parametrize(
    "damage",
    [
        {"position": {"S": "rubbish"}},
        {"position": {"N": "1"}},
        {"watermarks": {"S": "[[}"}},
        {"watermarks": {"B": b"1"}},
        {"minute": {"N": "soon"}},
        {"first": {"S": "999999:0"}},
    ],
)
def test_a_tail_row_that_cannot_be_read_is_an_absent_one(damage: dict[str, Any]) -> None:
    """It is a hint: the archive holds what it says, and a shard must not die of it in every life."""
    world = DedupeWorld(WATERMARK)
    world.send(1)
    world.archive_all()
    world.table.tails["flights/shardId-000000000000"] |= damage
    world.send(1, 2)
    world.archive_all()
    assert world.kept() == [1, 2]


def many_gaps(world: DedupeWorld) -> None:
    """Let 800 producers send 33 numbers each with gaps between: their state is too long for an item."""
    for producer in range(800):
        world.send(*range(10**7, 10**7 + 66, 2), producer=f"p-{producer}")


def test_a_state_too_long_for_an_item_is_found_where_the_row_says() -> None:
    """DynamoDB refuses items above 400 KB: the row then says where in the archive the state is; nobody searches."""
    world = DedupeWorld(WATERMARK)
    many_gaps(world)
    world.archive_all()
    row = world.table.tails["flights/shardId-000000000000"]
    assert "watermarks" not in row
    world.send(10**7 + 64, 10**7 + 65, producer="p-799")
    worker = world.worker()
    worker.daemon.start()
    assert worker.store.requests["LIST"] == 0
    worker.daemon.deliver()
    worker.daemon.request_shutdown()
    assert world.dropped() == [10**7 + 64]


def test_a_state_too_long_for_an_item_is_searched_for_when_the_row_is_lost() -> None:
    """As a short one."""
    world = DedupeWorld(WATERMARK)
    many_gaps(world)
    world.archive_all()
    world.table = MemoryDedupeTable()
    world.send(10**7 + 64, 10**7 + 65, producer="p-799")
    world.archive_all()
    assert world.dropped() == [10**7 + 64]


def test_a_row_without_a_state_that_names_an_older_segment_is_not_believed() -> None:
    """Its numbers would be too few, and copies be kept: the segment must end where the chain does."""
    world = DedupeWorld(WATERMARK)
    world.send(1)
    worker = world.archive_all()
    row = world.table.tails["flights/shardId-000000000000"]
    slot = {name: row[name] for name in ("minute", "first")}
    world.clock.advance(70)
    world.send(2)
    worker.daemon.deliver()
    worker.daemon.request_shutdown()
    row = world.table.tails["flights/shardId-000000000000"]
    row |= slot
    del row["watermarks"]
    world.send(2, 3)
    world.archive_all()
    assert world.kept() == [1, 2, 3]


def test_a_minute_out_of_all_time_is_no_hint() -> None:
    """The state is then searched for."""
    world = DedupeWorld(WATERMARK)
    world.send(1)
    world.archive_all()
    row = world.table.tails["flights/shardId-000000000000"]
    row["minute"] = {"N": "9" * 38}
    del row["watermarks"]
    world.send(1, 2)
    world.archive_all()
    assert world.kept() == [1, 2]
