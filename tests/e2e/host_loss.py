"""Hosts that are lost for good, on the real daemon: `python -m tests.e2e.host_loss --runs 50`, or `make hostloss`.

Two workers hold two shards each, and a producer never stops. One worker's whole process group is killed at one
moment and never comes back: the one that leads, or the other. In between the survivor's daemon may be killed, or all
of the survivor restarted. A run tells how long it took until every shard got further, and what is lost or doubled.

Each run mostly waits: two sites, each with an embedded AWS of its own, run side by side. Exit code 0 only if every
run kept the bound and lost or doubled nothing.
"""

import argparse
import itertools
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, NamedTuple, get_args

from demo.embedded import EmbeddedAws
from demo.processes import descendants, send
from demo.readback import Verdict, count_archived
from minutebook.clock import SystemClock
from minutebook.format.position import Position
from tests.chaos.feeder import Feeder
from tests.e2e.harness import PREFIX, Application
from tests.e2e.worker import Worker, is_running
from tests.witness.waiting import wait_until

BOUND_SECONDS: Final = 150
_PATIENCE_SECONDS: Final = 420
_DRAIN_SECONDS: Final = 240
_RATE: Final = 4
_WORKERS: Final = ("w1", "w2")
_RESTARTS_AT: Final = (10, 60)
"""Seconds after the loss, unless every shard is read again by then: KCL's own patience begins anew each time."""
_TICK_SECONDS: Final = 0.25
_ROOT: Final = Path(__file__).parents[2]

Restart = Literal["none", "daemon", "worker"]


class Plan(NamedTuple):
    """One run: who is lost, and what happens to the other meanwhile."""

    number: int
    leader: bool
    restart: Restart

    def __str__(self) -> str:
        lost = "the leader" if self.leader else "a worker"
        return (
            f"{lost} is lost, "
            + {
                "none": "the other is left alone",
                "daemon": "the other's daemon is killed twice",
                "worker": "the other is restarted twice",
            }[self.restart]
        )


class Outcome(NamedTuple):
    """What a run came to. `seconds` until every shard got further; None: it never did."""

    seconds: float | None
    verdict: Verdict
    told: Sequence[str]
    exit_code: int

    @property
    def is_good(self) -> bool:
        """Tell whether the bound was kept, and nothing is lost or doubled."""
        return self.seconds is not None and self.seconds <= BOUND_SECONDS and self.verdict.is_clean

    def __str__(self) -> str:
        verdict = self.verdict
        read = "never read again" if self.seconds is None else f"read again after {self.seconds:5.1f} s"
        return (
            f"{read}; sent {verdict.sent}, lost {len(verdict.lost)}, doubled {len(verdict.duplicated)}, "
            f"broken {len(verdict.broken)}; exit code {self.exit_code}; {', '.join(self.told) or 'no event'}"
        )


def plans(first: int, step: int, runs: int) -> Iterator[Plan]:
    """Return the plans of one site: every way in turn."""
    ways = list(itertools.product((True, False), get_args(Restart)))
    for number in range(first, runs, step):
        leader, restart = ways[number % len(ways)]
        yield Plan(number, leader, restart)


