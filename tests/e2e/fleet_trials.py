"""Longer trials of a fleet on the real parts: `python -m tests.e2e.fleet_trials kills|scan|move`.

kills   20 SIGKILLs of processors, three of each of seven streams, a poison aggregate before each (at the sixth
        failure in a row, those of the JVM included, a stream gives up for ten minutes, as a worker of its own would);
        beside them a bucket that answers 403, a stream that is deleted and made again, and quiet streams with a
        record a second; then SIGKILL of the JVM, of the fork server and of the supervisor
scan    the lease table of one stream answers no Scan any more; another stream is split
move    a worker of one stream under load is frozen until a fleet reads the stream, and as long as --frozen says,
        thawed and stopped; then a worker of its own takes the stream back. `dedupe = claims`, producers repeat
        events, and another stream has events of the same ids

Exit code 0 only if what the trial is about was seen. Times are printed; they are those of a machine with other work.
"""

import argparse
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Final

from demo.bootstrap import ensure_java
from demo.embedded import EmbeddedAws
from demo.processes import Frozen, descendants
from demo.readback import compare
from minutebook.clock import SystemClock
from tests.e2e.fleet import FleetSite
from tests.e2e.harness import Application
from tests.e2e.test_fleet import await_checkpoint
from tests.e2e.worker import Worker, kill
from tests.fakes.aggregates import poison_aggregate
from tests.fakes.denying_dynamodb import deny
from tests.fakes.loopback import serving
from tests.witness.events import Event
from tests.witness.ledger import Sent
from tests.witness.waiting import wait_until

_CLOCK: Final = SystemClock()
_KILLS: Final = 20
_LEADER_SECONDS: Final = 300
_OTHERS_SECONDS: Final = 15
_REFUSAL: Final = b'<?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>'
Check = tuple[str, bool]
Trial = Callable[[EmbeddedAws, Path], list[Check]]


class Load(threading.Thread):
    """Puts a numbered record into each of some streams every second, and notes when."""

    def __init__(self, apps: Mapping[str, Application]) -> None:
        super().__init__(daemon=True)
        self._apps = apps
        self._stop_asked = threading.Event()
        self.put_at: dict[tuple[str, str], float] = {}

    def run(self) -> None:
        """Put."""
        while not self._stop_asked.wait(1):
            for name, app in self._apps.items():
                for place in app.producer.put_numbered(1):
                    self.put_at[name, str(place.position)] = _CLOCK.now_ms() / 1000

    def stop(self) -> None:
        """Stop, when the puts under way are answered."""
        self._stop_asked.set()
        self.join()

    def freshness(self, events: Sequence[Event]) -> list[float]:
        """Return the seconds from the put of the last record of each segment to its commit."""
        found = (self.put_at.get((event["properties"], str(event["last"]))) for event in events)
        at = [datetime.fromisoformat(event["timestamp"]).timestamp() for event in events]
        return [now - put for now, put in zip(at, found, strict=True) if put is not None]


