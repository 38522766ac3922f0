"""The last days as they were published: a night is judged beside the nights before it.

Read from the pointers and the audits that they name, two small objects a day. What cannot be read is a day that says
why: a report is never held up by its trend.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from compaction.verdict.audit_document import Audit
from minutebook.errors import MinutebookError
from minutebook.format.day import Day
from minutebook.published.generation import DayFolder
from minutebook.published.reading import PublishedReader
from minutebook.published.verdict import Verdict
from minutebook.store.parallel import in_parallel
from minutebook.store.places import StorePrefix
from minutebook.store.retrying import RetryingStorage

DAYS: Final = 14


class TrendDay(NamedTuple):
    """One day: its verdict and rows as the pointer has them, records and findings as its audit has them.

    `verdict` None: it is not published, or could not be read, and `note` says what of it. `findings` are defects,
    unknowns and warnings; None where the audit is gone.
    """

    day: str
    verdict: Verdict | None = None
    rows: int = 0
    findings: tuple[int, int, int] | None = None
    generation: str = ""
    note: str = ""


class Trend(NamedTuple):
    """The days up to the one that the report is about, in order; `where` they are published."""

    where: str
    days: tuple[TrendDay, ...]

    @property
    def today(self) -> TrendDay:
        """The day of the report, as it is published."""
        return self.days[-1]

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing is known of any day."""
        return all(day.verdict is None and not day.note for day in self.days)


class _Severity(msgspec.Struct):
    severity: str


class _Counted(msgspec.Struct):
    """What a trend takes of an audit: the rest is passed over."""

    findings: tuple[_Severity, ...] = ()


def read_trend(storage: RetryingStorage, out: StorePrefix, day: Day, days: int = DAYS) -> Trend:
    """Read the last days up to and with `day`; never raises for what a store answers."""

    def read(number: int) -> TrendDay:
        one = day.shift(number)
        try:
            return _read_day(storage, out, one)
        except MinutebookError as exc:
            return TrendDay(str(one), note=str(exc))

    return Trend(storage.uri(out.prefix), tuple(in_parallel(read, list(range(1 - days, 1)))))


def _read_day(storage: RetryingStorage, out: StorePrefix, day: Day) -> TrendDay:
    reader = PublishedReader(storage, DayFolder(out.prefix, day))
    pointer = reader.current().pointer
    if pointer is None:
        return TrendDay(str(day))
    found = TrendDay(str(day), pointer.verdict, pointer.rows, None, pointer.generation)
    body = reader.audit(pointer)
    if body is None:
        return found._replace(note="its audit is gone")
    try:
        counted = msgspec.json.decode(body, type=_Counted)
    except msgspec.DecodeError as exc:
        return found._replace(note=f"its audit does not parse: {exc}")
    return found._replace(findings=by_severity([each.severity for each in counted.findings]))


def by_severity(severities: Sequence[str]) -> tuple[int, int, int]:
    """Count defects, unknowns and warnings."""
    return severities.count("defect"), severities.count("unknown"), severities.count("warning")


def of_audit(audit: Audit) -> TrendDay:
    """Return the day of a report as the report itself judges it."""
    rows = audit.equation.unique if audit.equation.compacted is None else audit.equation.compacted
    findings = by_severity([found.severity for found in audit.findings])
    return TrendDay(audit.scope.day, audit.verdict, rows, findings)
