"""Run many histories in worker processes, count what really happened in them, and show one of them in full."""

import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final, NamedTuple

import structlog

from tests.simulation.history import History
from tests.simulation.kinds import KINDS
from tests.simulation.sharded import ShardedHistory
from tests.simulation.sharded_kinds import EXPECTED_OF, kinds_of
from tests.simulation.world import Violation, World

CHUNK: Final = 250
UNTIL_FOUND_CHUNK: Final = 50
ENOUGH: Final = 30
"""So many violations are worth stopping for."""


class Finding(NamedTuple):
    """A history that broke a promise."""

    seed: int
    kind: str
    text: str
    mode: str = "plain"

    @property
    def command(self) -> str:
        """The command that shows it."""
        chosen = "" if self.mode == "plain" else f" --modes {self.mode}"
        return f"python -m tests.simulation --replay {self.seed}{chosen}"


class Result(NamedTuple):
    """What some histories came to."""

    histories: int
    tally: Counter[str]
    findings: list[Finding]


class _Events:
    """Stands for structlog's loggers: counts the product's events, and shows them in a timeline.

    Building and rendering log lines would take a third of the time.
    """

    tally: ClassVar[Counter[str]] = Counter()
    world: ClassVar[World | None] = None

    def __init__(self, *_given: object, **_named: object) -> None:
        """Take what structlog gives a bound logger."""

    def bind(self, **_values: object) -> "_Events":
        """Keep nothing."""
        return self

    def info(self, event: str, **values: object) -> None:
        """Count the event."""
        _Events.tally[f"log: {event}"] += 1
        if _Events.world is not None:
            shown = {
                name: value for name, value in values.items() if name not in {"key", "next_step", "arn", "shard"}
            }
            _Events.world.note("  log", f"{event} {shown or ''}")

    warning = error = info


def silence() -> None:
    """Give the product loggers that count."""
    structlog.configure(wrapper_class=_Events)  # type: ignore[arg-type] # the methods that are called


def play(task: tuple[str, Sequence[int]]) -> Result:
    """Play the histories of a mode and seeds one after the other in this process."""
    mode, seeds = task
    silence()
    tally: Counter[str] = Counter()
    _Events.tally = tally
    findings = []
    for seed in seeds:
        finding = _play_one(mode, seed, tally)
        if finding is not None:
            findings.append(finding)
    return Result(len(seeds), tally, findings)


def _history(mode: str, seed: int, tally: Counter[str], *, traced: bool = False) -> History:
    if mode == "plain":
        return History(seed, tally, traced=traced)
    return ShardedHistory(mode, seed, tally, traced=traced)


def _play_one(mode: str, seed: int, tally: Counter[str]) -> Finding | None:
    history = _history(mode, seed, tally)
    tally[f"kind: {history.kind.name}"] += 1
    try:
        history.run()
    except Exception as exc:  # noqa: BLE001 - whatever comes out of a history is a finding
        text = str(exc) if isinstance(exc, Violation) else f"{type(exc).__name__}: {exc}"
        return Finding(seed, history.kind.name, text, mode)
    return None


def play_parallel(
    first: int, last: int, workers: int, *, chunk: int = CHUNK, modes: Sequence[str] = ("plain",)
) -> Iterator[Result]:
    """Play the seeds `first` to `last` - 1 of each mode in worker processes; yields chunks in their order."""
    chunks = ((mode, range(at, min(at + chunk, last))) for at in range(first, last, chunk) for mode in modes)
    if workers == 1:
        yield from map(play, chunks)
        return
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        yield from pool.imap(play, chunks)


def replay(seed: int, mode: str = "plain") -> tuple[list[str], Finding | None]:
    """Play one history with a timeline."""
    silence()
    tally: Counter[str] = Counter()
    history = _history(mode, seed, tally, traced=True)
    _Events.tally, _Events.world = tally, history.world
    finding = None
    try:
        history.run()
    except Exception as exc:  # noqa: BLE001 - the timeline is what is wanted
        finding = Finding(seed, history.kind.name, f"{type(exc).__name__}: {exc}", mode)
    finally:
        _Events.world = None
    return history.world.trace or [], finding


