"""What many quiet streams cost in one worker: `minutebook consume DIR` on the embedded AWS, with the presets.

Each stream has one shard on which nothing arrives. The worker is started twice: the first time its tables are made.
From the second start on: seconds until all shards are open, and CPU time until then; memory in proportion (PSS) and
cores while it is idle, by kind of process; then a processor is killed, then the JVM, and in the end the worker is
stopped. The servers run on the same machine.

    python -m benchmarks fleet [--streams 40] [--seconds 120]
"""

import argparse
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.figures import Column, publish
from benchmarks.processes import cpu_by_kind, memory_by_kind
from demo.bootstrap import ensure_java
from demo.embedded import EmbeddedAws
from minutebook.clock import SystemClock
from tests.e2e.fleet import FleetSite
from tests.e2e.harness import QUICK
from tests.e2e.worker import Worker, kill
from tests.fakes.denying_dynamodb import deny
from tests.witness.events import Event

_CLOCK: Final = SystemClock()
_PATIENCE_SECONDS: Final = 900.0
_KINDS: Final = ("java", "processors", "supervisor")
PRESET: Final[Mapping[str, str | None]] = dict.fromkeys(
    set(QUICK) - {"AwsCredentialsProvider", "regionName", "retrievalMode", "metricsLevel"}
)
"""What tests make quicker is left to the product."""
_STEPS: Final = ("preflight_passed", "stream_opened", "stream_started", "shard_opened")
"""Events of each stream on its way to a reader."""
_COLUMNS: Final = (
    Column("streams", "streams"),
    Column("first start, s", "first_start", ".1f"),
    Column("second start, s", "second_start", ".1f"),
    Column("stop, s", "stop", ".1f"),
    Column("CPU s until all Schedulers are told to start", "begin_cpu"),
    Column("CPU s until all shards are open", "start_cpu"),
    *(Column(f"MB, {kind}", f"{kind}_mb", ".0f") for kind in _KINDS),
    *(Column(f"cores, {kind}", f"{kind}_cores", ".3f") for kind in _KINDS),
    Column("threads of the JVM", "java_threads"),
    Column("threads of the supervisor", "supervisor_threads"),
    Column("SIGKILL of a child, s", "child", ".1f"),
    Column("SIGKILL of the JVM, s", "jvm", ".1f"),
)

_COUNTED: Final = (
    Column("streams", "streams"),
    Column("workers", "workers"),
    Column("requests to DynamoDB a minute and stream", "together", ".1f"),
    Column("by action", "a_minute"),
)
_SETTLE_SECONDS: Final = 90


class _Start(NamedTuple):
    """Seconds; for each step those of the first and last stream; CPU seconds until all are told to start."""

    seconds: float
    steps: dict[str, list[float]]
    begin_cpu: dict[str, float]


def run(
    aws: EmbeddedAws, folder: Path, *, streams: int, settle: float, seconds: float, kills: bool
) -> dict[str, Any]:
    """Start, stop, start, look, kill and stop it."""
    names = tuple(f"s{number:02d}" for number in range(streams))
    site = FleetSite(aws, folder, names, start="now")
    site.write(**PRESET)
    row: dict[str, Any] = {"streams": streams}
    with site.consume() as worker:
        row["first_start"], row["first_steps"], _ = _await_all(worker, names)
        row["first_stop"] = _stop(worker)
    with site.consume() as worker:
        row["second_start"], row["second_steps"], row["begin_cpu"] = _await_all(worker, names)
        row["start_cpu"] = {kind: round(seconds, 1) for kind, seconds in cpu_by_kind(worker.pid).items()}
        _CLOCK.sleep(settle)
        before = cpu_by_kind(worker.pid)
        _CLOCK.sleep(seconds)
        after, memory = cpu_by_kind(worker.pid), memory_by_kind(worker.pid)
        for kind in _KINDS:
            row[f"{kind}_cores"] = (after[kind] - before[kind]) / seconds
            row[f"{kind}_mb"] = memory[kind] * 1.048576
        row["java_threads"] = _threads(worker.daemons()[0].pid)
        row["supervisor_threads"] = _threads(worker.pid)
        sys.stderr.write(f"{row}\n")
        if kills:
            row["child"] = _kill_child(worker)
            begun, mark = _CLOCK.monotonic(), worker.events.mark()
            kill(worker.daemons()[0], signal.SIGKILL)
            _await_all(worker, names, mark)
            row["jvm"] = _CLOCK.monotonic() - begun
        row["stop"] = _stop(worker)
    return row


