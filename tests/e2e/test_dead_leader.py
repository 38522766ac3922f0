"""A host that held the leader's lock is gone for good, and nobody takes the lock over (KCL #1803).

Without a leader nobody assigns leases: the shards of that host have no reader, and no line says so.
"""

from datetime import datetime
from typing import TYPE_CHECKING

from tests.e2e.harness import Application
from tests.witness.readback import assert_exactly_once
from tests.witness.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from demo.embedded import EmbeddedAws
    from tests.witness.events import Event

_SHARD = "shardId-000000000000"
_BOUND_SECONDS = 150


def test_a_dead_hosts_lock_is_taken_over(embedded_aws: "EmbeddedAws", tmp_path: "Path") -> None:
    """The lock is removed, another worker leads, the shard is read again: in time, and nothing is lost or doubled."""
    app = Application(embedded_aws, tmp_path, flushSeconds=1, checkpointIntervalSeconds=0)
    app.producer.put_numbered(10)
    with app.consume("w1") as worker:
        worker.events.wait("checkpoint_written", position=str(app.producer.last()[_SHARD]))
        wait_until(lambda: app.leader() == "w1", "w1 leads")
    app.leave_lock("w1")
    app.producer.put_numbered(10)
    with app.consume("w2") as worker:
        started = worker.events.wait("daemon_started")
        removed = worker.events.wait("leader_lock_dead", seconds=_BOUND_SECONDS)
        worker.events.wait("shard_opened", shard=_SHARD)
        worker.events.wait("checkpoint_written", position=str(app.producer.last()[_SHARD]))
        wait_until(lambda: app.leader() == "w2", "w2 leads")
        worker.terminate()
        assert worker.wait() == 0
    assert (_time(removed) - _time(started)).total_seconds() < _BOUND_SECONDS
    assert removed["next_step"]
    assert_exactly_once(app.verdict())


def _time(event: "Event") -> datetime:
    return datetime.fromisoformat(event["timestamp"])
