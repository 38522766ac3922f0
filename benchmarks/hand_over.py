"""How long shards are without a reader when one of two workers is stopped, with and without the hand-over.

Two workers of `minutebook consume` share four shards under load; one is stopped with SIGTERM. Counted is, for each of
its shards, the time from the signal until the other worker has committed a record that arrived after it, and until it
has opened the shard. The numbers are seconds of the real daemon on the embedded AWS.

    python -m benchmarks hand_over [--runs 3]
"""

import argparse
import os
import sys
import tempfile
import threading
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from archive.clock import SystemClock
from demo.bootstrap import ensure_java
from demo.embedded import EmbeddedAws
from tests.e2e.harness import Application
from tests.witness.events import Event
from tests.witness.readback import assert_exactly_once
from tests.witness.waiting import wait_until

_SHARDS: Final = 4
_CLOCK: Final = SystemClock()
_KCL: Final[dict[str, str | None]] = {
    "leaseAssignmentIntervalMillis": None,
    "shardSyncIntervalMillis": None,
    "parentShardPollIntervalMillis": None,
    "idleTimeBetweenReadsInMillis": None,
}
_OLD: Final = {"leaseAssignmentIntervalMillis": "20000", "varianceBalancingFrequency": "3"}


class Way(NamedTuple):
    """One way to stop. `leads`: the worker that is stopped is KCL's leader."""

    name: str
    release: bool
    kcl: dict[str, str | None]
    leads: bool


WAYS: Final = tuple(
    Way(f"{name}, {'the leader' if leads else 'another worker'} stops", release, {**_KCL, **kcl}, leads)
    for leads in (False, True)
    for name, release, kcl in (
        ("no hand-over, KCL's intervals", False, _OLD),
        ("no hand-over, our intervals", False, {}),
        ("hand-over, KCL's intervals", True, _OLD),
        ("hand-over, our intervals", True, {}),
    )
)


class Gap(NamedTuple):
    """Seconds after the signal, of the shard that waited longest."""

    opened: float
    archived: float


def measure(aws: EmbeddedAws, folder: Path, way: Way) -> Gap:
    """Stop one of two workers under load."""
    app = Application(aws, folder, shards=_SHARDS, flushSeconds=0.5, checkpointIntervalSeconds=5)
    shards = app.open_shards()
    app.seed_leases({shard: f"w{number % 2 + 1}" for number, shard in enumerate(shards)})
    stop = threading.Event()

    def load() -> None:
        while not stop.wait(0.2):
            app.producer.put_numbered(20)

    feeder = threading.Thread(target=load, daemon=True)
    feeder.start()
    ours = {"releaseLeases": "true" if way.release else "false"}
    try:
        with app.consume("w1", kcl=way.kcl, **ours) as first, app.consume("w2", kcl=way.kcl, **ours) as second:
            for worker in (first, second):
                worker.events.wait("segment_committed")
            wait_until(lambda: app.leader() is not None, "somebody leads")
            wait_until(lambda: len({row.owner for row in app.leases().values()}) == 2, "both hold leases")  # noqa: PLR2004
            _CLOCK.sleep(35)  # a deploy finds workers that have settled: reported, renewed, asked for the lock
            first_leads = app.leader() == "w1"
            stopped, left = (first, second) if first_leads == way.leads else (second, first)
            name = "w1" if stopped is first else "w2"
            lost = [shard for shard, row in app.leases().items() if row.owner == name]
            mark, at = left.events.mark(), _CLOCK.now_ms()
            stopped.terminate()
            opened = [_since(left.events.wait("shard_opened", since=mark, shard=shard), at) for shard in lost]
            archived = [_since(left.events.wait("segment_committed", since=mark, shard=shard), at) for shard in lost]
            stopped.wait()
            stop.set()
            feeder.join()
            last = app.producer.last()
            for shard in shards:
                left.events.wait("checkpoint_written", shard=shard, position=str(last[shard]))
            left.terminate()
            left.wait()
    finally:
        stop.set()
        feeder.join()
    assert_exactly_once(app.verdict())
    return Gap(max(opened), max(archived))


def main(arguments: list[str]) -> int:
    """Print a row for each run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks hand_over", description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--ways", type=int, nargs="*", help="numbers of the ways, from 0")
    options = parser.parse_args(arguments)
    java = ensure_java()
    os.environ["PATH"] = f"{java.parent}:{os.environ['PATH']}"
    ways = WAYS if options.ways is None else [WAYS[number] for number in options.ways]
    with tempfile.TemporaryDirectory() as folder, EmbeddedAws(Path(folder) / "aws") as aws:
        for way in ways:
            for run in range(options.runs):
                place = Path(folder) / f"{WAYS.index(way)}-{run}"
                place.mkdir()
                gap = measure(aws, place, way)
                sys.stdout.write(f"{way.name:55} opened {gap.opened:6.1f} s  archived {gap.archived:6.1f} s\n")
                sys.stdout.flush()
    return 0


def _since(event: Event, at_ms: int) -> float:
    return datetime.fromisoformat(event["timestamp"]).timestamp() - at_ms / 1000
