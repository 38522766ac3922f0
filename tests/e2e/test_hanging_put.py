"""S3 takes a PUT and never answers while the daemon is asked to stop: the stop ends in time, and nothing is lost.

`after_stop`: every PUT from the stop on hangs, applied or not. `before_stop`: the one PUT under way hangs, as on a
connection that a firewall forgot, and new connections work.
"""

import random
from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from minutebook.errors import StoreUnavailable
from tests.chaos.faults import Draw, Fault
from tests.chaos.proxy import FaultProxy
from tests.chaos.upstream import S3
from tests.e2e.harness import Application
from tests.searching import only_deep
from tests.witness.readback import assert_exactly_once
from tests.witness.waiting import wait_for_an_early_second, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from demo.embedded import EmbeddedAws
    from tests.witness.events import Event

_SHARD = "shardId-000000000000"
_GRACE_SECONDS = 25
_FOR_EVER = 3600
_PRESET = {"shutdownGraceMillis": None}
_APPLIED = "e2e/test_hanging_put.py::test_a_put_that_hangs_at_stop_ends_within_the_grace"
"""The same with a PUT that S3 applies: the life behind it has to find that segment, too."""


class _HangingS3(FaultProxy):
    """Answers no conditional PUT of the next `left`; `kind` tells whether the server gets it."""

    left = 0
    hung = 0
    kind = Fault.DELAYED_AFTER

    def draw(self, *, is_conditional_put: bool) -> Draw:
        """Let a PUT hang."""
        if not is_conditional_put or self.left <= 0:
            return Draw(None, 0, 1)
        self.left, self.hung = self.left - 1, self.hung + 1
        return Draw(self.kind, _FOR_EVER, 1)


@pytest.mark.parametrize("kind", [pytest.param(Fault.DELAYED_BEFORE, marks=only_deep(_APPLIED)), Fault.DELAYED_AFTER])
def test_a_put_that_hangs_at_stop_ends_within_the_grace(
    embedded_aws: "EmbeddedAws", tmp_path: "Path", kind: Fault
) -> None:
    """The processor gives up by itself; what it could not commit is not checkpointed, and archived once later."""
    app = Application(embedded_aws, tmp_path, flushSeconds=600, lingerSeconds=600, checkpointIntervalSeconds=1)
    app.seed_leases({_SHARD: "w1"})
    with _HangingS3(embedded_aws.s3_endpoint, S3, random.Random(1)) as s3:
        s3.kind = kind
        with app.consume(kcl=_PRESET, s3Endpoint=s3.endpoint) as worker:
            worker.events.wait("shard_opened", shard=_SHARD)
            wait_for_an_early_second()
            app.producer.put_numbered(50)
            worker.events.wait("progress", where=lambda event: bool(event["buffer_bytes"]))
            s3.left = _FOR_EVER
            mark = worker.events.mark()
            worker.terminate()
            assert worker.wait() == StoreUnavailable.exit_code
        assert s3.hung > 1, "it tried again on another connection"
    (failed,) = worker.events.all("processor_failed", since=mark)
    assert failed["kind"] == "StoreUnavailable"
    assert worker.events.all("daemon_killed") == []
    assert _stop_seconds(worker.events.all("stopping") + worker.events.all("daemon_ended")) < _GRACE_SECONDS
    assert app.leases()[_SHARD].checkpoint == "TRIM_HORIZON"
    _archive_the_rest(app)
    assert_exactly_once(app.verdict())


def test_a_put_that_hung_before_the_stop_does_not_use_up_the_grace(
    embedded_aws: "EmbeddedAws", tmp_path: "Path"
) -> None:
    """It is sent again on another connection: all is committed and checkpointed, and the daemon ends with 0."""
    # Without boundaries the PUT that hangs is the segment's.
    settings = {"flushSeconds": 1, "lingerSeconds": 1, "checkpointIntervalSeconds": 1, "completeSlotSeconds": 0}
    app = Application(embedded_aws, tmp_path, **settings)
    app.seed_leases({_SHARD: "w1"})
    with _HangingS3(embedded_aws.s3_endpoint, S3, random.Random(1)) as s3:
        with app.consume(kcl=_PRESET, s3Endpoint=s3.endpoint) as worker:
            worker.events.wait("shard_opened", shard=_SHARD)
            app.producer.put_numbered(50)
            worker.events.wait("segment_committed", shard=_SHARD)
            s3.left = 1
            app.producer.put_numbered(50)
            wait_until(lambda: s3.hung == 1, "a PUT hangs")
            worker.terminate()
            assert worker.wait() == 0
        assert _stop_seconds(worker.events.all("stopping") + worker.events.all("daemon_ended")) < _GRACE_SECONDS
    assert app.leases()[_SHARD].checkpoint == str(app.producer.last()[_SHARD])
    assert_exactly_once(app.verdict())


def _archive_the_rest(app: Application) -> None:
    with app.consume(flushSeconds=1) as worker:
        worker.events.wait("checkpoint_written", shard=_SHARD, position=str(app.producer.last()[_SHARD]))
        worker.terminate()
        assert worker.wait() == 0


def _stop_seconds(events: "list[Event]") -> float:
    asked, ended = (datetime.fromisoformat(event["timestamp"]) for event in events)
    return (ended - asked).total_seconds()