def kills(  # noqa: C901, PLR0915 - one story
    aws: EmbeddedAws, folder: Path, quiet_count: int = 4, before_seconds: float = 40
) -> list[Check]:
    """Play the first trial."""
    quiet = tuple(f"quiet{number}" for number in range(quiet_count))
    victims = tuple(f"victim{number}" for number in range(7))
    site = FleetSite(aws, folder, (*victims, "again", *quiet), flushSeconds=2, checkpointIntervalSeconds=1)
    site.write()
    with _forbidden() as endpoint:
        text = (site.streams_folder / "again.properties").read_text().replace(aws.s3_endpoint, endpoint)
        for line in ("applicationName", "minutebook.bucket"):
            text = text.replace(f"{line} = ", f"{line} = barred-")
        (site.streams_folder / "barred.properties").write_text(text)
        site.seed()
        rng = random.Random(36)
        load = Load({name: site.apps[name] for name in quiet})
        with site.consume() as worker:
            for name in site.apps:
                worker.events.wait("shard_opened", properties=name)
            worker.events.wait("stream_not_opened", properties="barred")
            (barred,) = worker.events.all("preflight_failed", properties="barred")
            for name in (*victims, "again"):
                site.apps[name].producer.put_numbered(20)
                await_checkpoint(worker, name, site.apps[name])
            load.start()
            _CLOCK.sleep(before_seconds)
            mark = worker.events.mark()
            before = load.freshness(_commits(worker, quiet, 0))
            (java,) = worker.daemons()
            threads = _threads(java.pid)
            seconds = []
            for number in range(_KILLS):
                name = victims[number % len(victims)]
                site.apps[name].producer.put_undeclared([("p", poison_aggregate(rng, "p"))])
                site.apps[name].producer.put_numbered(10)
                seconds.append(kill_child(worker, name))
                if number == _KILLS // 4:
                    _make_again(site.apps["again"])
            for name in victims:
                site.apps[name].producer.put_numbered(10)
                await_checkpoint(worker, name, site.apps[name])
            after = load.freshness(_commits(worker, quiet, mark))
            threads_after, same = _threads(java.pid), [each.pid for each in worker.daemons()] == [java.pid]
            opened = {name: len(worker.events.all("shard_opened", properties=name)) for name in quiet}
            for processes in (worker.daemons, worker.fork_servers):
                mark = worker.events.mark()
                kill(processes()[0], signal.SIGKILL)
                for name in victims:
                    site.apps[name].producer.put_numbered(5)
                for name in (*victims, *quiet):
                    worker.events.wait("shard_opened", properties=name, since=mark)
                    worker.events.wait("segment_committed", properties=name, since=mark)
            refused = worker.events.wait("gave_up", properties="again")
            os.kill(worker.pid, signal.SIGKILL)
            worker.wait()
        load.stop()
        with site.consume() as worker:
            for name in (*victims, *quiet):
                site.apps[name].producer.put_numbered(5)
                await_checkpoint(worker, name, site.apps[name])
            worker.terminate()
            worker.wait()
    verdicts = {name: app.verdict() for name, app in site.apps.items()}
    say("seconds from SIGKILL of a child until its shard is open", [round(each, 1) for each in seconds])
    say("freshness of the quiet streams, before / during (median, p99)", [_two(before), _two(after)])
    say("threads of the JVM, before / after", [threads, threads_after])
    say("barred, and made again", [barred["error"][:90], refused["error"][:120]])
    return [
        ("the others log one shard_opened each", set(opened.values()) == {1}),
        ("the JVM is the same process", same),
        ("at most five threads more", threads_after - threads <= 5),
        ("the bucket's refusal is named", "403" in barred["error"]),
        ("the stream made again is refused", refused["exit_code"] != 0),
        *((f"0 lost, 0 doubled: {name}", is_once(verdict)) for name, verdict in verdicts.items()),
    ]


def scan(aws: EmbeddedAws, folder: Path) -> list[Check]:
    """Play the second trial: KCL reads the lease tables of all Schedulers of a JVM in one thread."""
    site = FleetSite(aws, folder, ("hangs", "split"), flushSeconds=2, checkpointIntervalSeconds=1)
    site.write()
    hanging, table = threading.Event(), site.apps["hangs"].name

    def tell(action: str, body: bytes) -> None:
        if action == "Scan" and hanging.is_set() and json.loads(body)["TableName"] == table:
            while hanging.is_set():
                _CLOCK.sleep(0.2)

    with deny(aws.dynamodb_endpoint, tell=tell) as endpoint:
        file = site.streams_folder / "hangs.properties"
        file.write_text(file.read_text().replace(aws.dynamodb_endpoint, endpoint))
        site.seed()
        with site.consume() as worker:
            for name in site.apps:
                worker.events.wait("shard_opened", properties=name)
            hanging.set()
            _CLOCK.sleep(20)
            app, took = site.apps["split"], []
            for _ in range(3):
                begun = _CLOCK.monotonic()
                for child in app.split(app.open_shards()[0]):
                    worker.events.wait("shard_opened", properties="split", shard=child)
                took.append(_CLOCK.monotonic() - begun)
            app.producer.put_numbered(30)
            await_checkpoint(worker, "split", app)
            hanging.clear()
            worker.terminate()
            worker.wait()
    say("seconds from a split until both children are open", [round(each, 1) for each in took])
    return [
        (f"another stream's split is open within {_OTHERS_SECONDS} s", max(took) <= _OTHERS_SECONDS),
        ("0 lost, 0 doubled", is_once(site.apps["split"].verdict())),
    ]


