"""A run of one day or several.

The error of a single day is raised, and its verdict is the exit code. Several days do not stop each other, and end
with a table, of a row a day, or one JSON document.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal, NamedTuple, TypeVar

import msgspec

from compaction.audit.conclusion import DayResult
from compaction.job.so_far import NoFullHour
from compaction.night.days.side_by_side import DayDone, DayWorkers
from compaction.night.days.stop import BudgetSpent, Stopped
from compaction.night.dry_run import DryRun
from compaction.night.due import DueDay, PointerWord, WorkFailed
from compaction.night.rewrite import Compacted
from compaction.report.metric_line import NightMetrics
from compaction.spark.engine import Progress
from compaction.verdict.audit_document import EXIT_CODES, blocking
from compaction.verdict.exit_code import DayEnd, FailOn, exit_code, was_read
from minutebook.errors import CatalogRefused, MinutebookError
from minutebook.format.day import Day
from minutebook.published.verdict import CLEAN, Verdict
from minutebook.terminal import Table, TerminalConsole
from minutebook.wording import printable_json

T = TypeVar("T")
FORMAT: Final = 1
_DAYS: Final = "days"
_NUMBERS: Final = ("rows", "files", "seconds")
State = Literal[
    "published",
    "already",
    "held",
    "early",
    "audited",
    "refused",
    "unavailable",
    "failed",
    "stopped",
    "left",
    "planned",
]
TableWord = Literal["same", "mended", "held", "away", "not asked"]
_REFUSED, _UNAVAILABLE = frozenset({2, 6}), 5
_NOT_BEGUN, _NOT_IN_TABLE = frozenset({"left", "stopped"}), frozenset({"held", "away"})
_SETTLED: Final = frozenset({"clean", "accepted", "expired"})
"""What readers see of a day that needs nobody."""

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

    `seconds` is how long the day took beside others; `reason` is empty on success. Only dry runs set `plan`. With
    `--due`, `pointer` is what readers see of the day afterwards, `done` the steps of this run, and `table` how the
    day is in the Iceberg table.
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
    pointer: PointerWord | msgspec.UnsetType = msgspec.UNSET
    done: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    table: TableWord | msgspec.UnsetType = msgspec.UNSET


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
    code = 0 if done.accepted else exit_code([DayEnd(done.verdict, done.state != "held")], fail_on)
    reason = f"accepted: {done.accepted}" if done.accepted else ""
    if done.state == "held":
        reason = done.reason
    elif done.table is not None and done.conflicts:
        code = worst([code, CatalogRefused.exit_code])
        reason = f"{done.table.table}: {done.conflicts}"
    elif done.table_error is not None:
        code, reason = worst([code, done.table_error.exit_code]), str(done.table_error)
    return DayRow(
        day=str(day),
        state=done.state,
        verdict=done.verdict,
        rows=None if done.manifest is None else done.manifest.rows,
        files=None if done.manifest is None else len(done.manifest.files),
        exit_code=code,
        reason=reason,
    )


def row_of_due(
    due: DueDay,
    done: Compacted,
    pointer: PointerWord,
    fail_on: FailOn,
    *,
    has_table: bool = False,
    today: Day | None = None,
) -> DayRow:
    """Return the row of a day of `--due`; `pointer` is what readers see of it now. `today` tells its age."""
    row = row_of_compaction(due.day, done, fail_on)
    reason, next_step, code = row.reason, row.next_step, row.exit_code
    if due.is_expired:
        code = 0 if done.table_error is None else done.table_error.exit_code
        if done.state == "held":
            code = worst([code, EXIT_CODES[done.verdict]])
            next_step = "rows are read as they are published now; restore, and run the command again: it compares"
        if due.zombies:
            code = worst([code, EXIT_CODES["unknown"]])
            reason = f"objects came after it was expired: {', '.join(due.zombies)}"
            next_step = "find out which writer was so late, and keep these objects: nothing else holds their records"
        if due.damage:
            code, reason = worst([code, EXIT_CODES["unknown"]]), f"its tombstone cannot be read: {due.damage}"
            next_step = "restore its tombstone from a version of it: no day beside it can be proven without it"
    elif done.state == "held":
        codes = [] if done.result is None else sorted({about.code for about in blocking(done.result.audit)})
        age = "" if today is None else f", {today.number - due.day.number - 1} day(s) after its end"
        reason = f"blocked by {', '.join(codes) or done.verdict}{age}; it began with: {due.why}"
        next_step = (
            f"minutebook audit --date {due.day} shows it; repair it, or compact --date {due.day} --accept REASON"
        )
    elif done.verdict != CLEAN and not done.accepted and not reason:
        reason = "it could not be proven" if done.verdict == "unknown" else "defects were found"
        next_step = f"minutebook audit --date {due.day} says what"
    if code == 0 and not due.is_expired and pointer not in _SETTLED:
        # Another run has published since.
        code, reason = EXIT_CODES["unknown"], f"another run has published it meanwhile: readers see {pointer}"
        next_step = f"minutebook audit --date {due.day} says what"
    steps = (*done.done, *(("swept",) if done.swept else ()), *(("blocked",) if done.state == "held" else ()))
    return msgspec.structs.replace(
        row,
        exit_code=code,
        reason=reason,
        next_step=next_step,
        pointer=pointer,
        done=steps or ("nothing",),
        table=_table_word(done, has_table=has_table),
    )


def _table_word(done: Compacted, *, has_table: bool) -> TableWord:
    if done.table_error is not None:
        return "away"
    if done.table is None:  # nothing is published that a table could lack
        return "same" if has_table else "not asked"
    words: dict[str, TableWord] = {"already": "same", "committed": "mended", "held": "held"}
    return words[done.table.state]


def count_due(rows: Sequence[DayRow], older: Iterable[Day] = ()) -> NightMetrics:
    """Count what somebody has to look at; `older` are days before the window that are neither clean nor accepted."""
    looked_at = {row.day for row in rows}
    begun = [row for row in rows if row.state not in _NOT_BEGUN]
    tables = [row.table for row in begun if row.table not in {msgspec.UNSET, "not asked"}]
    return NightMetrics(
        days_open=sum(map(_is_open, begun)) + sum(str(day) not in looked_at for day in older),
        days_left=len(rows) - len(begun),
        days_not_in_table=sum(table in _NOT_IN_TABLE for table in tables) if tables else None,
    )


def _is_open(row: DayRow) -> bool:
    """Return whether readers do not see the day settled, or its code is not that of the table alone."""
    return row.pointer not in _SETTLED or (row.exit_code != 0 and row.table not in _NOT_IN_TABLE)


def row_of_plan(plan: DryRun) -> DayRow:
    """Return the row of a dry run."""
    return DayRow(day=plan.day, state="planned", reason=plan.sentence, plan=plan)


def row_of_due_plan(due: DueDay) -> DayRow:
    """Return the row of a dry run of `--due`. Whether a day is written anew, only its judgement can say."""
    action = f"would be judged, and written where that takes it: {due.why}" if due.why else "nothing to do"
    if due.is_expired:
        action = "nothing to do: it is expired"
    if due.zombies:
        action = f"objects came after it was expired: {', '.join(due.zombies)}"
    if due.damage:
        action = f"its tombstone is damaged: {due.damage}"
    return DayRow(day=str(due.day), state="planned", reason=action, pointer=due.pointer)


def row_of_error(day: Day, error: MinutebookError) -> DayRow:
    """Return the row of a day that ended with an error."""
    code = error.exit_code
    if isinstance(error, WorkFailed):
        row = msgspec.structs.replace(row_of_error(day, error.error), reason=str(error))
        return msgspec.structs.replace(row, pointer="unknown", done=("withdrawn",)) if error.is_withdrawn else row
    if isinstance(error, BudgetSpent):
        return DayRow(day=str(day), state="left", exit_code=code, reason=str(error), next_step=error.next_step)
    if isinstance(error, Stopped):
        return DayRow(day=str(day), state="stopped", exit_code=code)
    if isinstance(error, NoFullHour):
        state: State = "early"
    elif code in _REFUSED:
        state = "refused"
    else:
        state = "unavailable" if code == _UNAVAILABLE else "failed"
    return DayRow(day=str(day), state=state, exit_code=code, reason=str(error), next_step=error.next_step)


def worst(codes: Iterable[int]) -> int:
    """Return the worst exit code; 0 without any."""
    return min(codes, key=WORST_FIRST.index, default=0)


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` prints for several days; `older` tells of the days before the window of `--due`.

    `applied`: whether `compact` did what the rows say, or planned it; unset for `audit`.
    """

    format: int
    command: str
    exit_code: int
    days: tuple[DayRow, ...]
    older: str | msgspec.UnsetType = msgspec.UNSET
    applied: bool | msgspec.UnsetType = msgspec.UNSET


