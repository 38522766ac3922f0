"""A stream's thread in a fleet, with a JVM that is a double."""

import fcntl
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from consumer.boundaries.pool import JobPool
from consumer.daemon.restart_policy import RestartLimits
from consumer.daemon.stream_run import StreamPlan, StreamRun
from consumer.fleet.bounds import OpenShards
from consumer.fleet.host import FleetHost, StreamSession
from consumer.fleet.stream import FleetStream, Shared
from consumer.leases.hand_over import HandedCounts
from consumer.settings.settings import LoadedSettings, Settings
from tests.fakes.clock import ManualClock

if TYPE_CHECKING:
    from consumer.daemon.opened import OpenedStream
    from consumer.daemon.process import Child
    from consumer.stream.kinesis import KinesisStream


class _Opened:
    effective = Path("s.properties")


class _Host:
    """Ends a Scheduler when it is told so; the first wait for its end fails."""

    def __init__(self, *, stopping: bool = False) -> None:
        self.stopping = stopping
        self.session = StreamSession(cast("Child", None))
        self.ends = 0
        self.waits = 0

    def begin(self, _name: str, _file: Path) -> StreamSession:
        return self.session

    def is_stopping(self) -> bool:
        return self.stopping

    def wait(self, _session: StreamSession, _seconds: float) -> None:
        self.waits += 1
        if self.waits == 1:
            raise RuntimeError("a defect")

    def end(self, _name: str, session: StreamSession) -> None:
        self.ends += 1
        session.code = 0


def _stream(host: _Host, state_folder: Path | None = None) -> FleetStream:
    clock = ManualClock()
    settings = Settings(stream_name="s", application_name="a", region="us-east-1", bucket="b")
    shared = Shared(
        cast("FleetHost", host), OpenShards(), HandedCounts(), JobPool(clock, threads=0), threading.Semaphore()
    )
    return FleetStream("s", LoadedSettings(settings, {"workerId": "w1"}, {}), {}, state_folder, shared, clock)


def test_an_error_of_ours_leaves_no_scheduler_behind() -> None:
    """Nobody would watch it, and the JVM takes no second one for the stream."""
    host = _Host()
    stream = _stream(host)
    run = StreamRun(StreamPlan(), ManualClock(), RestartLimits(), stream.watch, lambda: None)
    with pytest.raises(RuntimeError, match="a defect"):
        stream._run_once(run, cast("OpenedStream", _Opened()))
    assert (host.ends, host.session.code) == (1, 0)


def test_shards_are_listed_once_for_the_first_start() -> None:
    """When the stream is opened; before each later start they are counted again."""

    class Kinesis:
        """Counts its lists."""

        lists = 0

        def all_shards(self) -> dict[str, object]:
            """Return no shards."""
            self.lists += 1
            return {}

    kinesis, stream = Kinesis(), _stream(_Host())
    asked = []
    for step in (stream.count_opened, stream.count_again, stream.count_again):
        step(cast("KinesisStream", kinesis))
        asked.append(kinesis.lists)
    assert asked == [1, 1, 2]


def test_a_service_that_did_not_answer_is_asked_again_soon() -> None:
    """Nobody has to correct anything; after anything else ten minutes pass, in which somebody may."""
    stream = _stream(_Host())
    stream.code = 5
    assert [stream.seconds_to_next_try() for _ in range(6)] == [30, 60, 120, 240, 480, 600]
    stream.code = 2
    assert stream.seconds_to_next_try() == 600
    stream.code = 5
    assert stream.seconds_to_next_try() == 30


def test_a_worker_id_is_taken_before_the_checks(tmp_path: Path) -> None:
    """So the JVM inherits its lock, although the checks pass later; here a stop comes before them."""
    stream = _stream(_Host(stopping=True), tmp_path)
    assert stream._open_and_supervise() == 0
    assert stream.worker is not None
    with (stream.worker.state / "w1.lock").open() as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(stream.worker.lock)