def move(aws: EmbeddedAws, folder: Path, frozen_seconds: float = 0) -> list[Check]:  # noqa: PLR0915 - one story
    """Play the third trial."""
    ours = {"dedupe": "claims", "eventId": "id", "flushSeconds": 2, "checkpointIntervalSeconds": 1}
    site = FleetSite(aws, folder, ("moves", "stays"), **ours)
    site.write("fleet")
    site.apps["moves"].seed_leases(dict.fromkeys(site.apps["moves"].open_shards(), "old"))
    site.apps["stays"].seed_leases(dict.fromkeys(site.apps["stays"].open_shards(), "fleet"))
    moves, stop = site.apps["moves"], threading.Event()
    copies = dict.fromkeys(site.apps, 0)

    def put() -> None:
        number = 0
        while not stop.wait(0.4):
            number += 1
            for name, app in site.apps.items():
                event = Sent("k", f'{{"id":"event-{number}"}}'.encode())
                app.producer.put([event])
                if number % 5 == 0:
                    app.producer.put([event])
                    copies[name] += 1

    thread = threading.Thread(target=put)
    with moves.consume("old") as old:
        old.events.wait("shard_opened")
        thread.start()
        _CLOCK.sleep(10)
        with site.consume("fleet") as fleet:
            fleet.events.wait("shard_opened", properties="stays")
            _CLOCK.sleep(10)
            begun = _CLOCK.monotonic()
            with Frozen([old.pid, *(process.pid for process in descendants(old.pid))]):
                fleet.events.wait("shard_opened", seconds=_LEADER_SECONDS, properties="moves")
                into = _CLOCK.monotonic() - begun
                fleet.events.wait("segment_committed", properties="moves")
                _CLOCK.sleep(max(10, begun + frozen_seconds - _CLOCK.monotonic()))
                frozen = _CLOCK.monotonic() - begun
            _CLOCK.sleep(15)  # thawed, and at work on what it held
            old.terminate()
            old.wait()
            _CLOCK.sleep(5)
            with moves.consume("new") as new:
                wait_until(lambda: "new" in moves.reports(), "the worker of its own reports")
                begun = _CLOCK.monotonic()
                fleet.terminate()
                new.events.wait("shard_opened", seconds=_LEADER_SECONDS)
                back = _CLOCK.monotonic() - begun
                fleet.wait()
                with site.consume("fleet") as last:  # for the stream that stays
                    _CLOCK.sleep(10)
                    stop.set()
                    thread.join()
                    for name, app in site.apps.items():
                        final = str(app.producer.last()[app.open_shards()[0]])
                        _await_either(name, final, {"": new, name: last})
                    new.terminate()
                    last.terminate()
                    new.wait()
                    last.wait()
    segments = {name: app.segments() for name, app in site.apps.items()}
    verdicts = {name: compare(segments[name], app.producer.fingerprints()) for name, app in site.apps.items()}
    dropped = {name: sum(len(each.dropped) for each in some) for name, some in segments.items()}
    say("seconds from the freeze until the fleet reads, and until it ends", [round(into, 1), round(frozen, 1)])
    say("seconds from SIGTERM of the fleet until the other one reads", round(back, 1))
    say("records sent, copies of producers, left out", [{n: v.sent for n, v in verdicts.items()}, copies, dropped])
    return [
        *((f"0 lost, 0 doubled: {name}", is_once(verdict)) for name, verdict in verdicts.items()),
        ("producers' copies are dropped, and nothing else", dropped == copies),
        ("an event id on two streams is archived twice", verdicts["moves"].archived > 0 < verdicts["stays"].archived),
    ]