class DaysRun(NamedTuple):
    """A run of one day or `many`, shown to a person or `as_json`; `report` gets the count of days done and of all.

    `measure` gets the rows at the end.
    """

    command: str
    many: bool
    as_json: bool
    workers: DayWorkers
    report: Progress
    older: str | None = None
    measure: Callable[[Sequence[DayRow]], None] = lambda _: None
    applied: bool | msgspec.UnsetType = msgspec.UNSET

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
        self.measure(rows)
        if self.many:
            rows.sort(key=lambda row: row.day)
            older = msgspec.UNSET if self.older is None else self.older
            summary = RunSummary(
                format=FORMAT,
                command=self.command,
                exit_code=code,
                days=tuple(rows),
                older=older,
                applied=self.applied,
            )
            _show(summary, self.as_json)
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
        sys.stdout.write(printable_json(msgspec.json.encode(summary).decode()) + "\n")
        return
    is_due = summary.older is not msgspec.UNSET
    table = Table(
        "day", *(("pointer", "done", "table") if is_due else ("state", "verdict")), *_NUMBERS, numbers=_NUMBERS
    )
    for row in summary.days:
        reason = "; next step: ".join(filter(None, (row.reason, row.next_step)))
        cells = _cells_of_due(row) if is_due else (row.state, row.verdict or "")
        numbers = _number(row.rows), _number(row.files), f"{row.seconds:.1f}"
        table.add(row.day, *cells, *numbers, beside=[reason] if reason else [])
    console = TerminalConsole()
    console.print(table)
    if summary.older:
        console.print(summary.older)
    if any(row.state == "stopped" for row in summary.days):
        console.print("stopped: run the command again, it finishes what is left")


def _cells_of_due(row: DayRow) -> tuple[str, ...]:
    """Return the cells; a day that failed or was not begun has its state in place of what was done."""
    done = row.state if isinstance(row.done, msgspec.UnsetType) else ", ".join(row.done)
    pointer = "" if isinstance(row.pointer, msgspec.UnsetType) else row.pointer
    table = "" if isinstance(row.table, msgspec.UnsetType) else row.table
    return pointer, done, table


def _number(count: int | None) -> str:
    return "" if count is None else f"{count:,}"
