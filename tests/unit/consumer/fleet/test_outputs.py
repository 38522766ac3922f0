"""The metrics and the health of several streams as one task."""

import json
from collections.abc import Sequence
from typing import Any, cast

from prometheus_client import CollectorRegistry, generate_latest

from consumer.child_logs.processor_log import ProcessorEvent
from consumer.fleet.outputs import FleetLines, FleetWatch, MergedFamilies
from consumer.fleet.stream import FleetStream
from consumer.monitoring.cloudwatch import OF_STREAM, TaskState
from consumer.monitoring.labels import StreamLabels
from consumer.monitoring.watch import Watch
from consumer.settings.settings import LoadedSettings, Settings
from tests.fakes.clock import ManualClock

_SHARD = "shardId-000000000000"


class _Stream:
    """A stream as the outputs see it."""

    def __init__(self, name: str, clock: ManualClock) -> None:
        self.name = name
        self.has_given_up = False
        self.watch = Watch(clock, labels=StreamLabels(f"{name}-archive", name))
        settings = Settings(stream_name=name, application_name=f"{name}-archive", region="us-east-1", bucket="b")
        self.loaded = LoadedSettings(settings, {}, {})
        self.watch.daemon_started(polls_leases=False)
        self.watch.note(ProcessorEvent(event="shard_opened", shard=_SHARD))
        self.watch.note(ProcessorEvent(event="segment_committed", shard=_SHARD, records=5))


def _fleet(clock: ManualClock, *names: str) -> list[_Stream]:
    return [_Stream(name, clock) for name in names]


def _as_streams(fleet: list[_Stream]) -> Sequence[FleetStream]:
    return cast("Sequence[FleetStream]", fleet)


def test_a_family_of_all_streams_is_told_once() -> None:
    """Prometheus refuses a page that describes a metric twice; each series has its stream."""
    registry = CollectorRegistry()
    registry.register(MergedFamilies(_as_streams(_fleet(ManualClock(), "clicks", "orders"))))
    page = generate_latest(registry).decode()
    assert page.count("# TYPE minutebook_records_total counter") == 1
    for name in ("clicks", "orders"):
        assert f'minutebook_stream_up{{application="{name}-archive",stream="{name}"}} 1.0' in page
        line = f'minutebook_records_total{{application="{name}-archive",shard="{_SHARD}",stream="{name}"}} 5.0'
        assert line in page


def test_one_unhealthy_stream_is_named() -> None:
    """The others do not hide it."""
    fleet = _fleet(ManualClock(), "clicks", "orders")
    watch = FleetWatch(_as_streams(fleet))
    assert watch.verdict() == (True, "healthy: 2 of 2 streams")
    fleet[1].watch.note_readers(frozenset({_SHARD}), frozenset({_SHARD}))
    assert watch.verdict() == (False, f"unhealthy: orders: without a reader: {_SHARD}")


def test_a_stream_that_does_not_run_does_not_fail_the_task() -> None:
    """Be it that it waits for its restart, gave up, or is tried again, which may take minutes each time.

    A new task would not get further with it, and the others would wait; but with none of them running, it fails.
    """
    fleet = _fleet(ManualClock(), "clicks", "orders")
    watch = FleetWatch(_as_streams(fleet))
    fleet[1].watch.daemon_ended()
    for gave_up, remark in ((False, "not running"), (True, "gave up"), (False, "not running")):
        fleet[1].has_given_up = gave_up
        assert watch.verdict() == (True, f"healthy: 1 of 2 streams; {remark}: orders")
    fleet[0].watch.daemon_ended()
    assert watch.verdict() == (False, "unhealthy: no stream runs; not running: clicks, orders")


def test_cloudwatch_gets_sums_of_the_task_and_few_gauges_of_each_stream() -> None:
    """It charges for each combination: 22 metrics of 40 streams would cost more than the task."""
    clock = ManualClock()
    fleet = _as_streams(_fleet(clock, "clicks", "orders"))
    watch, lines = FleetWatch(fleet), FleetLines("streams", "w1", fleet)
    written = lines.line(TaskState(watch.view(), watch.totals(), [], is_healthy=True, now_ms=clock.now_ms()))
    task, *streams = [json.loads(line) for line in written.splitlines()]
    assert _dimensions(task) == [["Application"]]
    assert (task["Application"], task["Records"], task["Shards"]) == ("streams", 10, 2)
    assert [each["Stream"] for each in streams] == ["clicks", "orders"]
    for each in streams:
        assert _dimensions(each) == [["Application", "Stream"]]
        names = {metric["Name"] for metric in each["_aws"]["CloudWatchMetrics"][0]["Metrics"]}
        assert names <= set(OF_STREAM)


def _dimensions(line: dict[str, Any]) -> list[list[str]]:
    return [dimension for directive in line["_aws"]["CloudWatchMetrics"] for dimension in directive["Dimensions"]]
