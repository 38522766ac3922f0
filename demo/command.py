"""`minutebook demo`: the main job on real flights, on an embedded AWS, from one command."""

import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from rich.console import Console
from rich.table import Table

from archive.clock import Clock, SystemClock
from archive.errors import MinutebookError
from demo.embedded import EmbeddedAws
from demo.feeder import Feeder, Pace
from demo.flights import read_flights
from demo.ledger import Ledger, LedgerTotals
from demo.readback import StoredSegment, Verdict, compare, read_archive
from demo.scenario import Outcome, Scenario
from demo.screen import Screen
from demo.stage import PREFIX, STREAM, Stage, fresh_folder

if TYPE_CHECKING:
    import random

EVENTS = 22_000
FEED_SECONDS = 190.0
_DRAIN_SECONDS = 150
_INTERRUPTED = 130


def demo(*, events: int = EVENTS, seconds: float = FEED_SECONDS, seed: int = 2013) -> int:
    """Play the scenario; return 0 only if no record is lost, doubled or altered.

    Everything of the run stays in a folder under `.demo/`; no process does.
    """
    import random  # noqa: PLC0415 - beside the seed

    console, clock = Console(), SystemClock()
    folder = fresh_folder(clock)
    pace = Pace(events, seconds)
    try:
        with _stopped_by_sigterm():
            return _play(console, clock, folder, pace, random.Random(seed))  # noqa: S311 - a scenario, repeatable
    except KeyboardInterrupt:
        console.print("stopped; every process of the demo is gone")
        return _INTERRUPTED
    except MinutebookError as exc:
        console.print(f"[red]{exc}[/]\n{exc.next_step or f'read the logs in {folder}'}", highlight=False, soft_wrap=True)
        return exc.exit_code


def _play(console: Console, clock: Clock, folder: Path, pace: Pace, rng: "random.Random") -> int:
    console.print("Kinesis, S3 and DynamoDB start on this machine (the first time they are downloaded)", soft_wrap=True)
    with EmbeddedAws(folder / "aws", clock=clock) as aws, Stage(folder, aws, clock) as stage:
        stage.build()
        ledger = Ledger()
        feeder = Feeder(aws.kinesis_client(), STREAM, read_flights(), ledger, pace, clock=clock, rng=rng)
        with Screen(console, clock, total=pace.events) as screen:
            feeder.start()
            try:
                outcome = _run(stage, screen, feeder, ledger)
            finally:
                feeder.stop()
            screen.act("the archive is read back and compared with the ledger")
            segments = read_archive(stage.store, PREFIX)
            verdict = compare(segments, ledger.records())
        _report(console, verdict, segments, ledger.totals(), outcome)
        console.print(f"logs, properties and the bucket's files: {folder}", highlight=False, soft_wrap=True)
        return 0 if verdict.is_clean and outcome.fenced else 1


def _run(stage: Stage, screen: Screen, feeder: Feeder, ledger: Ledger) -> Outcome:
    """Play the acts, wait until all that was sent is archived, and stop the workers."""
    archived, counted_at = 0, stage.clock.monotonic()

    def tick() -> None:
        nonlocal archived, counted_at
        feeder.check()
        if stage.clock.monotonic() - counted_at >= 1:
            archived, counted_at = stage.count_archived(), stage.clock.monotonic()
        screen.count(sent=ledger.totals().records, archived=archived)

    def has_ended() -> bool:
        tick()
        return not feeder.is_alive()

    def is_drained() -> bool:
        tick()
        return archived >= ledger.totals().records

    outcome = Scenario(stage, screen, tick).play()
    leader = stage.workers["a"]
    screen.act("the last flights are sent")
    leader.wait_until(has_ended, seconds=600)
    feeder.check()
    screen.act("the last minutes are archived")
    deadline = stage.clock.monotonic() + _DRAIN_SECONDS
    leader.wait_until(lambda: is_drained() or stage.clock.monotonic() > deadline, seconds=2 * _DRAIN_SECONDS)
    for worker in stage.workers.values():
        worker.stop()
    return outcome


def _report(
    console: Console, verdict: Verdict, segments: list[StoredSegment], totals: LedgerTotals, outcome: Outcome
) -> None:
    per_minute = Counter((segment.metadata.shard_id, segment.metadata.minute) for segment in segments)
    arrivals = [segment.metadata for segment in segments]
    span = (max(one.arrival_max_ms for one in arrivals) - min(one.arrival_min_ms for one in arrivals)) / 1000
    table = Table(title="Minutebook: what was sent, and what the archive holds", show_header=False)
    rows = [
        ("sent (acknowledged by the stream)", f"{verdict.sent:,}"),
        ("  of these, producer retries", f"{totals.retries:,}"),
        ("archived", f"{verdict.archived:,}"),
        ("lost", f"{len(verdict.lost):,}"),
        ("duplicated", f"{len(verdict.duplicated):,}"),
        ("altered or unknown", f"{len(verdict.altered) + len(verdict.unknown):,}"),
        ("broken chains", f"{len(verdict.broken):,}"),
        ("minutes of arrival", f"{span / 60:.1f}"),
        ("objects", f"{len(segments):,} of {len({shard for shard, _ in per_minute})} shards"),
        ("PUTs per shard and minute", f"{outcome.puts / len(per_minute):.2f}"),
        ("late PUTs of the zombie refused", f"{outcome.fenced}"),
        ("take-over of a frozen worker's shards", f"{outcome.takeover_seconds:.0f} s"),
        *((f"{one.what}: back after", f"{one.seconds:.0f} s") for one in outcome.recoveries),
    ]
    for name, value in rows:
        table.add_row(name, value)
    console.print(table)
    for line in verdict.broken[:5]:
        console.print(f"[red]{line}[/]", highlight=False, soft_wrap=True)
    for name, places in (("lost", verdict.lost), ("duplicated", verdict.duplicated)):
        for place in places[:5]:
            console.print(f"[red]{name}: {place.shard_id} {place.position}[/]", highlight=False, soft_wrap=True)


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


if __name__ == "__main__":
    sys.exit(demo())
