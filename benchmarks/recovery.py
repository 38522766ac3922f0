"""How long nothing is committed after a SIGKILL: of a processor, of its stub, of the fork server, of the daemon.

`minutebook consume` archives a stream under load on the embedded AWS; one of its processes is killed, and counted is
the time until each shard has committed its next segment. KCL's settings are the product's own presets, segments are
cut each second. Each kill meets a `consume` that has just begun: where kills follow each other, the supervisor waits
longer, and gives up in the end. At the end everything that was sent must be archived once.

    python -m benchmarks recovery [--runs 10] [--json FILE]
"""

import argparse
import os
import signal
import sys
import tempfile
import threading
from datetime import datetime
from pathlib import Path
from typing import Final

from benchmarks.figures import Column, median, publish
from demo.bootstrap import ensure_java
from demo.embedded import EmbeddedAws
from minutebook.clock import SystemClock
from tests.e2e.harness import Application
from tests.e2e.worker import Worker
from tests.witness.readback import assert_exactly_once

_CLOCK: Final = SystemClock()
_KCL: Final[dict[str, str | None]] = dict.fromkeys(
    (
        "leaseAssignmentIntervalMillis",
        "shardSyncIntervalMillis",
        "parentShardPollIntervalMillis",
        "idleTimeBetweenReadsInMillis",
        "maxRecords",
        "shutdownGraceMillis",
    )
)
_BEFORE_SECONDS: Final = 10
KINDS: Final = ("processor", "stub", "fork server", "daemon")


def main(arguments: list[str]) -> int:
    """Print a row for each kind of process."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks recovery", description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--before", type=float, default=_BEFORE_SECONDS, help="seconds of load before each kill")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    os.environ["PATH"] = f"{ensure_java().parent}:{os.environ['PATH']}"
    found: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory() as folder, EmbeddedAws(Path(folder) / "aws") as aws:
        app = Application(aws, Path(folder), shards=options.shards, flushSeconds=1)
        stop = threading.Event()
        feeder = threading.Thread(target=_load, args=(app, stop), daemon=True)
        feeder.start()
        try:
            for _ in range(options.runs):
                for kind in KINDS:
                    with app.consume("w1", kcl=_KCL) as worker:
                        for shard in app.open_shards():
                            worker.events.wait("segment_committed", shard=shard)
                        stop.wait(options.before)
                        load = os.getloadavg()[0]
                        found[kind].append(_recover(app, worker, kind))
                        sys.stderr.write(f"{kind}: {found[kind][-1]:.1f} s (load {load:.1f})\n")
                        worker.terminate()
                        worker.wait()
            stop.set()
            feeder.join()
            _read_to_the_end(app)
        finally:
            stop.set()
            feeder.join()
        assert_exactly_once(app.verdict())
    rows = [
        {"kind": kind, "runs": len(seconds), "median": median(seconds), "least": min(seconds), "most": max(seconds)}
        for kind, seconds in found.items()
    ]
    publish("Recovery", _COLUMNS, rows, found, options.json)
    return 0


_COLUMNS: Final = (
    Column("SIGKILL of", "kind"),
    Column("runs", "runs"),
    Column("seconds to the last shard's next segment, median", "median", ".1f"),
    Column("least", "least", ".1f"),
    Column("most", "most", ".1f"),
)


def _load(app: Application, stop: threading.Event) -> None:
    while not stop.wait(0.2):
        app.producer.put_numbered(20)


def _read_to_the_end(app: Application) -> None:
    with app.consume("w1", kcl=_KCL) as worker:
        for shard, last in app.producer.last().items():
            worker.events.wait("checkpoint_written", shard=shard, position=str(last))
        worker.terminate()
        worker.wait()


def _recover(app: Application, worker: Worker, kind: str) -> float:
    """Kill one process; return the seconds until each shard has a new segment."""
    victim = _victim(worker, kind)
    mark, at_ms = worker.events.mark(), _CLOCK.now_ms()
    os.kill(victim, signal.SIGKILL)
    worker.events.wait("daemon_restarting", since=mark)
    after = worker.events.mark()
    events = [worker.events.wait("segment_committed", since=after, shard=shard) for shard in app.open_shards()]
    return max(datetime.fromisoformat(event["timestamp"]).timestamp() for event in events) - at_ms / 1000


def _victim(worker: Worker, kind: str) -> int:
    if kind == "daemon":
        return worker.daemons()[0].pid
    if kind == "stub":
        return worker.stubs()[0].pid
    if kind == "fork server":
        return worker.fork_servers()[0].pid
    return worker.processors()[0].pid
