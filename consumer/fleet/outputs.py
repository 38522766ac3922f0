"""The outputs of a fleet: one metrics server and one set of metric lines for all of its streams.

    Prometheus ......... every series of each stream, told apart by `application` and `stream`
    CloudWatch ......... sums and worst values of the task under the folder's name; of each stream only the gauges
                         that it needs an alarm of its own for (`OF_STREAM`): CloudWatch charges for each metric
    /healthz ........... fails while a stream that runs is unhealthy, or none runs. One that does not run while others
                         do is started again, or tried again, here: a new task would not get further with it, and
                         the others would wait for that

Health files are each stream's own, as `minutebook health` of one stream reads them.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.registry import Collector

from consumer.fleet.stream import FleetStream
from consumer.monitoring.cloudwatch import EmfLines, TaskState, stream_line
from consumer.monitoring.health import HealthVerdict, HealthView
from consumer.monitoring.labels import StreamLabels
from consumer.monitoring.outputs import HealthWriter, MetricLines, labels_of, serve
from minutebook.clock import Clock
from minutebook.wording import some_of

_NAMED: Final = 3


class FleetWatch:
    """The streams of a fleet as one task."""

    def __init__(self, streams: Sequence[FleetStream]) -> None:
        self._streams = streams

    @property
    def metrics(self) -> "FleetWatch":
        """The counters of all streams."""
        return self

    def view(self) -> HealthView:
        """Return the state of all shards, each with its stream before its id."""
        views = {stream.name: stream.watch.view() for stream in self._streams}
        reached = [view.complete_until_ms for view in views.values()]
        return HealthView(
            is_up=all(view.is_up for view in views.values()),
            shards=[
                shard._replace(shard=f"{name}/{shard.shard}") for name, view in views.items() for shard in view.shards
            ],
            unread=frozenset(f"{name}/{shard}" for name, view in views.items() for shard in view.unread),
            others=frozenset(f"{name}/{shard}" for name, view in views.items() for shard in view.others),
            complete_until_ms=None if None in reached else min((each for each in reached if each), default=None),
        )

    def verdict(self) -> HealthVerdict:
        """Return the health of the task."""
        running = [stream for stream in self._streams if stream.watch.view().is_up]
        ill = [
            f"{stream.name}: {verdict.sentence.removeprefix('unhealthy: ')}"
            for stream in running
            if not (verdict := stream.watch.verdict()).is_healthy
        ]
        others = [stream for stream in self._streams if stream not in running]
        gave_up = [stream.name for stream in others if stream.has_given_up]
        waiting = [stream.name for stream in others if not stream.has_given_up]
        remarks = [
            f"; {what}: {some_of(names, _NAMED)}"
            for what, names in (("not running", waiting), ("gave up", gave_up))
            if names
        ]
        if running and not ill:
            return HealthVerdict(
                is_healthy=True, sentence=f"healthy: {len(running)} of {len(self._streams)} streams{''.join(remarks)}"
            )
        return HealthVerdict(
            is_healthy=False, sentence=f"unhealthy: {some_of(ill, _NAMED) or 'no stream runs'}{''.join(remarks)}"
        )

    def totals(self) -> dict[str, float]:
        """Return each counter's sum over all streams."""
        sums: Counter[str] = Counter()
        for stream in self._streams:
            if stream.watch.metrics is not None:
                sums.update(stream.watch.metrics.totals())
        return dict(sums)

    def take_latencies(self) -> list[float]:
        """Return the latencies of the commits since the last call, at most the latest 100 of each stream."""
        metrics = [stream.watch.metrics for stream in self._streams if stream.watch.metrics is not None]
        return [seconds for each in metrics for seconds in each.take_latencies()][-100:]


class FleetLines:
    """Metric lines of the task, and of each stream."""

    def __init__(self, name: str, worker: str, streams: Sequence[FleetStream]) -> None:
        self._sum = EmfLines(StreamLabels(name, ""), worker, is_sum=True)
        self._worker = worker
        self._streams = streams

    def line(self, state: TaskState) -> bytes:
        """Return a line of the task, then one of each stream."""
        lines = [self._sum.line(state)]
        for stream in self._streams:
            watch, labels = stream.watch, labels_of(stream.loaded.settings)
            is_well = watch.verdict().is_healthy
            lines.append(stream_line(labels, self._worker, watch.view(), is_healthy=is_well, now_ms=state.now_ms))
        return b"".join(lines)


class MergedFamilies(Collector):
    """The families of all streams, each family once."""

    def __init__(self, streams: Sequence[FleetStream]) -> None:
        self._streams = streams

    def collect(self) -> Iterator[Metric]:
        """Yield each family with the samples of all streams."""
        families: dict[str, Metric] = {}
        for stream in self._streams:
            for family in () if stream.watch.metrics is None else stream.watch.metrics.registry.collect():
                merged = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                merged.samples.extend(family.samples)
        yield from families.values()


@contextmanager
def fleet_watched(name: str, streams: Sequence[FleetStream], worker: str, clock: Clock) -> Iterator[None]:
    """Run the outputs while the block runs; `name` is the folder's. Raises SettingsError without a port."""
    settings = streams[0].loaded.settings
    watch = FleetWatch(streams)
    with ExitStack() as stack:
        if settings.metrics_port is not None:
            registry = CollectorRegistry()
            registry.register(MergedFamilies(streams))
            serve(settings, settings.metrics_port, registry, watch, stack)
        if settings.metrics == "emf":
            lines = FleetLines(name, worker, streams)
            metrics = MetricLines(lines, sys.stdout.buffer, settings.metrics_interval_seconds)
            stack.enter_context(HealthWriter(watch, [], clock, metrics))
        yield
