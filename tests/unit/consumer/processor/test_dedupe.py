"""Producer duplicates in the processor: dropped once, never twice decided, never lost, whatever dies in between."""

from typing import Any

import pytest

from tests.fakes.dedupe_table import MemoryDedupeTable
from tests.fakes.dedupe_world import CLAIMS, WATERMARK, DedupeWorld

MODES = pytest.mark.parametrize("mode", [CLAIMS, WATERMARK], ids=["claims", "watermark"])


@MODES
def test_a_second_copy_is_left_out_and_kept_beside(mode: dict[str, Any]) -> None:
    """Dropped lines are counted in the metadata and stand in `_duplicates`: nothing is thrown away."""
    world = DedupeWorld(mode)
    world.send(1, 2, 2, 3, 1)
    world.archive_all()
    assert world.kept() == [1, 2, 3]
    assert world.dropped() == [2, 1]
    assert world.metadata().dropped == 2


@MODES
def test_a_copy_minutes_later_is_left_out(mode: dict[str, Any]) -> None:
    """The memory is the table, or travels with the chain: segments in between do not matter."""
    world = DedupeWorld(mode)
    worker = world.started()
    for numbers in ((1, 2), (3,), (2, 4)):
        world.send(*numbers)
        worker.daemon.deliver()
        world.clock.advance(70)
        worker.daemon.tick()
    assert world.kept() == [1, 2, 3, 4]
    assert world.dropped() == [2]


@MODES
def test_a_span_of_nothing_but_duplicates_is_committed(mode: dict[str, Any]) -> None:
    """A segment without a line keeps the chain unbroken, so the checkpoint can pass."""
    world = DedupeWorld(mode)
    worker = world.started()
    world.send(1)
    worker.daemon.deliver()
    world.clock.advance(70)
    worker.daemon.tick()
    world.send(1, 1)
    worker.daemon.deliver()
    worker.daemon.request_shutdown()
    assert world.metadata().records == 0
    assert world.metadata().dropped == 2
    assert world.lease.checkpoint == world.metadata().last
    assert world.kept() == [1]


@MODES
def test_a_crash_between_judgement_and_commit_changes_nothing(mode: dict[str, Any]) -> None:
    """The buffer is lost after its claims were written: the redelivered records own them and are kept."""
    world = DedupeWorld(mode)
    world.send(1, 2, 1)
    world.started().daemon.deliver()
    world.archive_all()
    assert world.kept() == [1, 2]
    assert world.dropped() == [1]


class _DiesAfter(MemoryDedupeTable):
    """A table whose process dies at its first tail row, before or after it is written."""

    def __init__(self, *, applied: bool) -> None:
        super().__init__()
        self.applied = applied
        self.armed = True

    def write_tail(self, shard: str, tail: Any) -> None:  # noqa: ANN401 - as the port
        if self.armed and not self.applied:
            self.armed = False
            raise SystemExit(9)
        super().write_tail(shard, tail)
        if self.armed:
            self.armed = False
            raise SystemExit(9)


@pytest.mark.parametrize("applied", [False, True], ids=["before the tail row", "after the tail row"])
def test_a_crash_around_the_tail_row_loses_and_doubles_nothing(*, applied: bool) -> None:
    """Segment committed, tail row or checkpoint missing: the next processor adopts the segment's own state."""
    world = DedupeWorld(WATERMARK)
    world.table = _DiesAfter(applied=applied)
    world.send(1, 2)
    worker = world.started()
    worker.daemon.deliver()
    with pytest.raises(SystemExit):
        worker.daemon.request_shutdown()
    world.send(2, 3)
    world.archive_all()
    assert world.kept() == [1, 2, 3]
    assert world.dropped() == [2]


def test_watermarks_are_found_in_the_archive_when_the_table_is_lost() -> None:
    """The tail row is a copy; the segment at the checkpoint carries the state itself."""
    world = DedupeWorld(WATERMARK)
    world.send(1, 2, 3)
    world.archive_all()
    world.table = MemoryDedupeTable()
    world.send(2, 4)
    world.archive_all()
    assert world.kept() == [1, 2, 3, 4]


