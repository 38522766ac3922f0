"""Arrival times that no Kinesis gives: the shard stops in doubt before it writes anything."""

import pytest
from structlog.testing import capture_logs

from minutebook.errors import DeliveryDoubt
from tests.fakes.stream import DAY_MS
from tests.fakes.world import World

HOUR_MS = 3_600_000


def _keys(world: World) -> set[str]:
    return set(world.bucket.keys())


@pytest.mark.parametrize("before", [0, 3])
def test_a_stamp_in_seconds_stops_the_shard_before_anything_is_written(world: World, before: int) -> None:
    """Such a record was archived under 1970, with the advice to raise the retention."""
    worker = world.started()
    world.put(before)
    world.shard.put(b"late", world.clock.now_ms() // 1000)
    there = _keys(world)
    with capture_logs() as logs, pytest.raises(DeliveryDoubt) as caught:
        worker.daemon.deliver()
    assert _keys(world) == there
    assert "arrived at 1970-01-2" in str(caught.value)
    assert "as if it counted seconds" in str(caught.value)
    assert "ApproximateArrivalTimestamp" in caught.value.next_step
    assert "near_retention" not in {line["event"] for line in logs}
    assert world.lease.checkpoint == "TRIM_HORIZON"


def test_a_stamp_before_the_stream_was_made_stops_it_too(world: World) -> None:
    """By two hours: a server that takes its local time for UTC."""
    worker = world.started()
    world.shard.put(b"early", world.stream.created_ms - 2 * HOUR_MS)
    with pytest.raises(DeliveryDoubt, match="and the stream was made at") as caught:
        worker.daemon.deliver()
    assert "seconds" not in str(caught.value)


def test_clocks_that_are_minutes_apart_stop_nothing(world: World) -> None:
    """The creation and the stamps come from different machines of one service."""
    world.stream.created_ms = world.clock.now_ms() + HOUR_MS // 2
    world.put(3)
    world.archive_all()
    world.check_everything_archived()


def test_a_stream_made_again_stops_nothing_that_runs(world: World) -> None:
    """A processor judges stamps by the stream that it was started on; the next start refuses the new one."""
    worker = world.started()
    world.stream.recreate(world.clock.now_ms() + DAY_MS)
    world.put(2)
    worker.daemon.deliver()
    assert world.shard.everything[-1] in worker.daemon.delivered