def count(aws: EmbeddedAws, folder: Path, *, streams: int, seconds: float, workers: int) -> dict[str, Any]:
    """Return how often a stream's DynamoDB is asked in a minute, by action, while one or more fleets are idle."""
    names = tuple(f"s{number:02d}" for number in range(streams))
    site = FleetSite(aws, folder, names, start="now")
    asked: Counter[str] = Counter()
    with deny(aws.dynamodb_endpoint, tell=lambda action, _: asked.update([action])) as endpoint, ExitStack() as stack:
        for number in range(workers):
            site.write(f"w{number}", **{**PRESET, "dynamoDBEndpoint": endpoint})
            worker = stack.enter_context(site.consume(f"w{number}"))
            if number == 0:
                _await_all(worker, names)
            _CLOCK.sleep(_SETTLE_SECONDS)
        asked.clear()
        _CLOCK.sleep(seconds)
        found = {action: round(times * 60 / seconds / streams, 2) for action, times in sorted(asked.items())}
    return {"streams": streams, "workers": workers, "a_minute": found, "together": sum(found.values())}


def _await_all(worker: Worker, names: Iterable[str], since: int = 0) -> _Start:
    """Wait for the shard of each stream."""
    begun, begun_ms = _CLOCK.monotonic(), _CLOCK.now_ms()
    for name in names:
        worker.events.wait("stream_started", seconds=_PATIENCE_SECONDS, since=since, properties=name)
    cpu = {kind: round(seconds, 1) for kind, seconds in cpu_by_kind(worker.pid).items()}
    for name in names:
        worker.events.wait("shard_opened", seconds=_PATIENCE_SECONDS, since=since, properties=name)
    took = _CLOCK.monotonic() - begun
    steps = {
        step: [_at(event) - begun_ms / 1000 for event in worker.events.all(step, since=since)] for step in _STEPS
    }
    return _Start(
        took, {step: [round(min(each), 1), round(max(each), 1)] for step, each in steps.items() if each}, cpu
    )


def _at(event: Event) -> float:
    return datetime.fromisoformat(event["timestamp"]).timestamp()


def _stop(worker: Worker) -> float:
    begun = _CLOCK.monotonic()
    worker.terminate()
    worker.wait()
    return _CLOCK.monotonic() - begun


def _kill_child(worker: Worker) -> float:
    living = {process.pid: process for process in worker.processors()}
    opened = next(each for each in worker.events.all("shard_opened") if each["pid"] in living)
    begun, mark = _CLOCK.monotonic(), worker.events.mark()
    kill(living[opened["pid"]], signal.SIGKILL)
    worker.events.wait("shard_opened", seconds=_PATIENCE_SECONDS, since=mark, properties=opened["properties"])
    return _CLOCK.monotonic() - begun


def _threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def main(arguments: list[str]) -> int:
    """Print a row for each number of streams."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks fleet", description=__doc__)
    parser.add_argument("--streams", type=int, nargs="+", default=[40])
    parser.add_argument("--settle", type=float, default=330, help="before it counts as idle (default 330)")
    parser.add_argument("--seconds", type=float, default=300, help="that it is looked at: a boundary is in 300")
    parser.add_argument("--no-kills", action="store_true")
    parser.add_argument("--count", type=int, nargs="*", help="instead: requests to DynamoDB with so many workers")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    os.environ["PATH"] = f"{ensure_java().parent}:{os.environ['PATH']}"
    rows = []
    for streams in options.streams:
        for workers in options.count or ():
            with tempfile.TemporaryDirectory() as folder, EmbeddedAws(Path(folder) / "aws") as aws:
                rows.append(count(aws, Path(folder), streams=streams, seconds=options.seconds, workers=workers))
                sys.stderr.write(f"{rows[-1]}\n")
        if options.count is not None:
            continue
        with tempfile.TemporaryDirectory() as folder, EmbeddedAws(Path(folder) / "aws") as aws:
            rows.append(
                run(
                    aws,
                    Path(folder),
                    streams=streams,
                    settle=options.settle,
                    seconds=options.seconds,
                    kills=not options.no_kills,
                )
            )
            sys.stderr.write(f"{rows[-1]}\n")
    columns = _COLUMNS if options.count is None else _COUNTED
    publish("Quiet streams in one worker", columns, rows, rows, options.json)
    return 0
