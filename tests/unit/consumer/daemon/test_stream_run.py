"""What a run of a stream leaves behind: nothing, however it ends."""

import os
from pathlib import Path

import pytest

from consumer.child_logs.processor_log import STARTED, ProcessorEvent
from consumer.daemon.restart_policy import RestartLimits
from consumer.daemon.stream_run import StreamPlan, StreamRun
from consumer.liveness.poll import ReaderPoll
from consumer.liveness.rules import ReaderWatch
from consumer.monitoring.watch import Watch
from minutebook.clock import SystemClock
from tests.fakes.lease_table import MemoryLeaseTable


class _Log:
    def is_read_to_its_end(self) -> bool:
        return True


class _Poll(ReaderPoll):
    """Counts how often it is stopped."""

    stops = 0

    def stop(self) -> None:
        """Stop it."""
        self.stops += 1
        super().stop()


def test_nothing_of_a_run_stays_when_the_wait_for_its_end_fails() -> None:
    """No thread polls its leases, no descriptor is kept, and the task does not call it healthy."""
    clock = SystemClock()
    rules = ReaderWatch("w", may_take_more=True, failover_seconds=10, idle_seconds=1, hang_seconds=60)
    readers = _Poll(rules, MemoryLeaseTable(), clock)
    watch = Watch(clock)
    run = StreamRun(StreamPlan(readers=readers), clock, RestartLimits(), watch, lambda: None)
    assert run.prepare() is None
    before = len(list(Path("/proc/self/fd").iterdir()))

    def fail() -> None:
        with run.reading(_Log()):
            run.note(ProcessorEvent(event=STARTED, pid=os.getpid()))
            assert watch.view().is_up
            raise RuntimeError("a defect")

    with pytest.raises(RuntimeError, match="a defect"):
        fail()
    assert readers.stops == 1
    assert not watch.view().is_up
    assert len(list(Path("/proc/self/fd").iterdir())) == before
