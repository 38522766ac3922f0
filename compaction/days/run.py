"""A run of one day, or of several: what is shown of each, and what the run ends with.

One day ends as it did by itself: its error is raised, its verdict is the exit code. Several go on past each other and
end with a table, or with one JSON document.
"""

import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from archive.clock import Clock
from archive.errors import MinutebookError
from archive.format.day import Day
from compaction.days.outcome import DayRow, row_of_error, worst
from compaction.days.side_by_side import DayDone, side_by_side
from compaction.days.stop import Stop, Stopped

T = TypeVar("T")
FORMAT = 1


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` prints of several days."""

    format: int
    command: str
    exit_code: int
    days: tuple[DayRow, ...]


class DaysRun(NamedTuple):
    """How days are worked on: so many at once, told as one or `many`, to a person or `as_json`.

    `report` is called with (days done, days in all); `cancel` ends what Spark does for them.
    """

    command: str
    parallel: int
    many: bool
    as_json: bool
    stop: Stop
    clock: Clock
    cancel: Callable[[], None]
    report: Callable[[int, int], None]

    def run(self, days: Sequence[Day], work: Callable[[Day], T], show: Callable[[Day, T], DayRow]) -> int:
        """Work on the days; returns the exit code.

        `show` shows what a day gave and returns its row. Raises the error of the day where it is one.
        """
        rows: list[DayRow] = []

        def tell(done: DayDone[T]) -> None:
            row = self._row(done, show)
            rows.append(msgspec.structs.replace(row, seconds=round(done.seconds, 1)))
            if self.many:
                self.report(len(rows), len(days))

        if self.many:
            self.report(0, len(days))
        side_by_side(days, work, tell, parallel=self.parallel, stop=self.stop, clock=self.clock, cancel=self.cancel)
        # What a signal leaves undone outweighs what was found meanwhile.
        code = self.stop.exit_code or worst(row.exit_code for row in rows)
        if self.many:
            _show(RunSummary(format=FORMAT, command=self.command, exit_code=code, days=_by_day(rows)), self.as_json)
        return code

    def _row(self, done: DayDone[T], show: Callable[[Day, T], DayRow]) -> DayRow:
        if isinstance(done.error, MinutebookError):
            if not self.many and not isinstance(done.error, Stopped):
                raise done.error
            return row_of_error(done.day, done.error)
        assert done.given is not None  # noqa: S101 - for the type checker: a day without an error has given something
        return show(done.day, done.given)


def _by_day(rows: Sequence[DayRow]) -> tuple[DayRow, ...]:
    return tuple(sorted(rows, key=lambda row: row.day))


def _show(summary: RunSummary, as_json: bool) -> None:  # noqa: FBT001 - a private step of `run`
    if as_json:
        sys.stdout.write(msgspec.json.encode(summary).decode() + "\n")
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("day", "state", "verdict"):
        table.add_column(name, no_wrap=True)
    for name in ("rows", "files", "seconds"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("reason", overflow="fold")
    for row in summary.days:
        # Text, not markup: a reason may name keys, and these are whatever somebody put into the bucket.
        table.add_row(
            row.day,
            row.state,
            row.verdict or "",
            _number(row.rows),
            _number(row.files),
            f"{row.seconds:.1f}",
            Text("; next step: ".join(filter(None, (row.reason, row.next_step)))),
        )
    Console().print(table)


def _number(count: int | None) -> str:
    return "" if count is None else f"{count:,}"