def search(
    first: int,
    last: int,
    workers: int,
    *,
    modes: Sequence[str] = ("plain",),
    until_found: bool = False,
    every: int = 0,
) -> Result:
    """Play the seeds `first` to `last` - 1 of each mode; tell on stderr how it goes every `every` (0: never)."""
    tally: Counter[str] = Counter()
    findings: list[Finding] = []
    done, told, began = 0, 0, time.perf_counter()
    results = play_parallel(first, last, workers, chunk=UNTIL_FOUND_CHUNK if until_found else CHUNK, modes=modes)
    for result in results:
        done += result.histories
        tally += result.tally
        findings += result.findings
        for finding in result.findings:
            sys.stderr.write(f"seed {finding.seed} ({finding.kind}): {finding.text}\n  replay: {finding.command}\n")
        if every and done - told >= every:
            told = done
            rate = done / (time.perf_counter() - began)
            sys.stderr.write(f"{done:>9,} histories, {len(findings)} violations, {rate:,.0f} histories/s\n")
            sys.stderr.flush()
        if len(findings) > (0 if until_found else ENOUGH):
            break
    return Result(done, tally, sorted(findings))


def table(tally: Counter[str]) -> str:
    """Return what happened, how often: a fault that never occurs proves nothing."""
    rows = [f"{count:>12,}  {what}" for what, count in sorted(tally.items())]
    return "\n".join(rows)


def missing(tally: Counter[str], modes: Sequence[str] = ("plain",)) -> list[str]:
    """Return what ought to have happened in these modes and never did."""
    expected: set[str] = set()
    for mode in modes:
        if mode == "plain":
            expected |= EXPECTED | {f"kind: {kind.name}" for kind in KINDS}
        else:
            expected |= EXPECTED_OF[mode] | {f"kind: {kind}" for kind in kinds_of(mode)}
    return sorted(what for what in expected if not tally[what])


EXPECTED: Final[frozenset[Any]] = frozenset(
    {
        *(f"S3: PUT {fault}" for fault in ("refused before", "503 before", "409", "answer lost", "delayed")),
        *(f"S3: {verb} {fault}" for verb in ("GET", "HEAD", "LIST") for fault in ("answer lost", "headers cut off")),
        *(f"held up: before {verb} is applied" for verb in ("PUT", "HEAD", "LIST", "GET")),
        *(f"held up: after {verb} was applied" for verb in ("PUT", "HEAD", "LIST", "GET")),
        "S3: 412",
        "S3: 403 RequestTimeTooSkewed",
        "S3: a delayed PUT arrives and wins",
        "S3: a segment is expired",
        "KCL: a checkpoint is restored inside a span",
        "KCL: a false shardEnded",
        "KCL: a false shardEnded inside an aggregate of a closed shard",
        "KCL: a graceful hand-over",
        "KCL: a stale checkpoint is read",
        "KCL: checkpoint fenced out",
        "KCL: checkpoint throttled",
        "KCL: leaseLost",
        "KCL: shardEnded",
        "KCL: the lease is stolen",
        "KCL: the lease table is wiped",
        "Kinesis: throttled",
        "arrival times: step back",
        "checked: a break, reported",
        "checked: an end that is not proven",
        "clock: a suspend",
        "clock: a wall clock jumps",
        "clock: an outage longer than the retention",
        "died of: BufferTooOld",
        "died of: SafetyRefusal",
        "died of: SettingsError",
        "died of: ShardEndUnproven",
        "died of: StoreUnavailable",
        "killed: after PUT was applied",
        "killed: after a checkpoint was written",
        "killed: before PUT is applied",
        "killed: before a checkpoint is written",
        "killed: the daemon alone",
        "log: near_retention",
        "log: slot_lost",
        "log: stored_ranges_found",
        "records: KPL aggregates",
        "refused: consume, exit 6",
        "stream: deleted and made again under its name",
        "stream: retention trims",
        "stream: the retention is changed",
        "stream: the shard is closed",
    }
)
