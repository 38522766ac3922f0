"""Read marks: what they cost at many quiet shards, and whether the daemon's own reads keep their share beside them.

Two parts. A quiet shard's day, played through by the product's own code on simulated services: the requests of
--day-of such shards, their price, and how many marks fall due in one second. Measured: the real daemon on the
embedded stream, with quiet shards and one busy one, in windows with and without marks, which are written hundreds of
times as often as in production. A mark shares its shard's five GetRecords a second with KCL, and a batch waits on the
pipe while a processor asks for one.
"""

import argparse
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from archive.clock import SystemClock
from archive.coverage.continuity import spread_of
from benchmarks import marking_processor
from benchmarks.marking_processor import Call, is_marking
from demo.bootstrap import ensure_java
from demo.embedded import EmbeddedAws
from tests.e2e.harness import Application
from tests.e2e.worker import Worker
from tests.simulation.histories.quiet_day import HELD, QuietDay
from tests.simulation.search import silence
from tests.witness.waiting import wait_until

_CLOCK: Final = SystemClock()
_FED_SECONDS: Final = 0.1
_SETTLE_SECONDS: Final = 70
"""A mark says nothing of the last minute, and the first one of a new shard says that of its birth."""
_MOST_A_SECOND: Final = 5
"""GetRecords of one shard, everybody's together (Kinesis Data Streams, quotas)."""
_DOLLARS: Final = {"PUT": 5e-6, "LIST": 5e-6, "GET": 4e-7}
"""S3 Standard, us-east-1. Kinesis asks nothing for GetShardIterator, GetRecords and ListShards."""


class Window(NamedTuple):
    """One quiet shard's calls in a whole window: with marks or without."""

    marking: bool
    calls: Sequence[Call]

    @property
    def reads(self) -> int:
        """How often KCL read the shard: it hands each answer over, the empty ones too."""
        return len(self.calls)


