"""A run of one day or several.

The error of a single day is raised, and its verdict is the exit code. Several days do not stop each other, and end
with a table, of a row a day, or one JSON document.
"""

import sys
from collections import Counter
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
from compaction.tables.plan import NEXT_STEP
from compaction.tasks.progress import Progress
from compaction.verdict.audit_document import EXIT_CODES, blocking
from compaction.verdict.exit_code import DayEnd, FailOn, exit_code, was_read
from minutebook.errors import WORST_FIRST, CatalogRefused, MinutebookError, SafetyRefusal, worst
from minutebook.format.day import Day
from minutebook.published.verdict import CLEAN, Verdict
from minutebook.streams_run import StreamEnd
from minutebook.terminal import Table, TerminalConsole
from minutebook.wording import ITEM, error_lines, printable_json

T = TypeVar("T")
FORMAT: Final = 1
KEPT_COLUMNS: Final = "it keeps the columns that it was published with, which are not those of --columns"
REWRITE_COLUMNS: Final = "compact --rewrite-columns writes it by --columns"
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
    in_table = _in_table(done)
    reason = in_table.reason
    if done.state == "held":
        reason = _joined(done.reason, reason)
    elif done.accepted and not reason:
        reason = f"accepted: {done.accepted}"
    return DayRow(
        day=str(day),
        state=done.state,
        verdict=done.verdict,
        rows=None if done.manifest is None else done.manifest.rows,
        files=None if done.manifest is None else len(done.manifest.files),
        exit_code=worst([code, in_table.exit_code]),
        reason=reason,
        next_step=in_table.next_step,
    )


def limited(row: DayRow, done: Compacted, max_unfit: float | None) -> DayRow:
    """Return the row with exit code 4 if more than a share of the day's rows do not fit their columns.

    Only of days that this run judged: a day that is as it was has no audit here.
    """
    typed = None if done.result is None else done.result.audit.typed
    if max_unfit is None or typed is None or typed.unfit <= max_unfit * typed.rows:
        return row
    reason = f"{typed.unfit:,} of {typed.rows:,} rows do not fit their columns, more than --max-unfit {max_unfit:g}"
    return msgspec.structs.replace(
        row,
        exit_code=worst([row.exit_code, EXIT_CODES["unknown"]]),
        reason=_joined(row.reason, reason),
        next_step=row.next_step or "minutebook columns --columns FILE shows which values do not fit, and where",
    )


def with_kept_columns(row: DayRow, done: Compacted) -> DayRow:
    """Return the row of a day that a person named, which says so where it has other columns than were given."""
    if not done.keeps_columns or done.state == "held":
        return row
    return msgspec.structs.replace(
        row, reason=_joined(row.reason, KEPT_COLUMNS), next_step=row.next_step or REWRITE_COLUMNS
    )


class _InTable(NamedTuple):
    """What the Iceberg table alone makes of a day's row."""

    exit_code: int = 0
    reason: str = ""
    next_step: str = ""


def _in_table(done: Compacted) -> _InTable:
    if done.table is not None and done.conflicts:
        return _InTable(CatalogRefused.exit_code, f"{done.table.table}: {done.conflicts}", NEXT_STEP)
    error = done.table_error
    return _InTable() if error is None else _InTable(error.exit_code, str(error), error.next_step)


def _joined(*texts: str) -> str:
    return "; ".join(filter(None, texts))