def test_a_tail_row_of_another_position_is_not_believed() -> None:
    """A zombie's late row names an older position: the archive is asked instead."""
    world = DedupeWorld(WATERMARK)
    world.send(1)
    worker = world.archive_all()
    old = dict(world.table.tails)
    world.send(2)
    worker.daemon.deliver()
    worker.daemon.request_shutdown()
    world.table.tails.update(old)
    world.send(2, 3)
    world.archive_all()
    assert world.kept() == [1, 2, 3]


@MODES
def test_the_loser_of_a_slot_judges_the_rest_again(mode: dict[str, Any]) -> None:
    """A zombie holds more than the winner archived: what is left is judged behind the winner's state."""
    world = DedupeWorld(mode)
    world.send(1, 2, 1)
    zombie = world.started()
    zombie.daemon.deliver()
    owner = world.started()
    owner.daemon.deliver(1)
    owner.daemon.request_shutdown()
    zombie.daemon.request_shutdown()
    world.archive_all()
    assert world.kept() == [1, 2]
    assert world.dropped() == [1]


@MODES
def test_a_lost_lease_table_changes_no_judgement(mode: dict[str, Any]) -> None:
    """Everything is delivered again from TRIM_HORIZON: stored ranges are passed, the state is theirs."""
    world = DedupeWorld(mode)
    world.send(1, 2, 1)
    world.archive_all()
    before = sorted(world.bucket.keys())
    world.lease.checkpoint = "TRIM_HORIZON"
    world.send(2, 3)
    world.archive_all()
    assert world.kept() == [1, 2, 3]
    assert set(before) <= set(world.bucket.keys())


@MODES
def test_lost_answers_of_the_table_change_nothing(mode: dict[str, Any]) -> None:
    """A claim that was applied is its own on the second attempt."""
    world = DedupeWorld(mode)
    world.send(1, 1)
    worker = world.started()
    world.table.lose_answers = 1
    world.table.refuse_before = 1
    worker.daemon.deliver()
    worker.daemon.request_shutdown()
    assert world.kept() == [1]


@MODES
def test_records_without_an_id_are_kept(mode: dict[str, Any]) -> None:
    """Not JSON, null, or without the field: doubt keeps, every copy."""
    world = DedupeWorld(mode)
    for data in (b"plain", b"plain", b"{}", b'{"id":null,"n":null}', b"\xff"):
        world.shard.put(data, world.clock.now_ms())
    world.archive_all()
    assert world.metadata().records == 5
    assert world.metadata().dropped == 0


def test_children_inherit_what_their_parent_saw() -> None:
    """A retry that lands in a child after a split is a duplicate of the parent's record."""
    world = DedupeWorld(WATERMARK)
    world.send(1, 2)
    worker = world.started()
    worker.daemon.deliver()
    world.shard.close("shardId-000000000001")
    worker.daemon.end_shard()
    parent = world.shard
    child = DedupeWorld(WATERMARK)
    child.bucket, child.table, child.clock = world.bucket, world.table, world.clock
    child.shard = type(parent)("shardId-000000000001", first_sequence=parent.everything[-1].position.sequence + 1000)
    child.shard.parents = (parent.shard_id,)
    child.stream = world.stream
    child.stream.shards[child.shard.shard_id] = child.shard
    child.lease = type(world.lease)(child.shard)
    child._ids = world._ids
    child.send(2, 3)
    child.archive_all()
    assert child.kept() == [3]
    assert child.dropped() == [2]


def test_large_watermarks_stand_beside_the_segment() -> None:
    """Metadata ends at 2 KB; a state of many producers goes into an object that the segment names."""
    world = DedupeWorld(WATERMARK)
    for number in range(60):
        world.send(number, producer=f"producer-with-a-long-name-{number}")
    world.archive_all()
    assert world.metadata().watermarks == "beside"
    world.table = MemoryDedupeTable()
    world.send(7, producer="producer-with-a-long-name-7")
    world.archive_all()
    assert world.dropped() == [7]


def test_a_watermark_segment_without_a_state_starts_a_new_history() -> None:
    """Switching the mode on for an archive that exists keeps what cannot be judged."""
    world = DedupeWorld({})
    world.table = None
    world.send(1, 2)
    world.archive_all()
    world.settings, world.table = WATERMARK, MemoryDedupeTable()
    world.send(2, 3, 3)
    world.archive_all()
    assert world.kept() == [1, 2, 2, 3]


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