def _await_either(name: str, position: str, workers: Mapping[str, Worker]) -> None:
    """Wait until a worker of the stream alone (""), or the fleet, has checkpointed a position."""
    fields = {key: {"properties": key} if key else {} for key in workers}
    wait_until(
        lambda: any(
            worker.events.all("checkpoint_written", position=position, **fields[key])
            for key, worker in workers.items()
        ),
        f"{name} has checkpointed {position}",
    )


@contextmanager
def _forbidden() -> Iterator[str]:
    """Serve an S3 that refuses everything; yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", "0")))
            self.send_response(403)
            self.send_header("Content-Length", "0" if self.command == "HEAD" else str(len(_REFUSAL)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(_REFUSAL)

        do_PUT = do_HEAD = do_POST = do_GET  # noqa: N815 - the names of http.server

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with serving(Handler) as address:
        yield address


def _make_again(app: Application) -> None:
    app.kinesis.delete_stream(StreamName=app.name)
    wait_until(app.is_gone, "the stream is deleted")
    app.kinesis.create_stream(StreamName=app.name, ShardCount=1)
    app.await_stream()
    for number in range(5):
        app.put_raw("k", b"of another stream %d" % number)


def kill_child(worker: Worker, name: str) -> float:
    """Kill the processor of a stream's last opened shard; return the seconds until its shard is open again."""
    opened = worker.events.all("shard_opened", properties=name)[-1]
    mark, begun = worker.events.mark(), _CLOCK.monotonic()
    (child,) = [process for process in worker.processors() if process.pid == opened["pid"]]
    kill(child, signal.SIGKILL)
    worker.events.wait("shard_opened", properties=name, since=mark)
    return _CLOCK.monotonic() - begun


def _commits(worker: Worker, names: Sequence[str], since: int) -> list[Event]:
    return [event for event in worker.events.all("segment_committed", since=since) if event["properties"] in names]


def _threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def _two(seconds: Sequence[float]) -> list[float]:
    """Return the median, the 99th percentile, and of how many."""
    return [round(statistics.median(seconds), 2), round(statistics.quantiles(seconds, n=100)[98], 2), len(seconds)]


def is_once(verdict: object) -> bool:
    """Tell whether nothing is lost, doubled or wrong."""
    wrong = ("lost", "duplicated", "altered", "unknown", "broken")
    return not any(getattr(verdict, name) for name in wrong)


def say(what: str, value: object) -> None:
    """Print a figure."""
    print(f"{what}: {value}", flush=True)  # noqa: T201 - what the trial shows


_TRIALS: Final[Mapping[str, Trial]] = {
    "kills": kills,
    "scan": scan,
    "move": move,
}


def main(arguments: Sequence[str]) -> int:
    """Play one or more trials."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.e2e.fleet_trials", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("trials", nargs="+", choices=sorted(_TRIALS))
    parser.add_argument("--frozen", type=float, default=0, help="seconds for `move`, at the least")
    parser.add_argument("--quiet", type=int, default=4, help="quiet streams of `kills` (31 make a fleet of forty)")
    parser.add_argument("--before", type=float, default=40, help="seconds of `kills` before the first one")
    options = parser.parse_args(arguments)
    trials: Mapping[str, Trial] = {
        **_TRIALS,
        "kills": partial(kills, quiet_count=options.quiet, before_seconds=options.before),
        "move": partial(move, frozen_seconds=options.frozen),
    }
    os.environ["PATH"] = f"{ensure_java().parent}:{os.environ['PATH']}"
    is_well = True
    for name in options.trials:
        with tempfile.TemporaryDirectory() as folder, EmbeddedAws(Path(folder) / "aws") as aws:
            for what, held in trials[name](aws, Path(folder)):
                say(f"{name}: {what}", "yes" if held else "NO")
                is_well = is_well and held
    say("load at the end", round(os.getloadavg()[0], 1))
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