def row_of_due(
    due: DueDay,
    done: Compacted,
    pointer: PointerWord,
    fail_on: FailOn,
    *,
    has_table: bool = False,
    today: Day | None = None,
    audit: str = "minutebook audit",
) -> DayRow:
    """Return the row of a day of `--due`; `pointer` is what readers see of it now.

    `today` tells its age, and `audit` is the command line that next steps begin with.
    """
    row = row_of_compaction(due.day, done, fail_on)
    reason, next_step, code = row.reason, row.next_step, row.exit_code
    in_table = _in_table(done)
    if due.is_expired:
        code = in_table.exit_code
        if done.state == "held":
            code = worst([code, EXIT_CODES[done.verdict]])
            next_step = "rows are read as they are published now; restore, and run the command again: it compares"
        if due.zombies:
            code = worst([code, EXIT_CODES["unknown"]])
            reason = _joined(reason, _came(due))
            next_step = "find out which writer was so late, and keep these objects: nothing else holds their records"
        if due.lost:
            code = worst([code, EXIT_CODES["unknown"]])
            reason = _joined(reason, _lost(due))
            next_step = "restore these objects from versions of them: the end of a shard's chain is read from them"
        if due.damage:
            code, reason = worst([code, EXIT_CODES["unknown"]]), _joined(reason, due.damage)
            next_step = "let this role list the day's folder, and run the command again: it compares"
            if due.tombstone is None:
                next_step = "restore its tombstone from a version of it: no day beside it can be proven without it"
    elif done.state == "held":
        codes = [] if done.result is None else sorted({about.code for about in blocking(done.result.audit)})
        age = "" if today is None else f", {today.number - due.day.number - 1} day(s) after its end"
        reason = f"blocked by {', '.join(codes) or done.verdict}{age}; it began with: {due.why}"
        next_step = f"{audit} --date {due.day} shows it; repair it, or compact --date {due.day} --accept REASON"
        reason, next_step = _joined(reason, in_table.reason), _joined(next_step, in_table.next_step)
    elif done.verdict != CLEAN and not done.accepted and not reason:
        reason = "it could not be proven" if done.verdict == "unknown" else "defects were found"
        next_step = f"{audit} --date {due.day} says what"
    if code == 0 and not due.is_expired and pointer not in {*_SETTLED, done.verdict}:
        # Another run has published since.
        code, reason = EXIT_CODES["unknown"], f"another run has published it meanwhile: readers see {pointer}"
        next_step = f"{audit} --date {due.day} says what"
    steps = (*done.done, *(("swept",) if done.swept else ()), *(("blocked",) if done.state == "held" else ()))
    return msgspec.structs.replace(
        row,
        exit_code=code,
        reason=reason,
        next_step=next_step,
        pointer=pointer,
        done=steps or ("nothing",),
        table=_table_word(done, pointer, has_table=has_table),
    )


def _came(due: DueDay) -> str:
    return f"objects came after it was expired: {', '.join(due.zombies)}" if due.zombies else ""


def _lost(due: DueDay) -> str:
    return f"objects that were kept when it was expired are gone: {', '.join(due.lost)}" if due.lost else ""


def _table_word(done: Compacted, pointer: PointerWord, *, has_table: bool) -> TableWord:
    if isinstance(done.table_error, SafetyRefusal):
        return "held"
    if done.table_error is not None:
        return "away"
    if done.table is None and has_table:  # of a blocked day it was not looked at; else nothing is there to lack
        return "held" if done.state == "held" and pointer != "none" else "same"
    if done.table is None:
        return "not asked"
    words: dict[str, TableWord] = {"already": "same", "committed": "mended", "held": "held"}
    return words[done.table.state]


def count_due(rows: Sequence[DayRow], older: Iterable[Day] = ()) -> NightMetrics:
    """Count what somebody has to look at; `older` are days before the window that are neither clean nor accepted."""
    looked_at = {row.day for row in rows}
    begun = [row for row in rows if row.state not in _NOT_BEGUN]
    known = [*begun, *(row for row in rows if row.state in _NOT_BEGUN and row.pointer is not msgspec.UNSET)]
    tables = [row.table for row in begun if row.table not in {msgspec.UNSET, "not asked"}]
    return NightMetrics(
        days_open=sum(map(_is_open, known)) + sum(str(day) not in looked_at for day in older),
        days_left=len(rows) - len(begun),
        days_not_in_table=sum(table in _NOT_IN_TABLE for table in tables) if tables else None,
    )


