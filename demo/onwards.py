"""The last acts: until when is the archive complete? And from there on, another KCL application goes on.

    stream             ...flights| quiet, a shard is split     |500 flights|
    archive                              `minutebook wait` returns
    a cut                     |  (two minutes before the quiet)
    next application          |....................its leases begin there--------|

Each record must lie before the cut, by `minutebook cat --before`, or be archived by the next application: in one of
the two, and in one alone.
"""

import json
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from demo.feeder import Feeder
from demo.front_door import run_minutebook
from demo.ledger import RecordRef
from demo.readback import read_archive
from demo.screen import Screen
from demo.stage import PREFIX, Stage
from minutebook.errors import MinutebookError
from minutebook.format.minute import MINUTE_MS, iso_time
from minutebook.format.position import Position

NEXT_PREFIX = "next/"
_NEXT = "minutebook-demo-next"
_EVENTS = 500
_WAIT_SECONDS = 600
_COMMAND_SECONDS = 120
_ARCHIVE_SECONDS = 240


class Onwards(NamedTuple):
    """What came of it: how long `wait` took, and the records before the cut, behind it, in both, and in neither."""

    waited_seconds: float
    before: int
    behind: int
    in_both: int
    in_neither: int

    @property
    def is_exact(self) -> bool:
        """Whether each record lies on exactly one side, and there are some on both."""
        return self.before > 0 and self.behind > 0 and not self.in_both and not self.in_neither


def play_onwards(stage: Stage, screen: Screen, feeder: Feeder, tick: Callable[[], None], fed_ms: int) -> Onwards:
    """Play; raises MinutebookError where a command refuses, or something takes too long.

    The feed was over at `fed_ms`. The cut lies two minutes before: segments prove that time of every shard, and no
    quiet one must wait for its hourly mark.
    """
    acts = _Acts(stage, screen, tick)
    shard = stage.open_shards()[0]
    screen.act(
        f"the stream is quiet, and {shard} is split; `minutebook wait` asks until all that was sent is archived"
    )
    stage.split(shard)
    at = iso_time(stage.clock.now_ms() + 1000)
    begun = stage.clock.monotonic()
    acts.run("wait", "--until", at, "--timeout", f"{_WAIT_SECONDS}s", seconds=2 * _WAIT_SECONDS)
    waited = stage.clock.monotonic() - begun
    screen.result(f"complete until {at}, said after {waited:.0f} s")
    cut, cut_at = str(stage.folder / "cut.json"), iso_time(fed_ms // MINUTE_MS * MINUTE_MS - 2 * MINUTE_MS)
    screen.act(f"the archive is cut at {cut_at}, and another KCL application goes on behind the cut")
    acts.run("cut", "--at", cut_at, "--out", cut)
    acts.run("handover", "--cut", cut, "--application", _NEXT, "--apply")
    worker = stage.start_next(_NEXT, NEXT_PREFIX)
    feeder.feed_more(_EVENTS)
    before, sent = _refs(acts.run("cat", "--before", cut, "--format", "json")), feeder.sent()

    def is_archived() -> bool:
        tick()
        if stage.count_archived() < sent:
            return False
        # Read only now: lines that were counted while some were still on their way would end the wait too early.
        lines = sum(len(segment.records) for segment in read_archive(stage.store, PREFIX))
        return stage.count_next(NEXT_PREFIX) >= lines - len(before)

    worker.wait_until(is_archived, seconds=_ARCHIVE_SECONDS)
    worker.stop()
    archived = [record.ref for segment in read_archive(stage.store, PREFIX) for record in segment.records]
    behind = [record.ref for segment in read_archive(stage.store, NEXT_PREFIX) for record in segment.records]
    onwards = _compare(archived, before, behind, waited)
    screen.result(f"{onwards.before:,} records before the cut, {onwards.behind:,} behind it, each on one side")
    return onwards


def _compare(
    archived: Sequence[RecordRef], before: Sequence[RecordRef], behind: Sequence[RecordRef], waited: float
) -> Onwards:
    times = Counter([*before, *behind])
    everything = {*archived, *times}
    return Onwards(
        waited_seconds=waited,
        before=len(before),
        behind=len(behind),
        in_both=sum(1 for count in times.values() if count > 1),
        in_neither=sum(1 for ref in everything if ref not in times),
    )


class _Acts:
    """Commands as an operator types them, while the screen goes on."""

    def __init__(self, stage: Stage, screen: Screen, tick: Callable[[], None]) -> None:
        self._stage = stage
        self._screen = screen
        self._tick = tick

    def run(self, command: str, *options: str, seconds: float = _COMMAND_SECONDS) -> str:
        """Run a command on the archive; return what it prints on stdout."""
        words = [command, str(self._stage.properties("a")), *options]
        done = list[subprocess.CompletedProcess[str]]()
        errors = list[MinutebookError]()

        def run() -> None:
            try:
                done.append(run_minutebook(words, self._stage.environment, seconds))
            except MinutebookError as exc:
                errors.append(exc)

        thread = threading.Thread(target=run)
        thread.start()
        while thread.is_alive():
            self._tick()
            thread.join(0.5)
        if errors:
            raise errors[0]
        [answer] = done
        if answer.returncode:
            raise MinutebookError(
                f"minutebook {command} ended with {answer.returncode}: {answer.stderr.strip()}",
                next_step=f"run it again by hand: minutebook {' '.join(words)}",
            )
        return answer.stdout


def _refs(lines: str) -> list[RecordRef]:
    rows = map(json.loads, lines.splitlines())
    return [
        RecordRef(row["shard_id"], Position(int(row["sequence_number"]), row["sub_sequence_number"])) for row in rows
    ]
