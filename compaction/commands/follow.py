"""`minutebook follow`: read the settings, wire, tick, tell."""

import gc
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import structlog
from prometheus_client import CollectorRegistry, Gauge

from compaction.follow.columns import FollowedColumns
from compaction.follow.copies import check_keeps_all, leaves_out
from compaction.follow.day import FollowPorts
from compaction.follow.follower import Follower, Tick
from compaction.follow.windows import next_tick_ms
from compaction.job import checks
from compaction.job.request import FollowRequest
from compaction.job.service_time import by_service
from compaction.job.settings import JobSettings, check_apart, load_job_settings
from compaction.night.days import stop
from compaction.tables.catalog import opened_followed
from compaction.tasks.task import Order, TaskResult, run
from minutebook import logs
from minutebook.clock import Clock, SystemClock, new_id, new_random
from minutebook.emf import emf_line
from minutebook.errors import SettingsError
from minutebook.format.minute import iso_time
from minutebook.metrics_server import serve_metrics
from minutebook.owner import read_owned
from minutebook.retry import Backoff
from minutebook.spans import parse_span
from minutebook.store.places import open_storage
from minutebook.store.retrying import RetryingStorage
from minutebook.terminal import TerminalConsole

EVENT: Final = "table_followed"
METRICS: Final[Mapping[str, tuple[str, str]]] = {
    "RowsUntilAge": ("Seconds", "how long ago the last complete poll began: what the alarm is about"),
    "RowsFollowed": ("Count", "rows that this tick wrote"),
    "SegmentsLeftOut": ("Count", "segments of the followed days that are no rows before a night has judged them"),
    "FollowSeconds": ("Seconds", "how long the tick took"),
}
"""Name to unit and meaning of a tick's metrics for CloudWatch."""
_GARBAGE: Final = 50_000
"""Objects between two collections: one look at a table with a day of snapshots makes more than Python's 700."""
_BUDGET_SECONDS: Final = 30
"""Of a request's retries: short, because the next tick tries again."""
_LEAST_SECONDS: Final = 10
_LEFT_OUT: Final = 4
_AGAIN: Final = 3
"""How often `--once` looks again where objects are others, or gone, each time that they are read."""
_SICK_MS: Final = 300_000
"""So long without a tick without an error, or three ticks, is unhealthy."""

Tell = Callable[[Tick, int], None]


class Pace(NamedTuple):
    """How often a service looks, and where it serves its metrics; None: nowhere."""

    every_ms: int
    port: int | None


def run_follow(request: FollowRequest, environ: Mapping[str, str]) -> int:
    """Follow until a signal comes, or once; return 0, 4 where segments were left out, or an error's exit code."""
    every_ms = every_seconds(request.every) * 1000
    table_name = checks.iceberg_table(request.iceberg, request.iceberg_catalog)
    assert table_name is not None  # noqa: S101 - for the type checker: the option must be given
    if request.event_id is not None or request.drop_producer_duplicates:
        raise leaves_out("--event-id and --drop-producer-duplicates are options of compact")
    logs.configure_logging(
        "warning" if request.once and sys.stderr.isatty() else "info", limit=logs.Limit(SystemClock())
    )
    settings = load_job_settings(request.file, environ)
    output = settings.output(request.out)
    check_apart(output, settings.archive)
    path = request.columns or settings.columns
    columns = None if path is None else FollowedColumns(path)
    ending = stop.StopRequest()
    with stop.stopped_by_signals(ending):
        clock, rng = stop.StoppableClock(SystemClock(), ending), new_random()

        def new_backoff() -> Backoff:
            ending.check()
            return Backoff(clock, rng, budget_seconds=_BUDGET_SECONDS)

        archive, out = (
            RetryingStorage(open_storage(place.address), new_backoff) for place in (settings.archive, output)
        )
        try:
            read_owned(archive, settings.prefix, settings.owner, application=settings.application_name)
            used = by_service(clock, archive, settings.prefix)
            check_keeps_all(out, output, used.now_ms())
            with opened_followed(table_name, request.iceberg_catalog, output) as table:
                ports = FollowPorts(archive, settings.archive, out, output, used, new_id, in_process, table, columns)
                follower = Follower(ports, lambda: ending.is_asked)
                tell = _teller(settings, table_name)
                if request.once:
                    return _once(follower, tell)
                _loop(follower, tell, ports, settings, table_name, Pace(every_ms, request.port))
        except stop.Stopped:  # a service ends as asked, and what was to be done once is not done
            return (ending.exit_code or 1) if request.once else 0
    return 0


def every_seconds(text: str) -> int:
    """Return a span such as 60s in seconds; raises SettingsError below ten seconds."""
    seconds = int(parse_span(text, "--every"))
    if seconds < _LEAST_SECONDS:
        raise SettingsError(f"--every {text} is less than 10 s", next_step="write it as in --every 60s")
    return seconds