def _is_open(row: DayRow) -> bool:
    """Return whether readers do not see the day settled, or its code is not that of the table alone."""
    is_table_alone = row.table in _NOT_IN_TABLE and row.state != "held"
    return row.pointer not in _SETTLED or (row.exit_code != 0 and not is_table_alone)


def row_of_plan(plan: DryRun) -> DayRow:
    """Return the row of a dry run."""
    return DayRow(day=plan.day, state="planned", reason=plan.sentence, plan=plan)


def row_of_due_plan(due: DueDay, objection: str = "") -> DayRow:
    """Return the row of a dry run of `--due`. Whether a day is written anew, only its judgement can say.

    `objection`: why an expired day would be blocked.
    """
    action = f"would be judged, and written where that takes it: {due.why}" if due.why else "nothing to do"
    if due.is_expired:
        blocked = f"would be blocked: {objection}" if objection else ""
        action = _joined(blocked, _came(due), _lost(due), due.damage) or "nothing to do: it is expired"
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


def with_unwritten_report(row: DayRow, error: MinutebookError) -> DayRow:
    """Return the row of a day that is done, and whose report was not written."""
    reason, next_step = _joined(row.reason, str(error)), _joined(row.next_step, error.next_step)
    code = worst([row.exit_code, error.exit_code])
    return msgspec.structs.replace(row, exit_code=code, reason=reason, next_step=next_step)


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


def end_of_stream(summary: RunSummary, code: int) -> StreamEnd:
    """Return how the days of a stream of a folder ended: what they came to, and what the worst of them says."""
    counts = Counter(_word_of_end(row) for row in summary.days)
    words = ", ".join(f"{count} {word}" for word, count in counts.most_common())
    outcome, next_step = f"{len(summary.days)} day(s)" + (f": {words}" if words else ""), ""
    bad = sorted((row for row in summary.days if row.exit_code), key=lambda row: _place(row.exit_code))
    if bad:
        more = f"; and {len(bad) - 1} more day(s)" if len(bad) > 1 else ""
        outcome += f"{ITEM}{bad[0].day}: {bad[0].reason or bad[0].state}{more}"
        next_step = bad[0].next_step
    return StreamEnd(code, outcome + (f"{ITEM}{summary.older}" if summary.older else ""), next_step, summary)


def _place(code: int) -> int:
    return WORST_FIRST.index(code) if code in WORST_FIRST else 0


def _word_of_end(row: DayRow) -> str:
    """Return what readers see of a day, else its verdict, else what became of it."""
    return str(row.pointer or row.verdict or row.state)


class DaysRun(NamedTuple):
    """A run of one day or `many`, shown to a person or `as_json`; `report` gets the count of days done and of all.

    `measure` gets the rows at the end, and `told` the whole of a run that is part of one over several streams: then
    JSON is not printed here.
    """

    command: str
    many: bool
    as_json: bool
    workers: DayWorkers
    report: Progress
    older: str | None = None
    measure: Callable[[Sequence[DayRow]], None] = lambda _: None
    applied: bool | msgspec.UnsetType = msgspec.UNSET
    told: Callable[[RunSummary], None] | None = None

    def reported(self, row: DayRow, error: MinutebookError | None) -> DayRow:
        """Return a day's row with the error of its report; that of a single day is raised, if the day is no worse."""
        if error is not None and not self.many:
            self.raise_unless_worse(row.exit_code, error)
            return row
        return row if error is None else with_unwritten_report(row, error)

    @staticmethod
    def raise_unless_worse(code: int, error: MinutebookError) -> None:
        """Raise an error beside an exit code, or only print it where the code is worse: nothing hides defects."""
        if worst([code, error.exit_code]) == error.exit_code:
            raise error
        sys.stderr.write(error_lines(str(error), error.next_step))

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
            if self.told is not None:
                self.told(summary)
            if self.told is None or not self.as_json:
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
