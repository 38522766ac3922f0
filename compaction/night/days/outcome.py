"""The rows of the table that a run of several days ends with, and the run's exit code."""

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from compaction.audit.examined import DayResult
from compaction.night.days.stop import Stopped
from compaction.night.dry_run import DryRun
from compaction.night.rewrite import Compacted
from compaction.verdict.exit_code import DayEnd, FailOn, exit_code, was_read
from minutebook.errors import CatalogRefused, MinutebookError
from minutebook.format.day import Day
from minutebook.published.verdict import Verdict

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
