"""One of two workers is stopped under load, as by a deploy: the other one reads its shards on before they expire.

How long that takes is told in docs/reliability.md; here the bound only tells it from waiting, which
takes KCL 50 s and more.
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

_BOUND_SECONDS = 45


def test_a_stopped_workers_shards_are_read_on_at_once(embedded_aws: "EmbeddedAws", tmp_path: "Path") -> None:
    """With KCL's intervals as `consume` presets them, and each record is archived once."""
    app = Application(embedded_aws, tmp_path, shards=2, flushSeconds=1, checkpointIntervalSeconds=1)
    s0, s1 = app.open_shards()
    app.seed_leases({s0: "w1", s1: "w2"})
    ours = {"leaseAssignmentIntervalMillis": None}
    with app.consume("w1", kcl=ours) as left, app.consume("w2", kcl=ours) as stopped:
        left.events.wait("shard_opened", shard=s0)
        stopped.events.wait("shard_opened", shard=s1)
        app.producer.put_numbered(50)
        stopped.events.wait("segment_committed", shard=s1)
        wait_until(lambda: "w1" in app.reports(), "the worker that is left has reported")
        stopped.terminate()
        app.producer.put_numbered(50)
        released = stopped.events.wait("leases_released")
        opened = left.events.wait("shard_opened", shard=s1)
        app.producer.put_numbered(50)
        for shard in (s0, s1):
            left.events.wait("checkpoint_written", shard=shard, position=str(app.producer.last()[shard]))
        assert stopped.wait() == 0
        left.terminate()
        assert left.wait() == 0
    (stopping,) = stopped.events.all("stopping")
    assert released["heirs"] == {s1: "w1"}
    assert (_time(opened) - _time(stopping)).total_seconds() < _BOUND_SECONDS
    assert {row.owner for row in app.leases().values()} == {None}
    assert_exactly_once(app.verdict())


def _time(event: "Event") -> datetime:
    return datetime.fromisoformat(event["timestamp"])
