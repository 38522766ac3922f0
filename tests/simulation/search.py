"""Run many histories in worker processes, count what really happened in them, and show one of them in full."""

import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, Final, NamedTuple

import structlog

from tests.simulation.histories.day_history import DayHistory
from tests.simulation.histories.history import History
from tests.simulation.histories.sharded_history import ShardedHistory
from tests.simulation.modes import Mode
from tests.simulation.world import Violation, World

CHUNK: Final = 250
UNTIL_FOUND_CHUNK: Final = 50
ENOUGH: Final = 30
"""So many violations are worth stopping for."""


class Finding(NamedTuple):
    """A history that broke a promise."""

    seed: int
    scenario: str
    text: str
    mode: Mode = "plain"

    @property
    def command(self) -> str:
        """The command that shows it."""
        chosen = "" if self.mode == "plain" else f" --modes {self.mode}"
        return f"python -m tests.simulation --replay {self.seed}{chosen}"

    def __str__(self) -> str:
        return f"seed {self.seed} ({self.scenario}): {self.text}\n  replay: {self.command}\n"


class Result(NamedTuple):
    """What some histories came to."""

    histories: int
    tally: Counter[str]
    findings: list[Finding]


class _CountingLogger:
    """Stands for structlog's loggers: counts the product's events, and shows them in a timeline.

    Building and rendering log lines would take a third of the time.
    """

    tally: ClassVar[Counter[str]] = Counter()
    world: ClassVar[World | None] = None

    def __init__(self, *_given: object, **_named: object) -> None:
        """Take what structlog gives a bound logger."""

    def bind(self, **_values: object) -> "_CountingLogger":
        """Keep nothing."""
        return self

    def info(self, event: str, **values: object) -> None:
        """Count the event."""
        _CountingLogger.tally[f"log: {event}"] += 1
        if _CountingLogger.world is not None:
            shown = {
                name: value for name, value in values.items() if name not in {"key", "next_step", "arn", "shard"}
            }
            _CountingLogger.world.note("  log", f"{event} {shown or ''}")

    warning = error = info

    def debug(self, event: str, **_values: object) -> None:
        """Leave out what is for the supervisor alone, but for a checkpoint."""
        if event != "progress":
            self.info(event, **_values)


def silence() -> None:
    """Give the product loggers that count."""
    structlog.configure(wrapper_class=_CountingLogger)  # type: ignore[arg-type] # the methods that are called


def play(task: tuple[Mode, Sequence[int]]) -> Result:
    """Play the histories of a mode and seeds one after the other in this process."""
    mode, seeds = task
    silence()
    tally: Counter[str] = Counter()
    _CountingLogger.tally = tally
    findings = [_play_one(mode, _history(mode, seed, tally)) for seed in seeds]
    return Result(len(seeds), tally, [finding for finding in findings if finding is not None])


def _history(mode: Mode, seed: int, tally: Counter[str], *, traced: bool = False) -> History:
    if mode == "plain":
        return History(seed, tally, traced=traced)
    if mode in {"days", "month"}:
        return DayHistory(mode, seed, tally, traced=traced)
    return ShardedHistory(mode, seed, tally, traced=traced)


def _play_one(mode: Mode, history: History) -> Finding | None:
    history.world.tally[f"scenario: {history.scenario.name}"] += 1
    try:
        history.run()
    except Exception as exc:  # noqa: BLE001 - whatever comes out of a history is a finding
        text = str(exc) if isinstance(exc, Violation) else f"{type(exc).__name__}: {exc}"
        return Finding(history.seed, history.scenario.name, text, mode)
    return None


def play_parallel(
    first: int,
    last: int,
    workers: int,
    *,
    chunk: int = CHUNK,
    modes: Sequence[Mode] = ("plain",),
    thinned: Mapping[Mode, int] = MappingProxyType({}),
) -> Iterator[Result]:
    """Play the seeds `first` to `last` - 1 of each mode in worker processes; yields chunks in their order.

    Of a mode in `thinned` only every so many-th part is played: the first ones.
    """
    chunks = (
        (mode, range(-(-at // part), -(-min(at + chunk, last) // part)))
        for at in range(first, last, chunk)
        for mode in modes
        for part in (thinned.get(mode, 1),)
    )
    if workers == 1:
        yield from map(play, chunks)
        return
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        yield from pool.imap(play, chunks)


def replay(seed: int, mode: Mode = "plain") -> tuple[list[str], Finding | None]:
    """Play one history with a timeline."""
    silence()
    tally: Counter[str] = Counter()
    history = _history(mode, seed, tally, traced=True)
    _CountingLogger.tally, _CountingLogger.world = tally, history.world
    finding = _play_one(mode, history)
    _CountingLogger.world = None
    return history.world.trace or [], finding


def search(
    first: int,
    last: int,
    workers: int,
    *,
    modes: Sequence[Mode] = ("plain",),
    until_found: bool = False,
    every: int = 0,
    thinned: Mapping[Mode, int] = MappingProxyType({}),
) -> Result:
    """Play the seeds `first` to `last` - 1 of each mode; tell on stderr how it goes every `every` (0: never).

    For `thinned` see `play_parallel`.
    """
    tally: Counter[str] = Counter()
    findings: list[Finding] = []
    done, told, began = 0, 0, time.perf_counter()
    chunk = UNTIL_FOUND_CHUNK if until_found else CHUNK
    results = play_parallel(first, last, workers, chunk=chunk, modes=modes, thinned=thinned)
    for result in results:
        done += result.histories
        tally += result.tally
        findings += result.findings
        sys.stderr.writelines(map(str, result.findings))
        if every and done - told >= every:
            told = done
            rate = done / (time.perf_counter() - began)
            sys.stderr.write(f"{done:>9,} histories, {len(findings)} violations, {rate:,.0f} histories/s\n")
            sys.stderr.flush()
        if len(findings) > (0 if until_found else ENOUGH):
            break
    return Result(done, tally, sorted(findings))
