"""What of a task is told to whom, by its settings."""

import json
from pathlib import Path

import pytest

from consumer.child_logs.processor_log import ProcessorEvent
from consumer.monitoring.outputs import make_watch, watched
from minutebook.clock import SystemClock
from tests.fakes.clock import START_MS, ManualClock
from tests.fakes.shard import SHARD
from tests.fakes.world import settings


@pytest.mark.parametrize(
    ("changes", "limit"),
    [
        ({}, 300),
        ({"linger_seconds": 600, "max_segment_age_seconds": 2000}, 1320),
        ({"linger_seconds": 600, "max_segment_age_seconds": 2000, "flush_seconds": 1}, 300),
        ({"max_uncommitted_seconds": 90}, 90),
    ],
)
def test_the_limit_is_what_is_set_else_beyond_what_is_held_anyway(changes: dict[str, float], limit: float) -> None:
    """Nobody's task turns unhealthy for a long `lingerSeconds`."""
    clock = ManualClock()
    watch = make_watch(settings(**changes), clock)
    watch.daemon_started(polls_leases=False)
    watch.note(ProcessorEvent(event="shard_opened", shard=SHARD))
    watch.note(ProcessorEvent(event="progress", shard=SHARD, oldest_ms=START_MS))
    clock.advance(limit)
    assert watch.verdict().is_healthy
    clock.advance(1)
    assert not watch.verdict().is_healthy


def test_counters_are_kept_where_somebody_is_to_see_them() -> None:
    """A task without a port and without lines needs no Prometheus."""
    clock = ManualClock()
    assert make_watch(settings(), clock).metrics is None
    assert make_watch(settings(metrics_port=1), clock).metrics is not None
    assert make_watch(settings(metrics="emf"), clock).metrics is not None


def test_a_task_is_told_of_while_it_runs(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """By its health file at once, which goes with it, and by a last line of metrics on stdout."""
    given, file = settings(metrics="emf"), tmp_path / "w1.health"
    clock = SystemClock()
    watch = make_watch(given, clock)
    with watched(watch, given, file, "w1", clock):
        assert file.exists()
    assert not file.exists()
    (line,) = capfdbinary.readouterr().out.splitlines()
    entry = json.loads(line)
    assert (entry["event"], entry["Application"], entry["Worker"]) == ("metrics", "minutebook-test", "w1")