def in_process(orders: Sequence[Order]) -> list[TaskResult]:
    """Run tasks here, one after the other."""
    return [run(order) for order in orders]


def _once(follower: Follower, tell: Tell) -> int:
    again = _AGAIN
    while True:
        tick = follower.tick()
        tell(tick, tick.begun_ms)
        is_whole = tick.rows_until_ms == tick.begun_ms
        if tick.is_behind:
            continue
        if is_whole or tick.exit_code or not again:
            break
        again -= 1  # an object was another one when it was read: it is listed again
    table = f"rows until {iso_time(tick.rows_until_ms)}" if is_whole else "the table is not up to date"
    TerminalConsole().print(f"{table}; {tick.left_out} segment(s) left out")
    return tick.exit_code or (_LEFT_OUT if tick.left_out or not is_whole else 0)


def _loop(follower: Follower, tell: Tell, ports: FollowPorts, settings: JobSettings, table: str, pace: Pace) -> None:
    """Tick until the process is asked to end: StoppableClock raises Stopped."""
    clock, linger_ms = ports.clock, int(settings.linger_seconds * 1000)
    gauges = Gauges(clock, pace.every_ms, {"application": settings.application_name, "table": table})
    stop_serving = _nothing
    collect_rarely()
    if pace.port is not None:
        port, stop_serving = serve_metrics(settings.metrics_host, pace.port, gauges.registry, gauges.health, "--port")
        structlog.get_logger().info("serving", port=port)
    try:
        while True:
            tick = follower.tick()
            now_ms = clock.now_ms()
            tell(tick, now_ms)
            gauges.set(tick)
            wait_ms = 0 if tick.is_behind else next_tick_ms(now_ms, pace.every_ms, linger_ms) - now_ms
            clock.sleep(wait_ms / 1000)
    finally:
        stop_serving()


def collect_rarely() -> None:
    """Let the collector of circles leave what is loaded alone, and come once in some ticks."""
    gc.freeze()
    gc.set_threshold(_GARBAGE)


def _nothing() -> None:
    """Stop nothing."""


class FollowHealth(NamedTuple):
    """Implements `metrics_server.Health`."""

    is_healthy: bool
    sentence: str


class Gauges:
    """What Prometheus and a health check see of the last tick; `labels` are those of each series."""

    def __init__(self, clock: Clock, every_ms: int, labels: Mapping[str, str]) -> None:
        self._clock = clock
        self._labels = labels
        self._most_ms = max(_SICK_MS, 3 * every_ms)
        self._since_ms = clock.now_ms()
        self.registry = CollectorRegistry()
        self._rows_until = self._gauge("rows_until_timestamp_seconds", "when the last complete poll began")
        self._complete_until = self._gauge(
            "table_complete_until_timestamp_seconds", "until when the table is complete"
        )
        self._left_out = self._gauge("segments_left_out", "segments that are no rows before a night has judged them")

    def set(self, tick: Tick) -> None:
        """Show a tick."""
        self._since_ms = self._since_ms if tick.has_failed else tick.begun_ms
        self._rows_until.set(tick.rows_until_ms / 1000)
        self._complete_until.set(tick.complete_until_ms / 1000)
        self._left_out.set(tick.left_out)

    def health(self) -> FollowHealth:
        """Return whether a tick without an error, or the start, is not too long ago.

        A day that is held, or a backlog, is nothing that a restart mends: rows-until tells of those.
        """
        age_ms = self._clock.now_ms() - self._since_ms
        return FollowHealth(age_ms <= self._most_ms, f"the last tick without an error began {age_ms // 1000} s ago")

    def _gauge(self, name: str, help_text: str) -> Gauge:
        return Gauge(f"minutebook_{name}", help_text, self._labels, registry=self.registry).labels(**self._labels)


def _teller(settings: JobSettings, table: str) -> Tell:
    """Return what writes a tick's line for CloudWatch, where the settings ask for it."""
    names, sink = {"Application": settings.application_name, "Table": table}, sys.stderr.buffer

    def tell(tick: Tick, now_ms: int) -> None:
        if settings.metrics != "emf":
            return
        values: dict[str, float] = {
            "RowsFollowed": tick.rows,
            "SegmentsLeftOut": tick.left_out,
            "FollowSeconds": round(tick.seconds, 3),
        }
        if tick.rows_until_ms:
            values["RowsUntilAge"] = round((now_ms - tick.rows_until_ms) / 1000, 3)
        metrics: dict[str, tuple[object, str]] = {name: (value, METRICS[name][0]) for name, value in values.items()}
        properties = {"segments": tick.segments, "exit_code": tick.exit_code}
        sink.write(emf_line(EVENT, now_ms, names, {tuple(names): metrics}, metrics, properties))
        sink.flush()

    return tell
