"""Show progress on stderr (a bar, or log lines without a terminal), and results on stdout."""

import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import structlog
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from compaction.report.clearing import stream_command, what_clears
from compaction.tasks.progress import Progress as Report
from compaction.verdict.audit_document import Audit, Typed
from compaction.verdict.findings import Finding
from minutebook.clock import Clock
from minutebook.format.day import Day
from minutebook.terminal import Table, TerminalConsole, shown
from minutebook.wording import some_of

_SHOWN: Final = 20
_KEYS: Final = 10
_SHARDS: Final = 3
_TENTHS: Final = 10
_LINE_SECONDS: Final = 60
_VERDICTS: Final = {
    "clean": "CLEAN: everything that this level checks is proven",
    "defects": "DEFECTS FOUND",
    "unknown": "COULD NOT PROVE: nothing wrong was found, and something could not be checked",
}


@contextmanager
def progress_bar(what: str, console: TerminalConsole | None = None) -> Iterator[Report]:
    """Show a progress bar on a terminal, by default that of stderr."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=console or TerminalConsole(stderr=True), transient=True)
    with shown(bar):
        task = bar.add_task(f"{what}: starting Spark", total=None)

        def report(phase: str, done: int, total: int) -> None:
            bar.update(task, description=f"{what}: {phase}", completed=done, total=total)

        yield report


class ProgressLines:
    """Logs progress: a line for each tenth of a phase, or each minute. Thread-safe."""

    def __init__(self, command: str, clock: Clock) -> None:
        self._log = structlog.get_logger().bind(command=command)
        self._clock = clock
        self._lock = threading.Lock()
        self._told: dict[str, tuple[int, float]] = {}
        self._begun: dict[str, float] = {}

    def __call__(self, phase: str, done: int, total: int) -> None:
        """Log a line if one is due."""
        now = self._clock.monotonic()
        with self._lock:
            tenth = _TENTHS * done // total if total else _TENTHS
            before, told_at = self._told.get(phase, (-1, now))
            if before == _TENTHS and done < total:  # the phase runs again, as after a day that changed
                before, told_at = -1, now
            if before < 0:
                self._begun[phase] = now
            if tenth == before and now - told_at < _LINE_SECONDS:
                return
            if before == _TENTHS:
                return
            self._told[phase] = tenth, now
            seconds = round(now - self._begun[phase], 1)
        self._log.info("night_progress", phase=phase, done=done, total=total, seconds=seconds)


def show_audit(audit: Audit, console: TerminalConsole, retention_ms: int | None = None) -> None:
    """Print the findings, the equation, the verdict, and until when what is unknown can be cleared.

    `retention_ms` is how long the stream keeps records now; None: that is not known.
    """
    scope, equation = audit.scope, audit.equation
    console.print(
        f"{scope.day}  {scope.archive}  level {audit.level}  {scope.objects:,} objects, {scope.bytes:,} bytes",
    )
    _show_findings(audit, console)
    for check in audit.checks:
        if check.status == "unknown" and not any(finding.code == check.id for finding in audit.findings):
            console.print(f"could not check {check.id}: {check.message}")
        elif check.id == "stream_sample":
            console.print(f"a sample: {check.message}")
        elif check.id == "lease_table":
            console.print(check.message)
    of_records = "" if equation.records is None else f" of {equation.records:,} records"
    rows = "" if equation.compacted is None else f", {equation.compacted:,} rows{of_records} in Parquet"
    if equation.restored:
        rows += f", {equation.restored:,} of them brought back"
    removed = f" + producer duplicates left out {equation.removed:,}" if equation.removed else ""
    console.print(
        f"raw {equation.raw:,} = unique {equation.unique:,} + duplicates {equation.duplicates:,}{removed} "
        f"+ rejected {equation.rejected:,}{rows}",
    )
    if audit.typed is not None:
        _show_typed(audit.typed, console)
    if scope.until and not scope.until.startswith(str(Day.parse(scope.day).shift(1))):
        console.print(f"so far: what arrived before {scope.until}; the rest of the day is not judged")
    if scope.shard is not None:
        console.print(f"shard {scope.shard} alone: the other shards of the day are not judged")
    console.print(Text(_VERDICTS[audit.verdict], style="bold"))
    if codes := sorted({about.code for about in audit.findings if about.severity == "defect"}):
        console.print(f"what to do: minutebook docs how-to/findings {codes[0]}")
    _show_unknown(audit, retention_ms, console)


def _show_findings(audit: Audit, console: TerminalConsole) -> None:
    if audit.findings:
        console.print(_table(audit.findings[:_SHOWN]))
    if len(audit.findings) > _SHOWN:
        console.print(f"and {len(audit.findings) - _SHOWN:,} more: --json names them all")
    for conflict in [finding for finding in audit.findings if finding.conflict is not None][:_SHOWN]:
        at = f": shard {conflict.shard}, {conflict.positions[0]}, {conflict.minute}" if conflict.positions else ""
        console.print(f"{conflict.message}{at}")


def _show_typed(typed: Typed, console: TerminalConsole) -> None:
    """Print the typed columns: a summary, and a line for each column and leaf with misfits."""
    console.print(
        f"{typed.rows:,} rows = fitted {typed.fitted:,} + unfit {typed.unfit:,}, "
        f"{len(typed.columns)} typed column(s)"
        f"{'' if typed.balanced else ': THE NUMBERS DO NOT ADD UP'}",
    )
    if typed.events is not None:
        events = typed.events
        console.print(
            f"events: on time {events.on_time:,} + late {events.late:,} + early {events.early:,} "
            f"+ without {events.without:,}, {len(events.days)} day(s)",
        )
    for column in [column for column in typed.columns if column.unfit][:_SHOWN]:
        console.print(
            f"  {column.name} {column.type}: "
            f"filled {column.filled:,}, empty {column.empty:,}, unfit {column.unfit:,}",
        )
    for leaf in [leaf for leaf in typed.leaves if leaf.unfit][:_SHOWN]:
        console.print(
            f"  {leaf.name} of {leaf.values:,}: filled {leaf.filled:,}, empty {leaf.empty:,}, unfit {leaf.unfit:,}",
        )
    if typed.unknown is not None and typed.unknown.keys:
        named = [f"{key.path} ({key.type}, {key.payloads:,})" for key in typed.unknown.keys]
        console.print(
            f"keys that no column reads, in {typed.unknown.sample:,} payloads: {some_of(named, _KEYS)}",
        )


def _table(findings: Sequence[Finding]) -> Table:
    """Return a row for each finding, with its first key and whatever else tells it apart from the others."""
    table = Table("finding", "severity", "shard", "minute", "count", numbers=["count"], whole=["finding"])
    told = {number: [*about.keys[:1]] or [about.message] for number, about in enumerate(findings)}
    for more in (_message, _position):
        alike = Counter((_cells(about), *told[number]) for number, about in enumerate(findings))
        for number, about in enumerate(findings):
            if alike[_cells(about), *told[number]] > 1:
                told[number] += more(about)
    for number, about in enumerate(findings):
        table.add(*_cells(about), beside=told[number])
    return table


def _cells(about: Finding) -> tuple[str, ...]:
    return about.code, about.severity, about.shard or "", about.minute or "", f"{about.count:,}"


def _message(about: Finding) -> list[str]:
    return [about.message] if about.keys else []


def _position(about: Finding) -> list[str]:
    return list(about.positions[:1])


def _show_unknown(audit: Audit, retention_ms: int | None, console: TerminalConsole) -> None:
    """Print what clears the unknown findings, and until when: the same for several shards once."""
    shards = defaultdict[tuple[str, str], list[str]](list)
    for about in audit.findings:
        if sentence := what_clears(audit, retention_ms, about):
            shards[about.code, sentence] += [] if about.shard is None else [about.shard]
    if not shards:
        return
    console.print("What clears what could not be proven:")
    for (code, sentence), names in list(shards.items())[:_SHOWN]:
        console.print(f"  {code}{' of ' if names else ''}{some_of(sorted(set(names)), _SHARDS)}: {sentence}")
    if len(shards) > _SHOWN:
        console.print(f"  and {len(shards) - _SHOWN:,} more: --json names them all")
    if command := stream_command(audit, retention_ms):
        console.print(f"  {command}", no_wrap=True)  # in one line, to be copied
