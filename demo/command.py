"""`minutebook demo`: the main job on real flights, on an embedded AWS, from one command."""

import os
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple, NoReturn

from rich.console import Console

from demo.embedded import EmbeddedAws, beside_proxies
from demo.feeder import Feeder, Pace
from demo.flights import read_flights
from demo.ledger import Ledger
from demo.nightly import Nightly, is_installed, run_nightly, tamper_with
from demo.onwards import Onwards, play_onwards
from demo.readback import StoredSegment, compare, read_archive
from demo.report import Findings, print_nightly, print_report
from demo.retries import SETTINGS, Mode, count_retries
from demo.scenario import Outcome, Scenario
from demo.screen import Screen
from demo.stage import BUCKET, PREFIX, STREAM, Stage, fresh_folder
from demo.table import NAME
from demo.tamper import Tampered, print_tampered
from minutebook.clock import Clock, SystemClock
from minutebook.errors import MinutebookError, SettingsError

EVENTS = 22_000
FEED_SECONDS = 190.0
_FEED_LIMIT_SECONDS = 600
_DRAIN_SECONDS = 150
_INTERRUPTED = 130
_LATE_RETRIES = 3
"""Events of each batch of 50 that the producer sends again more than a minute later."""


class Play(NamedTuple):
    """What is played."""

    mode: Mode | None
    nightly: bool
    tamper: bool
    pace: Pace
    rng: random.Random


def demo(
    dedupe: str | None = None,
    *,
    nightly: bool = True,
    tamper: bool = False,
    events: int = EVENTS,
    seconds: float = FEED_SECONDS,
    seed: int = 2013,
) -> int:
    """Play the scenario; return 0 only if no record is lost, doubled or altered, and the nightly job finds no fault.

    `dedupe` is a mode of producer deduplication; None leaves the producer's retries in the archive. With `tamper`,
    copies of the archive are broken afterwards, and the audit must name what was done to each. Everything of the run
    stays in a folder under `.demo/` of the checkout; no process does.
    """
    mode = _mode(dedupe)
    if tamper and not (nightly and is_installed()):
        raise SettingsError("--tamper needs the nightly job", next_step="run `make setup` in the checkout")
    os.environ.update(beside_proxies(os.environ))
    console, clock = Console(), SystemClock()
    folder = fresh_folder(clock)
    pace = Pace(events, seconds, late_retries=_LATE_RETRIES)
    play = Play(mode, nightly, tamper, pace, rng=random.Random(seed))  # noqa: S311 - repeatable on purpose
    try:
        with _stopped_by_sigterm():
            findings = _play(console, clock, folder, play)
    except KeyboardInterrupt:
        console.print("stopped; no process of the demo is left")
        return _INTERRUPTED
    except MinutebookError as exc:
        console.print(f"[red]{exc}[/]\n{exc.next_step or 'read the logs'}", highlight=False, soft_wrap=True)
        console.print(f"logs and properties: {folder}", highlight=False, soft_wrap=True)
        return exc.exit_code
    console.print(f"logs, properties and the bucket's files: {folder}", highlight=False, soft_wrap=True)
    return 0 if findings.is_proven else 1


def _mode(text: str | None) -> Mode | None:
    modes: dict[str | None, Mode | None] = {None: None, "off": None, "claims": "claims", "watermark": "watermark"}
    if text not in modes:
        raise SettingsError(f"no mode {text!r}", next_step="--dedupe takes claims, watermark or off")
    return modes[text]


def _play(console: Console, clock: Clock, folder: Path, play: Play) -> Findings:
    console.print("Kinesis, S3 and DynamoDB start on this machine (the first time, they are downloaded)")
    with EmbeddedAws(folder / "aws", clock=clock) as aws, _stage(folder, aws, clock, play) as stage:
        stage.build()
        ledger = Ledger()
        flights = read_flights(numbered=play.mode == "watermark")
        feeder = Feeder(stage.feeding_client(), STREAM, flights, ledger, play.pace, clock=clock, rng=play.rng)
        with Screen(console, clock, total=play.pace.events) as screen:
            feeder.start()
            try:
                outcome, onwards = _run(stage, screen, feeder, ledger)
            finally:
                feeder.stop()
            screen.act("the archive is read back and compared with the ledger")
            segments = read_archive(stage.store, PREFIX)
        findings = Findings(
            verdict=compare(segments, ledger.records()),
            segments=segments,
            retries=count_retries(play.mode, STREAM, segments, ledger.events(), outcome.recoveries),
            outcome=outcome,
            puts=stage.segment_puts(),
            onwards=onwards,
        )
        print_report(console, findings)
        if not play.nightly:
            return findings
        findings = findings.with_nightly(_nightly(console, stage, segments))
        return findings.with_tampered(_tamper(console, stage, segments)) if play.tamper else findings


def _stage(folder: Path, aws: EmbeddedAws, clock: Clock, play: Play) -> Stage:
    return Stage(folder, aws, clock, SETTINGS[play.mode])


def _nightly(console: Console, stage: Stage, segments: list[StoredSegment]) -> Nightly | None:
    """Run the nightly job where it is installed."""
    if not is_installed():
        console.print("without the nightly job: PySpark is not installed; `make setup` brings it")
        return None
    nightly = run_nightly(console, stage, segments)
    print_nightly(console, nightly)
    return nightly


def _tamper(console: Console, stage: Stage, segments: list[StoredSegment]) -> list[Tampered]:
    """Audit broken copies of the archive."""
    console.print("copies of the archive are broken, one after the other, and audited", highlight=False)
    client, place = stage.aws.s3_client(), (BUCKET, PREFIX)
    results = tamper_with(client, place, stage.properties("a"), segments, stage.environment)
    print_tampered(console, results)
    return results


def _run(stage: Stage, screen: Screen, feeder: Feeder, ledger: Ledger) -> tuple[Outcome, Onwards]:
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

    outcome = Scenario(stage, screen, tick=tick, retry=feeder.retry_recent).play()
    leader = stage.workers["a"]
    shown = stage.read_table()
    if shown is not None:
        screen.result(f"the table {NAME} has {shown.total:,} rows already, of what was archived until {shown.until}")
    screen.act("the last flights are sent")
    leader.wait_until(is_fed, seconds=_FEED_LIMIT_SECONDS)
    feeder.check()
    fed_ms = stage.clock.now_ms()
    screen.act("the last minutes are archived")
    deadline = stage.clock.monotonic() + _DRAIN_SECONDS
    leader.wait_until(is_drained, seconds=2 * _DRAIN_SECONDS)
    if archived < ledger.totals().records:
        screen.result(f"not everything was archived within {_DRAIN_SECONDS} s: it may be in the stream still")
    onwards = play_onwards(stage, screen, feeder, tick, fed_ms)
    for worker in stage.workers.values():
        worker.stop()
    return outcome, onwards


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
