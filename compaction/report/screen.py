"""What a person sees on the terminal: progress on stderr while it runs, the result on stdout."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from compaction.spark.engine import Progress as Report
from compaction.verdict.audit_document import Audit, Typed
from minutebook.format.day import Day

_SHOWN: Final = 20
_VERDICTS: Final = {
    "clean": "CLEAN: everything that this level checks is proven",
    "defects": "DEFECTS FOUND",
    "unknown": "COULD NOT PROVE: nothing wrong was found, and something could not be checked",
}


@contextmanager
def progress_bar(what: str) -> Iterator[Report]:
    """Show a bar, on a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"{what}: starting Spark", total=None)

        def report(phase: str, done: int, total: int) -> None:
            bar.update(task, description=f"{what}: {phase}", completed=done, total=total)

        yield report


def show_audit(audit: Audit, console: Console) -> None:
    """Print the verdict, the equation and the findings."""
    scope, equation = audit.scope, audit.equation
    console.print(
        f"{scope.day}  {scope.archive}  level {audit.level}  {scope.objects:,} objects, {scope.bytes:,} bytes",
        highlight=False,
    )
    if audit.findings:
        console.print(_table(audit))
    for conflict in [found for found in audit.findings if found.conflict is not None][:_SHOWN]:
        at = f": shard {conflict.shard}, {conflict.positions[0]}, {conflict.minute}" if conflict.positions else ""
        console.print(f"{conflict.message}{at}", highlight=False, markup=False, soft_wrap=True)
    for check in audit.checks:
        if check.status == "unknown" and not any(found.code == check.id for found in audit.findings):
            console.print(f"could not check {check.id}: {check.message}", markup=False, highlight=False)
        elif check.id == "stream_sample":
            console.print(f"a sample: {check.message}", markup=False, highlight=False)
    rows = "" if equation.compacted is None else f", {equation.compacted:,} rows in Parquet"
    if equation.restored:
        rows += f", {equation.restored:,} of them brought back"
    removed = f" + producer duplicates left out {equation.removed:,}" if equation.removed else ""
    console.print(
        f"raw {equation.raw:,} = unique {equation.unique:,} + duplicates {equation.duplicates:,}{removed} "
        f"+ rejected {equation.rejected:,}{rows}",
        highlight=False,
        soft_wrap=True,
    )
    if audit.typed is not None:
        _show_typed(audit.typed, console)
    if scope.until and not scope.until.startswith(str(Day.parse(scope.day).shift(1))):
        console.print(
            f"so far: what arrived before {scope.until}; the rest of the day is not judged", highlight=False
        )
    console.print(Text(_VERDICTS[audit.verdict], style="bold"))


def _show_typed(typed: Typed, console: Console) -> None:
    """Print the payloads' columns: all in one line, and each that something does not fit."""
    console.print(
        f"{typed.rows:,} rows = fitted {typed.fitted:,} + unfit {typed.unfit:,}, "
        f"{len(typed.columns)} typed column(s)"
        f"{'' if typed.balanced else ': THE NUMBERS DO NOT ADD UP'}",
        highlight=False,
        soft_wrap=True,
    )
    if typed.events is not None:
        events = typed.events
        console.print(
            f"events: on time {events.on_time:,} + late {events.late:,} + early {events.early:,} "
            f"+ without {events.without:,}, {len(events.days)} day(s)",
            highlight=False,
            soft_wrap=True,
        )
    for column in [column for column in typed.columns if column.unfit][:_SHOWN]:
        console.print(
            f"  {column.name} {column.type}: "
            f"filled {column.filled:,}, empty {column.empty:,}, unfit {column.unfit:,}",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )


def _table(audit: Audit) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("finding", "", "shard", "minute", "count", "first key"):
        table.add_column(name, overflow="fold", no_wrap=name == "finding")
    for found in audit.findings[:_SHOWN]:
        # Text, not markup: keys are whatever somebody put into the bucket.
        table.add_row(
            found.code,
            found.severity,
            found.shard or "",
            found.minute or "",
            f"{found.count:,}",
            Text(found.keys[0] if found.keys else ""),
        )
    if len(audit.findings) > _SHOWN:
        table.add_row(f"and {len(audit.findings) - _SHOWN:,} more", "", "", "", "", "")
    return table