def main(arguments: list[str]) -> int:
    """Run both parts; the ratio is that of KCL's reads in windows with marks to those without."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks read_marks", description=__doc__)
    parser.add_argument("--day-of", type=int, default=1000, help="shards of the arithmetic (default 1000)")
    parser.add_argument("--shards", type=int, default=9, help="shards of the stream, one of them busy (default 9)")
    parser.add_argument("--windows", type=int, default=6, help="windows, every other with marks (default 6)")
    parser.add_argument("--window", type=int, default=20, help="seconds of a window (default 20)")
    parser.add_argument("--every", type=int, default=5, help="seconds between two marks of a shard (default 5)")
    parser.add_argument("--idle-ms", type=int, default=1000, help="idleTimeBetweenReadsInMillis (default 1000)")
    options = parser.parse_args(arguments)
    _print_days(options.day_of)
    with tempfile.TemporaryDirectory() as folder, EmbeddedAws(Path(folder) / "aws") as aws:
        app = Application(aws, Path(folder), shards=options.shards)
        busy, *quiet = app.open_shards()
        notes = Path(folder) / "notes"
        notes.mkdir()
        with _worker(app, Path(folder), notes, options) as worker:
            wait_until(lambda: len(list(notes.iterdir())) == options.shards, "every shard has a reader")
            first = _feed(app, busy, options.window, options.windows)
            failed = worker.events.all("read_mark_failed")
        calls = {
            path.name: [msgspec.json.decode(line, type=Call) for line in path.open("rb")] for path in notes.iterdir()
        }
    _print_shares(calls, quiet, busy, first, options)
    _say(f"read_mark_failed: {len(failed)}")
    return 0


def _print_days(shards: int) -> None:
    """Print what a day costs, and when marks fall due behind midnight."""
    silence()
    for redeploy_minutes in (None, 50):
        for held in HELD:
            day = QuietDay(held, redeploy_minutes)
            day.run()
            sent = day.cost.between + day.cost.at_starts
            dollars = sum(count * _DOLLARS.get(verb, 0) for verb, count in sent.items()) * shards
            asked = ", ".join(f"{verb} {count * shards:,}" for verb, count in sorted(sent.items()))
            _say(f"{shards:,} shards with {held}, {day.cost.starts} starts a day: {asked}; ${dollars:.2f} a day")
    due = [spread_of(f"shardId-{number:012d}") // 1000 for number in range(shards)]
    seconds, minutes = Counter(due), Counter(second // 60 for second in due)
    _say(
        f"behind midnight due: at most {max(seconds.values())} shards in one second, {max(minutes.values())} in one "
        f"minute, the last after {max(due)} s; each takes 2 requests to Kinesis and 2 PUTs, on its own shard"
    )


def _worker(app: Application, folder: Path, notes: Path, options: argparse.Namespace) -> Worker:
    """Start `minutebook consume` with the processors that mark in turns."""
    path = app.properties("w1")
    idle = "idleTimeBetweenReadsInMillis"
    lines = [line for line in path.read_text().splitlines() if not line.startswith(idle)]
    script = [
        sys.executable,
        marking_processor.__file__,
        str(notes),
        str(options.window),
        str(options.every),
        str(path),
    ]
    lines += [f"{idle} = {options.idle_ms}", f"executableName = {' '.join(script)}"]
    path.write_text("\n".join([*lines, ""]))
    command = [
        str(Path(sys.executable).parent / "minutebook"),
        "consume",
        str(path),
        "--state-dir",
        str(folder / "state"),
    ]
    environment = {"JAVA_HOME": str(ensure_java().parents[1]), "PYTHONPATH": str(Path(__file__).parents[1])}
    return Worker(command, app.environment(environment), folder / "w1.log")


def _feed(app: Application, busy: str, window: int, windows: int) -> int:
    """Feed one shard for so many whole windows, once all has settled; return the number of the first."""
    key, first = app.key_of(busy), (_CLOCK.now_ms() // 1000 + _SETTLE_SECONDS) // window + 1
    while _CLOCK.now_ms() < (first + windows) * window * 1000:
        app.producer.put_numbered(5, key=key, size=500)
        _CLOCK.sleep(_FED_SECONDS)
    return first


def _print_shares(
    calls: Mapping[str, Sequence[Call]], quiet: Sequence[str], busy: str, first: int, options: argparse.Namespace
) -> None:
    windows = {shard: _windows(calls[shard], first, options) for shard in [busy, *quiet]}
    for name, shards in (("quiet", quiet), ("the busy", [busy])):
        with_marks, without = (
            [window.reads / options.window for shard in shards for window in windows[shard] if window.marking is on]
            for on in (True, False)
        )
        share = statistics.fmean(with_marks) / statistics.fmean(without)
        _say(
            f"KCL's reads of {name} shard(s): {statistics.fmean(with_marks):.3f} a second and shard with marks, "
            f"{statistics.fmean(without):.3f} without: {share:.3f} of it; the worst shard and window "
            f"{min(with_marks):.2f} and {min(without):.2f}"
        )
    for on in (True, False):
        _print_windows([window for shard in quiet for window in windows[shard] if window.marking is on], options)
    together = [_most_a_second([call for window in windows[shard] for call in window.calls]) for shard in quiet]
    _say(f"GetRecords of one quiet shard in one second, KCL's and ours: at most {max(together)} of {_MOST_A_SECOND}")
    _say(f"quiet shards that asked at one moment: at most {_most_at_once([calls[shard] for shard in quiet])}")
    _say(
        f"a batch of the busy shard was answered after {_spread([c.seconds for w in windows[busy] for c in w.calls])}"
    )


def _windows(calls: Sequence[Call], first: int, options: argparse.Namespace) -> list[Window]:
    length = options.window * 1000
    return [
        Window(
            is_marking(number * length, options.window), [call for call in calls if call.at_ms // length == number]
        )
        for number in range(first, first + options.windows)
    ]


def _print_windows(windows: Sequence[Window], options: argparse.Namespace) -> None:
    calls = [call for window in windows for call in window.calls]
    asking = [call for call in calls if call.requests]
    sent = sum((Counter(call.requests) for call in calls), Counter[str]())
    marks = sent["PutObject"] / len(windows) / options.window * 3600
    named = ", ".join(f"{name} {count}" for name, count in sorted(sent.items())) or "no request"
    most = max((sum(call.requests.values()) for call in calls), default=0)
    _say(
        f"{'with marks' if windows[0].marking else 'without'}: {named} of quiet shards; {marks:.0f} PUTs an hour and "
        f"shard, {sum(call.refused for call in calls)} refused; most in one call {most}; a call that asks took "
        f"{_spread([call.seconds for call in asking])}, one that does not "
        f"{_spread([call.seconds for call in calls if not call.requests])}"
    )


def _most_a_second(calls: Sequence[Call]) -> int:
    """Return the most GetRecords in a sliding second: a call follows one of KCL's, and may send some of ours."""
    return max(
        sum(1 + other.requests.get("GetRecords", 0) for other in calls if 0 <= other.at_ms - call.at_ms < 1000)  # noqa: PLR2004 - a second
        for call in calls
    )


def _most_at_once(shards: Iterable[Sequence[Call]]) -> int:
    """Return how many calls that sent requests overlapped; times are whole milliseconds, so one is allowed for."""
    asking = [
        (call.at_ms - call.seconds * 1000 + 2, call.at_ms) for calls in shards for call in calls if call.requests
    ]
    return max((sum(1 for begin, end in asking if begin <= at < end) for at, _ in asking), default=0)


def _spread(seconds: Sequence[float]) -> str:
    if not seconds:
        return "nothing"
    found = sorted(seconds)
    at: Callable[[float], float] = lambda share: found[int(share * (len(found) - 1))] * 1000  # noqa: E731
    return f"{at(0.5):.1f} ms (99 of 100 within {at(0.99):.0f}, the longest {at(1):.0f}; {len(found)} calls)"


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
