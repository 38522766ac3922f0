"""A run of one day or several.

The error of a single day is raised, and its verdict is the exit code. Several days do not stop each other, and end
with a table, of a row a day, or one JSON document.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal, NamedTuple, TypeVar

import msgspec
from rich.console import Console

from compaction.audit.conclusion import DayResult
from compaction.night.days.side_by_side import DayDone, DayWorkers
from compaction.night.days.stop import Stopped
from compaction.night.dry_run import DryRun
from compaction.night.rewrite import Compacted
from compaction.spark.engine import Progress
from compaction.verdict.exit_code import DayEnd, FailOn, exit_code, was_read
from minutebook.errors import CatalogRefused, MinutebookError
from minutebook.format.day import Day
from minutebook.published.verdict import Verdict

T = TypeVar("T")
FORMAT: Final = 1
_DAYS: Final = "days"
State = Literal["published", "already", "held", "audited", "refused", "unavailable", "failed", "stopped", "planned"]
_REFUSED, _UNAVAILABLE = frozenset({2, 6}), 5

WORST_FIRST: Final = (1, 3, 6, 2, 5, 4, 0)
"""Exit codes, the worst first: a run of several days exits with its worst day's.

    1  a bug
    3  records are lost or doubled: no other day's trouble may hide that
    6  a person must decide
    2  a person must grant or correct something
    5  running it again may be enough
    4  nothing wrong was found, and something could not be proven
    0  clean
"""


class DayRow(msgspec.Struct, frozen=True, kw_only=True):
    """One day of the table. `rows` and `files` are those of the Parquet, or of the raw objects after an audit.

    `seconds` is how long the day took beside others; `reason` is empty on success. Only dry runs set `plan`.
    """

    day: str
    state: State
    verdict: Verdict | None = None
    rows: int | None = None
    files: int | None = None
    seconds: float = 0.0
    exit_code: int = 0
    reason: str = ""
    next_step: str = ""
    plan: DryRun | msgspec.UnsetType = msgspec.UNSET


def row_of_audit(result: DayResult, fail_on: FailOn) -> DayRow:
    """Return the row of an audited day."""
    audit = result.audit
    return DayRow(
        day=audit.scope.day,
        state="audited",
        verdict=audit.verdict,
        rows=audit.equation.raw,
        files=audit.scope.objects,
        exit_code=exit_code([DayEnd(audit.verdict, was_read(audit))], fail_on),
        reason=", ".join(sorted({about.code for about in audit.findings})),
    )


def row_of_compaction(day: Day, done: Compacted, fail_on: FailOn) -> DayRow:
    """Return the row of a compacted day; columns that a table rejects count as CatalogRefused."""
    code, reason = exit_code([DayEnd(done.verdict, done.state != "held")], fail_on), ""
    if done.state == "held":
        reason = done.reason
    elif done.table is not None and done.conflicts:
        code = worst([code, CatalogRefused.exit_code])
        reason = f"{done.table.table}: {done.conflicts}"
    return DayRow(
        day=str(day),
        state=done.state,
        verdict=done.verdict,
        rows=None if done.manifest is None else done.manifest.rows,
        files=None if done.manifest is None else len(done.manifest.files),
        exit_code=code,
        reason=reason,
    )


def row_of_plan(plan: DryRun) -> DayRow:
    """Return the row of a dry run."""
    return DayRow(day=plan.day, state="planned", reason=plan.sentence, plan=plan)


def row_of_error(day: Day, error: MinutebookError) -> DayRow:
    """Return the row of a day that ended with an error."""
    code = error.exit_code
    if isinstance(error, Stopped):
        return DayRow(day=str(day), state="stopped", exit_code=code)
    if code in _REFUSED:
        state: State = "refused"
    else:
        state = "unavailable" if code == _UNAVAILABLE else "failed"
    return DayRow(day=str(day), state=state, exit_code=code, reason=str(error), next_step=error.next_step)


def worst(codes: Iterable[int]) -> int:
    """Return the worst exit code; 0 without any."""
    return min(codes, key=WORST_FIRST.index, default=0)


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` prints for several days."""

    format: int
    command: str
    exit_code: int
    days: tuple[DayRow, ...]


class DaysRun(NamedTuple):
    """A run of one day or `many`, shown to a person or `as_json`; `report` gets the count of days done and of all."""

    command: str
    many: bool
    as_json: bool
    workers: DayWorkers
    report: Progress

    def run(self, days: Sequence[Day], work: Callable[[Day], T], show: Callable[[Day, T, float], DayRow]) -> int:
        """Work on the days; return the exit code. `show` shows a day's result and returns its row."""
        rows: list[DayRow] = []

        def add_row(done: DayDone[T]) -> None:
            row = self._row(done, show)
            rows.append(msgspec.structs.replace(row, seconds=round(done.seconds, 1)))
            if self.many:
                self.report(_DAYS, len(rows), len(days))

        if self.many:
            self.report(_DAYS, 0, len(days))
        self.workers.run(days, work, add_row)
        # A signal outweighs the days' codes: some days are not done.
        code = self.workers.stop.exit_code or worst(row.exit_code for row in rows)
        if self.many:
            rows.sort(key=lambda row: row.day)
            _show(RunSummary(format=FORMAT, command=self.command, exit_code=code, days=tuple(rows)), self.as_json)
        return code

    def _row(self, done: DayDone[T], show: Callable[[Day, T, float], DayRow]) -> DayRow:
        if isinstance(done.error, MinutebookError):
            if not self.many and not isinstance(done.error, Stopped):
                raise done.error
            return row_of_error(done.day, done.error)
        assert done.result is not None  # noqa: S101 - for the type checker: a day without an error has a result
        return show(done.day, done.result, done.seconds)


def _show(summary: RunSummary, as_json: bool) -> None:  # noqa: FBT001 - a private step of `run`
    if as_json:
        sys.stdout.write(msgspec.json.encode(summary).decode() + "\n")
        return
    lines = [("day", "state", "verdict", "rows", "files", "seconds", "reason"), *map(_cells, summary.days)]
    widths = [max(map(len, column)) for column in list(zip(*lines, strict=True))[:-1]]
    console = Console()
    for *cells, reason in lines:
        left = [cell.ljust(width) for cell, width in zip(cells[:3], widths[:3], strict=True)]
        right = [cell.rjust(width) for cell, width in zip(cells[3:], widths[3:], strict=True)]
        # A reason may name keys, which are no markup, and be longer than a line of the terminal.
        console.print("  ".join([*left, *right, reason]).rstrip(), markup=False, highlight=False, soft_wrap=True)
    if any(row.state == "stopped" for row in summary.days):
        console.print("stopped: run the command again, it finishes what is left")


def _cells(row: DayRow) -> tuple[str, ...]:
    reason = "; next step: ".join(filter(None, (row.reason, row.next_step)))
    numbers = (_number(row.rows), _number(row.files), f"{row.seconds:.1f}")
    return (row.day, row.state, row.verdict or "", *numbers, reason)


def _number(count: int | None) -> str:
    return "" if count is None else f"{count:,}"
