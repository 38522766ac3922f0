"""A run of one day or several.

The error of a single day is raised, and its verdict is the exit code. Several days do not stop each other, and end
with a table or one JSON document.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

import msgspec
from rich.console import Console

from compaction.night.days.outcome import DayRow, row_of_error, worst
from compaction.night.days.side_by_side import DayDone, DayWorkers
from compaction.night.days.stop import Stopped
from compaction.spark.engine import Progress
from minutebook.errors import MinutebookError
from minutebook.format.day import Day

T = TypeVar("T")
FORMAT: Final = 1
_DAYS: Final = "days"


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