@dataclass
class Run:
    """A run on a site. `clock` is real."""

    aws: EmbeddedAws
    folder: Path
    plan: Plan
    clock: SystemClock = field(default_factory=SystemClock)

    def play(self) -> Outcome:
        """Start, lose a host, wait, drain, look."""
        app = Application(self.aws, self.folder, shards=4, flushSeconds=1, checkpointIntervalSeconds=1)
        shards = app.open_shards()
        app.seed_leases({shard: _WORKERS[number % 2] for number, shard in enumerate(shards)})
        feeder = Feeder(app.producer, random.Random(self.plan.number), _RATE)
        lives: list[Worker] = []
        try:
            with app.consume("w1") as one, app.consume("w2") as two:
                workers = dict(zip(_WORKERS, (one, two), strict=True))
                feeder.start()
                survivor, name = self._lose(app, workers)
                lives = [survivor]
                began = self.clock.monotonic()
                seconds = self._await_readers(app, feeder, lives, name, began)
                feeder.stop()
                feeder.check()
                code = self._drain(app, lives[-1])
        finally:
            feeder.stop()
            for life in lives:
                life.__exit__()
        names = ("leader_lock_dead", "shard_without_reader", "daemon_restarting", "gave_up")
        told = [f"{n} {len(found)}" for n in names if (found := [e for life in lives for e in life.events.all(n)])]
        (self.folder / "survivor.log").write_text("\n".join(line for life in lives for line in life.events.lines))
        return Outcome(seconds, app.verdict(), told, code)

    def _lose(self, app: Application, workers: dict[str, Worker]) -> tuple[Worker, str]:
        """Wait until all are at work, kill a whole host, and return the other one and its name."""
        shards = app.open_shards()
        for number, shard in enumerate(shards):
            workers[_WORKERS[number % 2]].events.wait("segment_committed", shard=shard)
        wait_until(lambda: app.leader() is not None, "a leader is elected")
        leads = app.leader()
        name = next(name for name in _WORKERS if (name == leads) != self.plan.leader)
        victim = next(worker for other, worker in workers.items() if other != name)
        pids = [victim.pid, *(process.pid for process in descendants(victim.pid))]
        # At one moment: nobody sees the others die, and asks for anything.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in pids:
                send(pid, number)
        return workers[name], name

    def _await_readers(
        self, app: Application, feeder: Feeder, lives: list[Worker], name: str, began: float
    ) -> float | None:
        """Return the seconds until every shard got further than it was at the loss and at each restart."""
        due = [began + seconds for seconds in _RESTARTS_AT]
        marks, seen = _ends(app), [life.events.mark() for life in lives]
        while (now := self.clock.monotonic()) - began < _PATIENCE_SECONDS:
            feeder.check()
            if due and now >= due[0] and self.plan.restart != "none":
                due.pop(0)
                if self._restart(app, lives, name):
                    marks, seen = _ends(app), [life.events.mark() for life in lives]
            if not _behind(lives, seen, marks):
                return self.clock.monotonic() - began
            if not is_running(lives[-1].pid):
                lives.append(app.consume(name))
                seen.append(0)
            self.clock.sleep(_TICK_SECONDS)
        return None

    def _restart(self, app: Application, lives: list[Worker], name: str) -> bool:
        """Kill the survivor's daemon, or restart all of the survivor; tell whether anything was done."""
        if self.plan.restart == "daemon":
            daemons = lives[-1].daemons()
            for daemon in daemons:
                send(daemon.pid, signal.SIGKILL)
            return bool(daemons)
        lives[-1].terminate()
        lives[-1].wait()
        lives.append(app.consume(name))
        return True

    def _drain(self, app: Application, survivor: Worker) -> int:
        counted: dict[str, int] = {}
        sent = len(app.producer.ledger)
        deadline = self.clock.monotonic() + _DRAIN_SECONDS
        while count_archived(app.store, PREFIX, counted) < sent and self.clock.monotonic() < deadline:
            self.clock.sleep(1)
        survivor.terminate()
        return survivor.wait()


def _ends(app: Application) -> dict[str, Position]:
    """Return the last acknowledged position of each shard, while the feeder puts more."""
    ends: dict[str, Position] = {}
    for shard, position in list(app.producer.ledger):
        ends[shard] = max(position, ends.get(shard, position))
    return ends


def _behind(lives: Sequence[Worker], seen: Sequence[int], marks: dict[str, Position]) -> set[str]:
    """Return the shards of which nothing behind its mark was committed since."""
    reached: dict[str, Position] = {}
    for life, since in zip(lives, seen, strict=True):
        for event in life.events.all("segment_committed", since=since):
            last = Position.parse(event["last"])
            reached[event["shard"]] = max(last, reached.get(event["shard"], last))
    return {shard for shard, mark in marks.items() if shard not in reached or reached[shard] <= mark}


def main(arguments: list[str]) -> int:
    """Play the runs; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.host_loss", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--runs", type=int, default=50, help="how many hosts are lost (50)")
    parser.add_argument("--sites", type=int, default=2, help="how many runs side by side, each with its own AWS (2)")
    parser.add_argument("--first", type=int, default=0, help="the number of the first run (0)")
    parser.add_argument("--site", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.site is not None:
        return _play_site(options.first + options.site, options.sites, options.first + options.runs)
    sites = min(options.sites, options.runs)
    shared = [f"--runs={options.runs}", f"--first={options.first}", f"--sites={sites}"]
    with _all([[*shared, f"--site={number}"] for number in range(sites)]) as processes:
        codes = [process.wait() for process in processes]
    print("ALL GOOD" if not any(codes) else "NOT ALL GOOD", flush=True)  # noqa: T201 - what the command shows
    return max(codes)


@contextmanager
def _all(commands: Sequence[list[str]]) -> Iterator[list[subprocess.Popen[bytes]]]:
    processes = [subprocess.Popen([sys.executable, "-m", "tests.e2e.host_loss", *words]) for words in commands]
    try:
        yield processes
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()


def _play_site(first: int, step: int, runs: int) -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = _ROOT / ".demo" / f"host-loss-{SystemClock().now_ms()}-{os.getpid()}"
    folder.mkdir(parents=True)
    is_good = True
    with EmbeddedAws(folder / "aws") as aws:
        for plan in plans(first, step, runs):
            place = folder / f"run-{plan.number}"
            place.mkdir()
            outcome = Run(aws, place, plan).play()
            is_good = is_good and outcome.is_good
            mark = "ok " if outcome.is_good else "BAD"
            print(f"{mark} run {plan.number}: {plan}: {outcome}; {place}", flush=True)  # noqa: T201 - same
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
