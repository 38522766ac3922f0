"""A run of one day, or of several: what is shown of each, and what the run ends with.

One day ends as it did by itself: its error is raised, its verdict is the exit code. Several go on past each other and
end with a table, or with one JSON document.
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
    """What `--json` prints of several days."""

    format: int
    command: str
    exit_code: int
    days: tuple[DayRow, ...]


class DaysRun(NamedTuple):
    """How days are worked on, told as one or `many`, to a person or `as_json`.

    `report` is called with the days done and all days.
    """

    command: str
    many: bool
    as_json: bool
    workers: DayWorkers
    report: Progress

    def run(self, days: Sequence[Day], work: Callable[[Day], T], show: Callable[[Day, T, float], DayRow]) -> int:
        """Work on the days; returns the exit code.

        `show` shows what a day gave and returns its row. Raises the error of the day where it is one.
        """
        rows: list[DayRow] = []

        def tell(done: DayDone[T]) -> None:
            row = self._row(done, show)
            rows.append(msgspec.structs.replace(row, seconds=round(done.seconds, 1)))
            if self.many:
                self.report(_DAYS, len(rows), len(days))

        if self.many:
            self.report(_DAYS, 0, len(days))
        self.workers.run(days, work, tell)
        # What a signal leaves undone outweighs what was found meanwhile.
        code = self.workers.stop.exit_code or worst(row.exit_code for row in rows)
        if self.many:
            _show(RunSummary(format=FORMAT, command=self.command, exit_code=code, days=_by_day(rows)), self.as_json)
        return code

    def _row(self, done: DayDone[T], show: Callable[[Day, T, float], DayRow]) -> DayRow:
        if isinstance(done.error, MinutebookError):
            if not self.many and not isinstance(done.error, Stopped):
                raise done.error
            return row_of_error(done.day, done.error)
        assert done.given is not None  # noqa: S101 - for the type checker: a day without an error has given something
        return show(done.day, done.given, done.seconds)


def _by_day(rows: Sequence[DayRow]) -> tuple[DayRow, ...]:
    return tuple(sorted(rows, key=lambda row: row.day))


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
        # Not markup, and no lines of ours: a reason may name keys, and be longer than a terminal is wide.
        console.print("  ".join([*left, *right, reason]).rstrip(), markup=False, highlight=False, soft_wrap=True)
    if any(row.state == "stopped" for row in summary.days):
        console.print("stopped: run the command again, it finishes what is left")


def _cells(row: DayRow) -> tuple[str, ...]:
    reason = "; next step: ".join(filter(None, (row.reason, row.next_step)))
    numbers = (_number(row.rows), _number(row.files), f"{row.seconds:.1f}")
    return (row.day, row.state, row.verdict or "", *numbers, reason)


def _number(count: int | None) -> str:
    return "" if count is None else f"{count:,}"
