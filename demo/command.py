"""`minutebook demo`: the main job on real flights, on an embedded AWS, from one command."""

import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

from rich.console import Console

from archive.clock import Clock, SystemClock
from archive.errors import MinutebookError
from demo.embedded import EmbeddedAws
from demo.feeder import Feeder, Pace
from demo.flights import read_flights
from demo.ledger import Ledger
from demo.readback import compare, read_archive
from demo.report import Findings, print_report
from demo.scenario import Outcome, Scenario
from demo.screen import Screen
from demo.stage import PREFIX, STREAM, Stage, fresh_folder

EVENTS = 22_000
FEED_SECONDS = 190.0
_FEED_LIMIT_SECONDS = 600
_DRAIN_SECONDS = 150
_INTERRUPTED = 130


def demo(*, events: int = EVENTS, seconds: float = FEED_SECONDS, seed: int = 2013) -> int:
    """Play the scenario; return 0 only if no record is lost, doubled or altered.

    Everything of the run stays in a folder under `.demo/` of the checkout; no process does.
    """
    console, clock = Console(), SystemClock()
    folder = fresh_folder(clock)
    pace = Pace(events, seconds)
    try:
        with _stopped_by_sigterm():
            findings = _play(console, clock, folder, pace, random.Random(seed))  # noqa: S311 - repeatable on purpose
    except KeyboardInterrupt:
        console.print("stopped; no process of the demo is left")
        return _INTERRUPTED
    except MinutebookError as exc:
        console.print(f"[red]{exc}[/]\n{exc.next_step or 'read the logs'}", highlight=False, soft_wrap=True)
        console.print(f"logs and properties: {folder}", highlight=False, soft_wrap=True)
        return exc.exit_code
    print_report(console, findings)
    console.print(f"logs, properties and the bucket's files: {folder}", highlight=False, soft_wrap=True)
    return 0 if findings.is_proven else 1


def _play(console: Console, clock: Clock, folder: Path, pace: Pace, rng: random.Random) -> Findings:
    console.print("Kinesis, S3 and DynamoDB start on this machine (the first time, they are downloaded)")
    with EmbeddedAws(folder / "aws", clock=clock) as aws, Stage(folder, aws, clock) as stage:
        stage.build()
        ledger = Ledger()
        feeder = Feeder(stage.feeding_client(), STREAM, read_flights(), ledger, pace, clock=clock, rng=rng)
        with Screen(console, clock, total=pace.events) as screen:
            feeder.start()
            try:
                outcome = _run(stage, screen, feeder, ledger)
            finally:
                feeder.stop()
            screen.act("the archive is read back and compared with the ledger")
            segments = read_archive(stage.store, PREFIX)
        return Findings(
            verdict=compare(segments, ledger.records()),
            segments=segments,
            totals=ledger.totals(),
            outcome=outcome,
            puts=stage.segment_puts(),
        )


def _run(stage: Stage, screen: Screen, feeder: Feeder, ledger: Ledger) -> Outcome:
    """Play the acts, wait until all that was sent is archived, and stop the workers.

    What is not archived in time is not waited for any longer: the comparison names it.
    """
    archived, counted_at = 0, stage.clock.monotonic()

    def tick() -> None:
        nonlocal archived, counted_at
        feeder.check()
        if stage.clock.monotonic() - counted_at >= 1:
            archived, counted_at = stage.count_archived(), stage.clock.monotonic()
        screen.count(sent=ledger.totals().records, archived=archived)

    def is_fed() -> bool:
        tick()
        return not feeder.is_alive()

    def is_drained() -> bool:
        tick()
        return archived >= ledger.totals().records or stage.clock.monotonic() > deadline

    outcome = Scenario(stage, screen, tick).play()
    leader = stage.workers["a"]
    screen.act("the last flights are sent")
    leader.wait_until(is_fed, seconds=_FEED_LIMIT_SECONDS)
    feeder.check()
    screen.act("the last minutes are archived")
    deadline = stage.clock.monotonic() + _DRAIN_SECONDS
    leader.wait_until(is_drained, seconds=2 * _DRAIN_SECONDS)
    if archived < ledger.totals().records:
        screen.result(f"not everything was archived within {_DRAIN_SECONDS} s: it may be in the stream still")
    for worker in stage.workers.values():
        worker.stop()
    return outcome


@contextmanager
def _stopped_by_sigterm() -> Iterator[None]:
    """Let SIGTERM unwind like Ctrl-C, so that every child is reaped."""

    def interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
